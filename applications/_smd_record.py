"""What the study of SMD keeps of its runs, as one dataset per job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from applications._polynomial import Array
from applications._smd_algorithm import Options, smd
from applications._smd_runs import DOUBLE, Arithmetic, Run, first_difference, true_eigenvalues

if TYPE_CHECKING:
    import xarray as xr

STATUSES = ("converged", "iteration limit", "non-finite", "replayed")

_POWER = "units of R"

# Name of each quantity: (dimensions after (family, matrix) or of the example, units, long name).
PER_MATRIX: dict[str, tuple[tuple[str, ...], str, str]] = {
    "eigenvalue": (("frequency",), _POWER, "dominant eigenvalue, own decisions"),
    "eigenvalue_replayed": (
        ("frequency",),
        _POWER,
        "dominant eigenvalue, repeating the decisions of the double run",
    ),
    "status": ((), "1", "how the run ended: index into the attribute `statuses`"),
    "iterations": ((), "1", "updates done; of a non-finite run, the one that failed"),
    "off_diagonal": ((), "1", "off-diagonal share of the energy of D at the end"),
    "first_difference": (
        (),
        "1",
        "first iteration whose delay differs from the double run's; 0: none does",
    ),
    "lags": ((), "1", "lags of D at the end"),
    "taps": ((), "1", "taps of Q at the end"),
    "macs": ((), "1", "real multiply-adds of all updates"),
}
TRUTH = {
    "true_largest": (("frequency",), _POWER, "largest eigenvalue of R at each frequency"),
    "true_smallest": (("frequency",), _POWER, "smallest eigenvalue of R at each frequency"),
}
HISTORY = {
    "lag": (("iteration",), "1", "lag of the column chosen"),
    "column": (("iteration",), "1", "column chosen"),
    "column_norm": (("iteration",), _POWER, "its off-diagonal 2-norm"),
    "off_diagonal": (("iteration",), "1", "off-diagonal share of the energy of D"),
    "lags": (("iteration",), "1", "lags of D"),
    "taps": (("iteration",), "1", "taps of Q"),
    "macs": (("iteration",), "1", "real multiply-adds spent"),
}


class Recorder:
    """Runs one arithmetic on matrices and collects what the figures and the claims need."""

    def __init__(self, arithmetic: Arithmetic, options: Options, config: Mapping[str, Any]) -> None:
        self.arithmetic = arithmetic
        self.options = options
        self.bins: int = config["bins"]
        self.definition: str = config["eigenvalue"]
        self.families: list[str] = config["families"]
        self.values: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in self.families}
        self.example_values: dict[str, Any] = {}
        self.example_label = ""
        self.rotations = hashlib.sha256()

    def matrix(self, family: str, number: int, r: Array) -> None:
        """Run on one matrix of a family."""
        self.values[family][number] = self._observe(r)[0]

    def example(self, r: Array, label: str) -> None:
        """Run on the matrix of Figures 7 to 9, and keep its history too."""
        values, run = self._observe(r)
        for name in HISTORY:
            rows = getattr(run.result.history, name)
            kept = np.zeros(self.options.max_iterations + 1, np.asarray(rows).dtype)
            kept[: len(rows)] = rows
            values[f"history_{name}"] = kept
        values["trace"] = float(np.trace(r[len(r) // 2]).real)
        values["sha256"] = hashlib.sha256(np.ascontiguousarray(r).tobytes()).hexdigest()
        values["is_complex"] = int(np.iscomplexobj(r))
        self.example_values, self.example_label = values, label

    def _observe(self, r: Array) -> tuple[dict[str, Any], Run]:
        run = self.arithmetic.run(r, self.options)
        result = run.result
        eigenvalue = run.eigenvalue(self.bins, self.definition)
        is_double = self.arithmetic.round_state is None
        # Every job finds the decisions of double by itself: jobs do not read each other's files.
        double = result if is_double else smd(r, options=self.options)
        replayed = run if is_double else self.arithmetic.run(r, self.options, double.decisions)
        self.rotations.update(result.digest(self.arithmetic.round_input).encode())
        values: dict[str, Any] = {
            "eigenvalue": eigenvalue,
            "eigenvalue_replayed": replayed.eigenvalue(self.bins, self.definition),
            "status": STATUSES.index(result.status),
            "iterations": result.iterations,
            "off_diagonal": result.history.off_diagonal[-1] if result.history.lag else np.nan,
            "first_difference": first_difference(result.path, double.path),
            "lags": len(result.d),
            "taps": len(result.q),
            "macs": result.history.macs[-1] if result.history.lag else 0,
        }
        if is_double:
            true = true_eigenvalues(r, self.bins)
            values |= {"true_largest": true[:, -1], "true_smallest": true[:, 0]}
        return values, run

    def dataset(self, job: str) -> xr.Dataset:
        """Return everything recorded, with units and long names."""
        import xarray as xr

        described = PER_MATRIX | (TRUTH if job == DOUBLE else {})
        data: dict[str, Any] = {}
        for name, (dims, units, long_name) in described.items():
            stacked = [[v[name] for v in self.values[f].values()] for f in self.families]
            attributes = {"units": units, "long_name": long_name}
            data[name] = (("family", "matrix", *dims), np.array(stacked), attributes)
            example = {"units": units, "long_name": f"{long_name} (example)"}
            data[f"example_{name}"] = (dims, np.array(self.example_values[name]), example)
        for name, (dims, units, long_name) in HISTORY.items():
            attributes = {
                "units": units,
                "long_name": f"{long_name} before each iteration; void after the last (example)",
            }
            data[f"history_{name}"] = (dims, self.example_values[f"history_{name}"], attributes)
        frequency = 2 * np.pi * np.arange(self.bins) / self.bins
        coordinates = {
            "family": self.families,
            "matrix": ("matrix", list(self.values[self.families[0]]), {"units": "1"}),
            "frequency": ("frequency", frequency, {"units": "rad", "long_name": "W"}),
        }
        return xr.Dataset(data, coordinates, self._attributes(job))

    def _attributes(self, job: str) -> dict[str, str | float | int]:
        return {
            "job": job,
            "input_format": self.arithmetic.input_format,
            "statuses": ", ".join(STATUSES),
            "example": self.example_label,
            "example_sha256": self.example_values["sha256"],
            "example_trace": self.example_values["trace"],
            "example_is_complex": self.example_values["is_complex"],
            # The same digest on two machines: their LAPACKs gave the same rounded rotations.
            "rotations_digest": self.rotations.hexdigest(),
        }
