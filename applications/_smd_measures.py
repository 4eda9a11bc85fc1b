"""Differences between runs of SMD, from the datasets of the study alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from applications._smd_runs import DOUBLE

if TYPE_CHECKING:
    import xarray as xr

Results = Mapping[str, "xr.Dataset"]


def device(job: str) -> str:
    """Return the device of a core's name."""
    return job.partition("/")[0]


def couple(one: str, other: str) -> str:
    """Return how two jobs are called together."""
    return f"{device(one)} \N{EN DASH} {device(other)}"


def input_formats(results: Results) -> dict[str, list[str]]:
    """Return the jobs on cores by input format, in the order of the study."""
    groups: dict[str, list[str]] = {}
    for job, dataset in results.items():
        if job != DOUBLE:
            groups.setdefault(dataset.attrs["input_format"], []).append(job)
    return groups


def shared_formats(results: Results) -> dict[str, list[str]]:
    """Return the groups of two cores or more, those of Figures 8 and 9; all if there is none."""
    groups = input_formats(results)
    return {name: jobs for name, jobs in groups.items() if len(jobs) > 1} or groups


def eigenvalues(results: Results, job: str, family: str, replayed: bool = False) -> NDArray[Any]:
    """Return the dominant eigenvalues of a family, shape (matrix, frequency).

    In units of the largest dominant eigenvalue that the double run found for the same matrix.
    """
    name = "eigenvalue_replayed" if replayed else "eigenvalue"
    own = results[job][name].sel(family=family).values
    reference = results[DOUBLE]["eigenvalue"].sel(family=family).values
    return own / reference.max(axis=1, keepdims=True)


def difference(
    results: Results, one: str, other: str, family: str, replayed: bool = False
) -> NDArray[Any]:
    """Return |difference of the dominant eigenvalues| of two jobs, shape (matrix, frequency)."""
    first = eigenvalues(results, one, family, replayed)
    return np.abs(first - eigenvalues(results, other, family, replayed))


def largest_difference(
    results: Results, one: str, other: str, family: str, replayed: bool = False
) -> NDArray[Any]:
    """Return the largest difference over frequency, shape (matrix,); NaN for non-finite runs."""
    return difference(results, one, other, family, replayed).max(axis=1)


def pairs(jobs: list[str]) -> list[tuple[str, str]]:
    """Return every two of the jobs, in their order."""
    return list(combinations(jobs, 2))
