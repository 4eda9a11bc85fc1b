"""The jobs of the multi-word study: data, words, products and what is measured of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from applications import _multiword_published as published
from applications._multiword_algorithm import (
    Engine,
    Way,
    Words,
    exact_products,
    scaled_products,
    scales,
    split_pair,
)
from applications._multiword_data import (
    DECADES,
    PublishedStream,
    independent_matrices,
    published_points,
)
from applications._multiword_reference import Reference, product_of_norms, reference
from applications._multiword_split import FP32_MIN_NORMAL, theta
from applications._ozaki import ozaki_matmul
from mfmamodels import core
from mfmamodels.formats import Format, get_format

Progress = Callable[[int, int, str], None] | None

#: MI300X with truncation in place of its two roundings down: what do these cost? No fast kernel
#: covers it, so it is computed only where the question arises: (p, n) with a long sum.
WITHOUT_RD = "MI300X/e5m2fnuz:join_rounding=rtz:c.rounding=rtz"
WITHOUT_RD_POINTS = frozenset({(6, 14384), (6, 1000000)})

#: Sizes above this get fewer draws: they take most of the time.
LARGE = 100_000

_LONG_NAMES = {
    "error": "norm-wise error ||C - AB|| / (||A|| ||B||), infinity norms",
    "componentwise": "component-wise error max |C - AB| / (|A| |B|)",
    "accumulation": "norm-wise error of the core's sums alone: C minus its products summed exactly",
    "bias": "signed share of the accumulation error, sum(e) / sum|e|: -1 where all are down",
    "shrinkage": "the same with the sign of the result: -1 where all errors are toward zero",
    "floor": "norm-wise error of the split alone: the words multiplied and summed exactly",
    "floor_componentwise": "component-wise error of the split alone",
    "bound": "bound (3.26): 2u + nU + 4 n^2 fmin/theta + 4 n^2 Fmin/theta^2",
    "bound_words": "bound (3.26) with (p + 1) u^p in place of 2u",
    "ozaki": "norm-wise error of Ozaki's scheme I with int8 slices",
}


@dataclass(frozen=True)
class Judged:
    """Errors of one product; names as in the result files."""

    error: float
    componentwise: float
    accumulation: float
    bias: float
    shrinkage: float


def engine(name: str) -> Engine:
    """A core, or a sibling of one, as an engine."""
    record = core(name)
    return Engine(name, record.matmul, record.a)


def bounds(fmt: Format, n: int, words: int) -> tuple[float, float]:
    """Bound (3.26) and the same for p words.

    Parameters
    ----------
    fmt : Format
        Of the words, with u = 2^-t.
    n, words : int
    """
    u, unit = 2.0**-fmt.precision, 2.0**-24
    limit = theta(fmt, n)
    rest = n * unit + 4 * n**2 * (fmt.min_normal / limit + FP32_MIN_NORMAL / limit**2)
    return 2 * u + rest, (words + 1) * u**words + rest


class Table:
    """Arrays of results, filled point by point."""

    def __init__(
        self, cores: Sequence[str], words: Sequence[int], sizes: Sequence[int], draws: int
    ):
        self.coords: dict[str, list] = {"core": [*cores], "words": [*words], "n": [*sizes]}
        shape = (len(words), len(sizes), draws)
        self.values = {
            **{f: np.full((len(cores), *shape), np.nan) for f in Judged.__dataclass_fields__},
            **{f: np.full(shape, np.nan) for f in ("floor", "floor_componentwise")},
        }

    def put(self, name: str, p: int, n: int, draw: int, judged: Judged) -> None:
        """Enter the errors of a core."""
        place = (*(self._index(d, v) for d, v in (("core", name), ("words", p), ("n", n))), draw)
        for field in Judged.__dataclass_fields__:
            self.values[field][place] = getattr(judged, field)

    def put_floor(self, p: int, n: int, draw: int, judged: Judged) -> None:
        """Enter the errors of the exact engine: those of the split."""
        place = (self._index("words", p), self._index("n", n), draw)
        self.values["floor"][place] = judged.error
        self.values["floor_componentwise"][place] = judged.componentwise

    def _index(self, dimension: str, value: Any) -> int:
        return self.coords[dimension].index(value)

    def dataset(self, fmt: Format, attributes: Mapping[str, str | int | float]) -> xr.Dataset:
        """Everything entered, with the bounds."""
        sizes, words = self.coords["n"], self.coords["words"]
        by_words = [[bounds(fmt, n, p)[1] for n in sizes] for p in words]
        variables: dict[str, Any] = {
            name: (("core", "words", "n", "draw")[-value.ndim :], value)
            for name, value in self.values.items()
        }
        variables["bound"] = (("n",), [bounds(fmt, n, 1)[0] for n in sizes])
        variables["bound_words"] = (("words", "n"), by_words)
        data = xr.Dataset(variables, self.coords, {"words_format": fmt.name, **attributes})
        return described(data)


def described(data: xr.Dataset) -> xr.Dataset:
    """Add units and long names."""
    for name in data.data_vars:
        data[name].attrs = {"units": "1", "long_name": _LONG_NAMES[str(name)]}
    return data


def judge(c: NDArray, exact: NDArray, ref: Reference) -> Judged:
    """Errors of the scaled product c of a core; `exact` is the exact sum of the same products."""
    product = c.astype(np.float64)
    off = product - exact
    # Signs are compared entry by entry: scaling does not change them, and weighs entries alike.
    size = np.abs(off).sum()
    difference = ref.difference(product)
    return Judged(
        ref.normwise(difference),
        ref.componentwise(difference),
        ref.normwise(off),
        float(off.sum() / size) if size else 0.0,
        float((off * np.sign(exact)).sum() / size) if size else 0.0,
    )


def binary64_reference(a: NDArray, b: NDArray, left: NDArray, right: NDArray) -> Reference:
    """What the published errors are measured against: a product in binary64."""
    exponents = left[:, None] + right[None, :]
    return Reference(
        np.ldexp(a @ b, exponents),
        np.zeros(exponents.shape),
        np.ldexp(np.abs(a) @ np.abs(b), exponents),
        exponents,
        *product_of_norms(a, b),
    )


def run_published(
    name: str, sizes: Sequence[int], cores: Sequence[str], progress: Progress
) -> xr.Dataset:
    """Everything published for one format of words.

    Parameters
    ----------
    name : str
        "fp16", "bf16" or "e5m2".
    sizes : sequence of int
        Those not among the published ones are left out.
    cores : sequence of str
        Some of the published ones of this format.
    progress : callable, optional
    """
    fmt = get_format(name)
    names = list(cores)
    if any(WITHOUT_RD.startswith(c.removesuffix("rd31")) for c in names):
        names.append(WITHOUT_RD)
    chosen = [n for n in published.SIZES if n in sizes]
    table = Table(names, published.WORDS[name], chosen, 1)
    stream = PublishedStream()
    later = [n for n in names if n in published.SECOND_IN_STREAM]
    runs = [[n for n in names if n not in later], *([later] if later else [])]
    total = sum(chosen) * len(published.WORDS[name]) * len(runs)
    done = 0
    for run in runs:
        engines = [engine(core_name) for core_name in run]
        points = published_points(stream, published.WORDS[name], frozenset(chosen))
        for p, n, (a, b) in points:
            _published_point(table, engines, fmt, p, n, a, b, with_floor=run is runs[0])
            done += n
            if progress:
                progress(done, total, f"p = {p}, n = {n}")
    return table.dataset(fmt, {"way": "published", "decades": DECADES, "split_rounding": "rtz"})


def _published_point(table, engines, fmt, p, n, a, b, *, with_floor) -> None:
    exponents = scales(a, b, fmt)
    ref = binary64_reference(a, b, *exponents)
    first_cell = p == table.coords["words"][0] and n == published.SIZES[0]
    for rounding in ("rtz", "rne") if first_cell else ("rtz",):
        nearest = rounding == "rne"
        group = [
            e
            for e in engines
            if (first_cell and e.name in published.FIRST_IN_SESSION) == nearest
            and (e.name != WITHOUT_RD or (p, n) in WITHOUT_RD_POINTS)
        ]
        words = split_pair(a, b, fmt, p, rounding, exponents)
        split_alone, judged = _judged(words, [p], group, Way(), ref)[p]
        for e, value in zip(group, judged, strict=True):
            table.put(e.name, p, n, 0, value)
        if with_floor and not nearest:
            table.put_floor(p, n, 0, split_alone)


def _judged(
    words: Words, counts: Sequence[int], engines: Sequence[Engine], way: Way, ref: Reference
) -> dict[int, tuple[Judged, list[Judged]]]:
    """Errors per number of words: of the words multiplied exactly, and of the engines."""
    inputs = {words.format: words}  # the format of the words always, and first
    for e in engines:
        inputs.setdefault(e.inputs, words.converted(e.inputs))
    found: dict[int, tuple[Judged, dict[str, Judged]]] = {}
    for fmt, converted in inputs.items():
        group = [e for e in engines if e.inputs == fmt]
        exact = exact_products(converted, counts, way.order)
        for p, products in scaled_products(converted, counts, group, way).items():
            found.setdefault(p, (judge(exact[p], exact[p], ref), {}))
            for e, c in zip(group, products, strict=True):
                found[p][1][e.name] = judge(c, exact[p], ref)
    return {p: (alone, [by[e.name] for e in engines]) for p, (alone, by) in found.items()}


def run_default(
    name: str, options: Mapping[str, Any], cores: Sequence[str], seed: int, progress: Progress
) -> xr.Dataset:
    """The study's own way: words rounded to nearest, several independent draws per size.

    Parameters
    ----------
    name : str
        Format of the words.
    options : mapping
        The study's section of the configuration.
    cores : sequence of str
    seed : int
        Root seed.
    progress : callable, optional
    """
    fmt = get_format(name)
    counts = options["formats"][name]["words"]
    way = Way(options["order"], options["promotion"])
    table = Table(cores, counts, options["sizes"], options["draws"])
    engines = [engine(core_name) for core_name in cores]
    for n, draw, (a, b) in _draws(name, options, seed, progress):
        exponents = scales(a, b, fmt)
        ref = reference(a, b, *exponents)
        words = split_pair(a, b, fmt, max(counts), options["split_rounding"], exponents)
        del a, b  # the largest arrays: the products need room for copies of the words
        for p, (alone, judged) in _judged(words, counts, engines, way, ref).items():
            table.put_floor(p, n, draw, alone)
            for e, value in zip(engines, judged, strict=True):
                table.put(e.name, p, n, draw, value)
    return table.dataset(fmt, {"way": "default", **_settings(options)})


def run_ozaki(options: Mapping[str, Any], seed: int, progress: Progress) -> xr.Dataset:
    """Ozaki's scheme I on data of the same kind; arguments as in :func:`run_default`."""
    counts, sizes = options["slices"], options["sizes"]
    errors = np.full((len(counts), len(sizes), options["draws"]), np.nan)
    for n, draw, (a, b) in _draws("int8", options, seed, progress):
        ref = reference(a, b, *scales(a, b, get_format("fp16")))
        for q, (product, exponents) in ozaki_matmul(a, b, counts).items():
            # Both are scaled by powers of two: bring ours to the reference's scale.
            scaled = np.ldexp(product, exponents + ref.exponents)
            place = counts.index(q), sizes.index(n), draw
            errors[place] = ref.normwise(ref.difference(scaled))
    data = xr.Dataset(
        {"ozaki": (("slices", "n", "draw"), errors)},
        {"slices": counts, "n": sizes},
        {"way": "default", **_settings(options)},
    )
    return described(data)


def _settings(options: Mapping[str, Any]) -> dict[str, str | int | float]:
    return {key: options[key] for key in ("decades", "split_rounding", "order", "promotion")}


def _draws(
    name: str, options: Mapping[str, Any], seed: int, progress: Progress
) -> Iterator[tuple[int, int, tuple[NDArray, NDArray]]]:
    """Yield (n, draw, (A, B)) for all sizes, largest first: memory is short at once or never."""
    few = min(options["draws"], options["draws_large"])
    draws = {n: few if n > LARGE else options["draws"] for n in options["sizes"]}
    total, done = sum(n * count for n, count in draws.items()), 0
    for n in sorted(draws, reverse=True):
        for draw in range(draws[n]):
            yield (
                n,
                draw,
                independent_matrices(seed, f"multiword/{name}", n, draw, options["decades"]),
            )
            done += n
            if progress:
                progress(done, total, f"n = {n}, draw {draw + 1}")
