"""SMD on one core: rounding into and out of its formats, scaling, and what is kept of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from applications._polynomial import Array, spectrum
from applications._smd_algorithm import Decision, Matmul, Options, Result, smd
from applications._smd_examples import power_of_two_scale

if TYPE_CHECKING:
    from mfmamodels.core import Core
    from mfmamodels.formats import Format

DOUBLE = "double"

# Where the format's range is wider than fp16's no scale is needed, but one scale for all formats
# lets a run in bf16 be compared with one in fp16.
LARGEST_SCALED = 65504.0

EIGENVALUES = {
    "first": "first diagonal element of D",
    "largest": "largest diagonal element of D at each frequency",
    "spectral": "largest eigenvalue of the whole of D at each frequency",
}


def to_input(fmt: Format) -> Callable[[Array], NDArray[Any]]:
    """Return a function that rounds real float64 arrays to `fmt`: to nearest, ties to even, once.

    Overflow gives an infinity, or NaN where the format has none; SMD reports either.
    """
    if fmt.ignored_bits:  # stored as float32, to which a plain conversion would round
        from mfmamodels import round_to

        return lambda x: round_to(x, fmt, overflow="inf")
    return lambda x: x.astype(fmt.dtype)  # the same bits as round_to, ten times faster


def on_core(core: Core) -> Matmul:
    """Return the product that rounds its operands to the core's formats and multiplies there.

    A complex product is computed as a real one of twice the size,
    ``[Re A, -Im A; Im A, Re A] [Re B; Im B]``: real and imaginary part of each element are one dot
    product of twice the length, accumulated in the core without a rounding in between. Four real
    products, added up outside, would give other bits.
    """
    left, right = to_input(core.a), to_input(core.b)

    def real(a: Array, b: Array) -> Array:
        return core.matmul(left(a), right(b)).astype(np.float64)

    def matmul(a: Array, b: Array) -> Array:
        if not np.iscomplexobj(a) and not np.iscomplexobj(b):
            return real(a, b)
        rows = len(a)
        embedded = np.block([[a.real, -a.imag], [a.imag, a.real]])
        product = real(embedded, np.concatenate([b.real, b.imag]))
        return product[:rows] + 1j * product[rows:]

    return matmul


def componentwise(rounding: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Array], Array]:
    """Extend a rounding of real arrays to complex ones, and return float64 or complex128."""

    def rounded(x: Array) -> Array:
        if np.iscomplexobj(x):
            return rounding(x.real).astype(float) + 1j * rounding(x.imag).astype(float)
        return rounding(x).astype(np.float64)

    return rounded


@dataclass(frozen=True)
class Arithmetic:
    """How one job of the study multiplies and rounds."""

    matmul: Matmul
    initial_matmul: Matmul
    round_input: Callable[[Array], Array]
    round_state: Callable[[Array], Array] | None
    input_format: str  # "fp64" for double
    largest_scaled: float | None  # None: no scaling

    @classmethod
    def of(cls, job: str, config: Mapping[str, Any]) -> Arithmetic:
        """Return the arithmetic of a job, "double" or the name of a core."""
        if job == DOUBLE:
            return cls(np.matmul, np.matmul, lambda x: x, None, "fp64", None)
        import mfmamodels

        core = mfmamodels.core(job)
        product = on_core(core)
        inputs = componentwise(to_input(core.a))
        outputs = componentwise(lambda x: x.astype(core.out.dtype))
        return cls(
            product,
            product if config["initial_evd"] == "core" else np.matmul,
            inputs,
            {"output": outputs, "input": inputs}[config["state"]],
            core.a.name,
            min(core.a.max, core.b.max, LARGEST_SCALED) if config["scaling"] == "auto" else None,
        )

    def run(self, r: Array, options: Options, replay: Sequence[Decision] | None = None) -> Run:
        """Diagonalise `r`, scaled by a power of two where this arithmetic asks for it."""
        scale = 1.0 if self.largest_scaled is None else power_of_two_scale(r, self.largest_scaled)
        result = smd(
            scale * r,
            self.matmul,
            options,
            initial_matmul=self.initial_matmul,
            round_state=self.round_state,
            replay=replay,
        )
        return Run(result, scale)


@dataclass(frozen=True)
class Run:
    """A result of SMD and the power of two that its matrix was scaled by."""

    result: Result
    scale: float

    def eigenvalue(self, bins: int, definition: str = "first") -> NDArray[Any]:
        """Return the dominant eigenvalue over `bins` frequencies, in the units of the given matrix.

        All NaN if the run ended with a non-finite number. `definition` is a key of `EIGENVALUES`.
        The real part is taken, not the magnitude: trimming can make elements of D negative.
        """
        if self.result.status == "non-finite":
            return np.full(bins, np.nan)
        d = self.result.d / self.scale
        if definition == "spectral":
            return np.linalg.eigvalsh(spectrum(d, bins))[:, -1]
        index = np.arange(1 if definition == "first" else d.shape[1])
        return spectrum(d[:, index, index], bins).real.max(axis=1)


def true_eigenvalues(r: Array, bins: int) -> NDArray[Any]:
    """Return the eigenvalues of R on the unit circle, increasing, shape (bins, M)."""
    return np.linalg.eigvalsh(spectrum(r, bins))


def first_difference(path: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> int:
    """Return the first iteration (from 1) at which two paths differ, 0 if they never do."""
    for iteration, (mine, theirs) in enumerate(zip(path, other, strict=False), start=1):
        if mine != theirs:
            return iteration
    return 0 if len(path) == len(other) else min(len(path), len(other)) + 1
