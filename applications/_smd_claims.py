"""What section 8.2 of the paper claims, against many matrices instead of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from applications._smd_examples import FAMILIES
from applications._smd_measures import (
    Results,
    device,
    eigenvalues,
    input_formats,
    largest_difference,
    shared_formats,
)
from applications._smd_runs import DOUBLE

# The paper shows one matrix. What it says of a ranking is called right if it is so for most
# matrices; by chance one of four devices would be ahead in a quarter of them.
MAJORITY = 0.5
VISIBLE_DB = 0.25  # about the width of a printed line on an axis of some 20 dB
IDENTICAL = 1e-3  # of the error that bf16 itself makes
UNSUITABLE = 5e-2  # relative error of the dominant eigenvalue, 0.2 dB


def claims(results: Results, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the claims of section 8.2 with verdicts over the matrices of the first family."""
    family = config["families"][0]
    groups = {
        name: {device(job): job for job in jobs} for name, jobs in input_formats(results).items()
    }
    return [
        _invisible(results, family),
        _nonzero(results, family),
        _mi210_farthest(results, family, groups.get("fp16", {})),
        _b200_nearest(results, family, groups.get("fp16", {})),
        _almost_identical(results, family, groups.get("bf16", {})),
        _eight_bits(results, family),
        {
            "id": "smd-curves",
            "section": "8.2",
            "claim": "The curves of Figures 7 to 9.",
            "paper": "One 8 x 8 matrix of polynomial order 8, unpublished.",
            "ours": f"Matrices of that size and order: {FAMILIES[family].label}.",
            "tolerance": "Only magnitudes and orders can be compared.",
            "verdict": "not comparable",
        },
    ]


def _claim(
    name: str, claim: str, paper: str, ours: str, tolerance: str, holds: bool | None
) -> dict[str, Any]:
    verdict = {True: "holds", False: "does not hold", None: "not comparable"}[holds]
    return {
        "id": f"smd-{name}",
        "section": "8.2",
        "claim": claim,
        "paper": paper,
        "ours": ours,
        "tolerance": tolerance,
        "verdict": verdict,
    }


def _missing(devices: Sequence[str], jobs: Mapping[str, str]) -> str:
    absent = [name for name in devices if name not in jobs]
    return f"not run: {', '.join(absent)}" if absent else ""


def _share(hits: NDArray[np.bool_]) -> str:
    return f"{int(hits.sum())} of {len(hits)} matrices"


def _majority(hits: NDArray[np.bool_]) -> bool:
    return bool(hits.sum() > MAJORITY * len(hits))


def _jobs(results: Results) -> list[str]:
    return [job for jobs in shared_formats(results).values() for job in jobs]


def _invisible(results: Results, family: str) -> dict[str, Any]:
    medians = {}
    for job in _jobs(results):
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = eigenvalues(results, job, family) / eigenvalues(results, DOUBLE, family)
            decibels = np.abs(10 * np.log10(ratio)).max(axis=1)
        # Without a positive eigenvalue, or with a non-finite run, as far off as can be.
        medians[job] = float(np.median(np.nan_to_num(decibels, nan=np.inf)))
    worst = max(medians, key=lambda job: medians[job])
    return _claim(
        "invisible",
        "No visible difference between the dominant eigenvalues of different GEMM models.",
        "Figure 7",
        f"Largest difference to double over frequency, median over the matrices: at most "
        f"{medians[worst]:.2g} dB ({worst}).",
        f"{VISIBLE_DB} dB, a line's width on an axis of 20 dB (an axis of 2 dB shows bf16 apart)",
        medians[worst] < VISIBLE_DB,
    )


def _nonzero(results: Results, family: str) -> dict[str, Any]:
    smallest = {
        job: float(
            np.nan_to_num(largest_difference(results, job, DOUBLE, family), nan=np.inf).min()
        )
        for job in _jobs(results)
    }
    least = min(smallest, key=lambda job: smallest[job])
    return _claim(
        "nonzero",
        "The difference to double is not zero.",
        "Figure 8",
        f"Smallest over all cores and matrices: {smallest[least]:.1e} of the largest dominant "
        f"eigenvalue ({least}).",
        "above 0",
        smallest[least] > 0,
    )


def _between(results: Results, family: str, jobs: Mapping[str, str], replayed: bool) -> Any:
    """Return a function from two devices to their largest difference for each matrix."""

    def between(one: str, other: str) -> NDArray[Any]:
        return largest_difference(results, jobs[one], jobs[other], family, replayed)

    return between


def _finite(distances: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the distances of the matrices on which every run was finite."""
    stacked = np.array(distances)
    return stacked[:, np.isfinite(stacked).all(axis=0)]


def _mi210_farthest(results: Results, family: str, jobs: Mapping[str, str]) -> dict[str, Any]:
    devices = ["MI100", "MI210", "MI300X", "B200"]
    text = "MI210 differs most from the other models in fp16."
    paper = "Figure 9: comparatively larger differences of MI210"
    tolerance = f"MI210's mean distance to the others is the largest in over {MAJORITY:.0%}"
    if missing := _missing(devices, jobs):
        return _claim("mi210-farthest", text, paper, missing, tolerance, None)
    hits = []
    for replayed in (False, True):
        between = _between(results, family, jobs, replayed)
        means = [
            np.mean([between(one, other) for other in devices if other != one], axis=0)
            for one in devices
        ]
        hits.append(np.argmax(_finite(means), axis=0) == devices.index("MI210"))
    ours = f"{_share(hits[0])}; repeating the decisions of double: {_share(hits[1])}."
    return _claim("mi210-farthest", text, paper, ours, tolerance, _majority(hits[0]))


def _b200_nearest(results: Results, family: str, jobs: Mapping[str, str]) -> dict[str, Any]:
    others = ["MI210", "MI300X", "B200"]
    text = "B200 is the nearest to MI100 in fp16."
    paper = "Figure 9: smallest difference with respect to MI100"
    tolerance = f"nearest in over {MAJORITY:.0%} of the matrices"
    if missing := _missing(["MI100", *others], jobs):
        return _claim("b200-nearest", text, paper, missing, tolerance, None)
    hits = []
    for replayed in (False, True):
        between = _between(results, family, jobs, replayed)
        distances = [between("MI100", other) for other in others]
        hits.append(np.argmin(_finite(distances), axis=0) == others.index("B200"))
    ours = f"{_share(hits[0])}; repeating the decisions of double: {_share(hits[1])}."
    return _claim("b200-nearest", text, paper, ours, tolerance, _majority(hits[0]))


def _almost_identical(results: Results, family: str, jobs: Mapping[str, str]) -> dict[str, Any]:
    text = "MI300X and MI100 are almost identical in bf16, but not exactly."
    paper = "Figure 9: almost identical, difference small but not exactly zero"
    tolerance = f"below {IDENTICAL} of MI100's own error in over {MAJORITY:.0%} of the matrices"
    if missing := _missing(["MI100", "MI300X"], jobs):
        return _claim("bf16-almost-identical", text, paper, missing, tolerance, None)
    hits, medians = [], []
    for replayed in (False, True):
        apart = _between(results, family, jobs, replayed)("MI100", "MI300X")
        error = largest_difference(results, jobs["MI100"], DOUBLE, family, replayed)
        hits.append(apart < IDENTICAL * error)
        medians.append(float(np.median(apart)))
        if not replayed:
            equal = apart == 0
    ours = (
        f"{_share(hits[0])}, median {medians[0]:.1e} of the largest eigenvalue, exactly equal in "
        f"{int(equal.sum())}; repeating the decisions of double: {_share(hits[1])}, "
        f"median {medians[1]:.1e}."
    )
    holds = _majority(hits[0]) and not equal.all()
    return _claim("bf16-almost-identical", text, paper, ours, tolerance, holds)


def _eight_bits(results: Results, family: str) -> dict[str, Any]:
    text = "fp8 is unsuitable: significantly larger deviations from double."
    paper = "no figure"
    tolerance = f"median error above {UNSUITABLE:.0%} for every 8-bit format"
    jobs = [
        job
        for name, group in input_formats(results).items()
        if name.startswith(("e4m3", "e5m2"))
        for job in group
    ]
    if not jobs:
        return _claim("fp8-unsuitable", text, paper, "no 8-bit core was run", tolerance, None)
    parts, medians = [], []
    for job in jobs:
        # A run that ended in an infinity is as far off as can be.
        error = np.nan_to_num(largest_difference(results, job, DOUBLE, family), nan=np.inf)
        unfinished = results[job]["status"].sel(family=family).values != 0
        medians.append(float(np.median(error)))
        parts.append(f"{job}: error {medians[-1]:.1%}, not converged {_share(unfinished)}")
    return _claim(
        "fp8-unsuitable",
        text,
        paper,
        "; ".join(parts) + ".",
        tolerance,
        min(medians) > UNSUITABLE,
    )
