"""What section 8.1 says, and whether the numbers agree, for the published split and for ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from applications._multiword_figures import printed_cores

if TYPE_CHECKING:
    import xarray as xr

Data = Mapping[str, "xr.Dataset"]
Numbers = dict[str, Any]

CDNA = ("MI100", "MI250", "MI300X")
LARGE = 1000  # slopes are fitted from here on


@dataclass(frozen=True)
class Claim:
    """A claim with the numbers that the published files give for it, and how ours are judged.

    `measure` raises KeyError or IndexError where the results lack what it needs; `test` says of
    what it returned whether the claim holds.
    """

    id: str
    claim: str
    paper: Numbers
    tolerance: str
    measure: Callable[[Data], Numbers]
    test: Callable[[Numbers], bool]


def judge_all(results: Data) -> list[dict[str, Any]]:
    """All claims, judged on both ways; ``ours`` has the numbers of each."""
    ways = {
        "published": {
            job.partition(":")[0]: data
            for job, data in results.items()
            if job.endswith(":published")
        },
        "default": {job: data for job, data in results.items() if ":" not in job},
    }
    return [_judged(claim, ways) for claim in CLAIMS]


def _judged(claim: Claim, ways: Mapping[str, Data]) -> dict[str, Any]:
    ours, holds = {}, {}
    for way, data in ways.items():
        try:
            ours[way] = claim.measure(data)
        except LookupError:  # this run lacks the format, the core or the size
            continue
        holds[way] = claim.test(ours[way])
    return {
        "id": f"multiword-{claim.id}",
        "section": "8.1",
        "claim": claim.claim,
        "paper": claim.paper,
        "ours": ours,
        "tolerance": claim.tolerance,
        "verdict": _verdict(holds),
    }


def _verdict(holds: Mapping[str, bool]) -> str:
    if not holds:
        return "not comparable"
    if all(holds.values()):
        return "holds"
    return "holds only for the published split" if holds.get("published") else "does not hold"


# --- numbers --------------------------------------------------------------------------------


def errors(data: Data, fmt: str, device: str, words: int, variable: str = "error") -> xr.DataArray:
    """Median over the draws, by n, of a device of the paper's figures or of a core by its name."""
    dataset = data[fmt]
    name = printed_cores(dataset).get(device, device)
    return dataset[variable].sel(core=name, words=words).median("draw")


def ratio(data: Data, fmt: str, words: int, over: str, under: str) -> xr.DataArray:
    """Error of one device over that of another, by n."""
    return errors(data, fmt, over, words) / errors(data, fmt, under, words)


def within(values: xr.DataArray, smallest: int, largest: int | None = None) -> xr.DataArray:
    """Part of an array with n between the given ones; LookupError where there is none."""
    chosen = (values.n >= smallest) & (values.n <= (largest or values.n.max()))
    if not chosen.any():
        raise LookupError(f"no sizes from {smallest} to {largest}")
    return values.sel(n=chosen)


def slope(error: xr.DataArray, smallest: int = LARGE) -> float:
    """Least-squares slope of log(error) on log(n) for n from `smallest`."""
    chosen = within(error, smallest)
    if chosen.sizes["n"] < 3:
        raise LookupError("too few sizes for a slope")
    return _rounded(np.polyfit(np.log(chosen.n), np.log(chosen), 1)[0])


def _rounded(value: Any) -> float:
    """Three significant digits: more would be the noise of the draws."""
    return float(f"{float(value):.3g}")


def _alike(data: Data) -> Numbers:
    def spread(fmt: str, p: int) -> float:
        three = [errors(data, fmt, device, p) for device in CDNA]
        largest, smallest = np.maximum.reduce(three), np.minimum.reduce(three)
        return _rounded(within(three[0].copy(data=largest / smallest), 18).max())

    return {fmt: [spread(fmt, p) for p in (1, 2, 3)] for fmt in ("fp16", "bf16")}


_GROWING = (("fp16", 2), ("fp16", 3), ("bf16", 3))


def _growth(data: Data) -> Numbers:
    b200 = [slope(errors(data, fmt, "B200", p)) for fmt, p in _GROWING]
    cdna = [slope(errors(data, fmt, d, p)) for fmt, p in _GROWING for d in CDNA]
    return {"B200 fp16 p=2, 3, bf16 p=3": b200, "CDNA": [min(cdna), max(cdna)]}


def _gap(data: Data) -> Numbers:
    return {
        fmt: [_rounded(ratio(data, fmt, p, "B200", "MI300X").sel(n=1000000)) for p in (2, 3)]
        for fmt in ("fp16", "bf16")
    }


def _cause(data: Data) -> Numbers:
    at_end = [errors(data, "fp16", c, 2).sel(n=1000000) for c in ("B200/fp16:rne", "MI100")]
    return {
        "B200 RNE": _rounded(at_end[0]),
        "MI100": _rounded(at_end[1]),
        "ratio": _rounded(at_end[0] / at_end[1]),
    }


def _one_word(data: Data) -> Numbers:
    found: Numbers = {}
    for fmt in ("fp16", "bf16"):
        to_14384 = [within(ratio(data, fmt, 1, "B200", d), 18, 14384) for d in CDNA]
        found[fmt] = {
            "slope": slope(errors(data, fmt, "B200", 1)),
            "ratio": _rounded(max(float(r.max()) for r in to_14384)),
        }
    return found


def _fp8(data: Data) -> Numbers:
    one, four, six = (ratio(data, "e5m2", p, "B200", "MI300X") for p in (1, 4, 6))
    return {
        "p=1, largest": _rounded(one.max()),
        "p=4, largest up to n=2335": _rounded(within(four, 1, 2335).max()),
        "p=4, n=26366": _rounded(four.sel(n=26366)),
        "p=4, n=1e6": _rounded(four.sel(n=1000000)),
        "p=6, smallest from n=379": _rounded(within(six, 379).min()),
        "p=6, n=1e6": _rounded(six.sel(n=1000000)),
    }


def _rounding_down_16(data: Data) -> Numbers:
    return {
        fmt: [_rounded(ratio(data, fmt, p, "MI300X", "MI100").max()) for p in (2, 3)]
        for fmt in ("fp16", "bf16")
    }


def _rounding_down_8(data: Data) -> Numbers:
    error = errors(data, "e5m2", "MI300X", 6)
    bias = errors(data, "e5m2", "MI300X", 6, "bias").sel(n=1000000)
    without = next(
        (str(c) for c in data["e5m2"].core.values if "c.rounding=rtz" in str(c)), "no such core"
    )
    ends = [14384, 1000000]
    return {
        "n=14384, 1e6": [_rounded(error.sel(n=n)) for n in ends],
        "bias at 1e6": _rounded(bias),
        "with RTZ": [_rounded(errors(data, "e5m2", without, 6).sel(n=n)) for n in ends],
    }


CLAIMS = (
    Claim(
        "cdna-alike",
        "All CDNA matrix multipliers yield similar error (largest over smallest of the three for "
        "n >= 18; one, two, three words)",
        {"fp16": [1.00, 1.45, 2.68], "bf16": [1.00, 1.41, 2.10]},
        "ratio < 3",
        _alike,
        lambda m: max(m["fp16"] + m["bf16"]) < 3,
    ),
    Claim(
        "b200-grows",
        "B200's error grows with n, that of CDNA does not (slopes of log error "
        "on log n, n >= 1000)",
        {"B200 fp16 p=2, 3, bf16 p=3": [0.35, 0.34, 0.34], "CDNA": [-0.17, -0.01]},
        "B200 > +0.25, CDNA < +0.05",
        _growth,
        lambda m: min(m["B200 fp16 p=2, 3, bf16 p=3"]) > 0.25 and m["CDNA"][1] < 0.05,
    ),
    Claim(
        "b200-gap",
        "B200 has a larger error than CDNA with two and three words (B200 over MI300X at n = 1e6)",
        {"fp16": [196, 168], "bf16": [53, 134]},
        "ratio > 50",
        _gap,
        lambda m: min(m["fp16"] + m["bf16"]) > 50,
    ),
    Claim(
        "rtz-is-the-cause",
        "The difference is due to B200's final rounding toward zero: with rounding to nearest B200 "
        "would be as good as CDNA (fp16, two words, n = 1e6)",
        {"B200 RNE": 9.2e-9, "MI100": 7.9e-9, "ratio": 1.16},
        "ratio < 1.5",
        _cause,
        lambda m: m["ratio"] < 1.5,
    ),
    Claim(
        "b200-one-word",
        "B200 consistently has a larger error which grows with n, here with one word (slope for "
        "n >= 1000, and largest ratio to any CDNA up to n = 14384)",
        {"fp16": {"slope": -0.47, "ratio": 1.00}, "bf16": {"slope": -0.53, "ratio": 1.00}},
        "slope > +0.25 and ratio > 1.05",
        _one_word,
        lambda m: all(f["slope"] > 0.25 and f["ratio"] > 1.05 for f in m.values()),
    ),
    Claim(
        "fp8-large-n-or-six-words",
        "fp8: MI300X and B200 differ mainly where n is relatively large or six words are used "
        "(B200 over MI300X)",
        {
            "p=1, largest": 1.00,
            "p=4, largest up to n=2335": 1.05,
            "p=4, n=1e6": 9.75,
            "p=6, smallest from n=379": 2,
            "p=6, n=1e6": 17,
        },
        "p=1 everywhere and p=4 up to n=2335: < 1.05; p=6 from n=379: > 2",
        _fp8,
        lambda m: (
            m["p=1, largest"] < 1.05
            and m["p=4, largest up to n=2335"] < 1.05
            and m["p=6, smallest from n=379"] > 2
        ),
    ),
    Claim(
        "rd-16-bit",
        "The effect of rounding down in the alignment is not pronounced: fp16 and bf16 (MI300X "
        "over MI100, largest over n; two and three words)",
        {"largest of all": 2.1},
        "ratio < 3",
        _rounding_down_16,
        lambda m: max(m["fp16"] + m["bf16"]) < 3,
    ),
    Claim(
        "rd-8-bit",
        "The effect of rounding down in the alignment is not pronounced: fp8 with six words (error "
        "of MI300X, signed share of its accumulation error, error with truncation instead)",
        {"n=14384, 1e6": [6.7e-8, 3.25e-7], "bias at 1e6": -1.00, "with RTZ": [6.05e-8, 1.94e-8]},
        "error at n = 1e6 < 2 times that with truncation, and bias > -0.9",
        _rounding_down_8,
        lambda m: m["n=14384, 1e6"][1] < 2 * m["with RTZ"][1] and m["bias at 1e6"] > -0.9,
    ),
)
