"""A matrix core as a value: its arithmetic, where it is found, and on what evidence it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfmamodels import kernels
from mfmamodels.accumulation import Arithmetic
from mfmamodels.matmul import Chunk, Multiplier, as_codes

if TYPE_CHECKING:
    from mfmamodels.trace import Trace


class Level(StrEnum):
    """Strength of evidence, strongest first."""

    RECORDED_WORDS = "recorded words"
    RECORDED_STATISTICS = "recorded statistics"
    VECTORS = "the paper's vectors"
    VENDOR = "vendor's text"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Evidence:
    """One reason to believe a core, or a list of what nothing confirms.

    Attributes
    ----------
    level : Level
    source : str
        Where it can be checked.
    features : tuple of str
        Features it speaks of; empty means all that the rows or vectors exercise.
    rows : int
        Recorded rows compared, where it is a recording.
    case : str
        Name of the recorded case, where it has one.
    independent : bool
        False where the same bytes already stand as evidence of another core.
    """

    level: Level
    source: str
    features: tuple[str, ...] = ()
    rows: int = 0
    case: str = ""
    independent: bool = True


@dataclass(frozen=True, kw_only=True, repr=False)
class Core(Arithmetic):
    """One device's multiplier for one choice of formats.

    Siblings are made with :func:`dataclasses.replace`; give them a ``variant`` name.

    Attributes
    ----------
    device, arch, vendor : str
        "MI300X", "CDNA3", "AMD".
    inputs : str
        Name of the input format or formats: "fp16", "bf16_1k", "e4m3fnuz/e5m2fnuz".
    path : str
        Instruction path where a device has more than one ("mma.sync"), else empty.
    variant : str
        Name of a deviation from the device, else empty.
    evidence : tuple of Evidence
    """

    device: str = "user"
    arch: str = "user-defined"
    vendor: str = "user"
    inputs: str = ""
    path: str = ""
    variant: str = ""
    default_out: bool = True
    evidence: tuple[Evidence, ...] = (Evidence(Level.UNVERIFIED, "defined by the user"),)

    __hash__ = Arithmetic.__hash__  # the kept one; the decorator would make another

    @property
    def name(self) -> str:
        """Name that :func:`mfmamodels.core` understands, for a core of the catalogue."""
        inputs = self.inputs or (
            self.a.name if self.a == self.b else f"{self.a.name}/{self.b.name}"
        )
        qualifiers = ["" if self.default_out else self.out.name, self.path, self.variant]
        return ":".join([f"{self.device}/{inputs}", *filter(None, qualifiers)])

    def __repr__(self) -> str:
        from mfmamodels.describe import representation

        return representation(self)

    def __str__(self) -> str:
        from mfmamodels.describe import summary

        return summary(self)

    def matmul(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> NDArray:
        """Multiply matrices as the core does: ``a @ b + c``.

        Parameters
        ----------
        a, b : array_like
            Shapes as in :func:`numpy.matmul`: (..., M, K) and (..., K, N), or vectors. Arrays
            of the formats' types (numpy or ml_dtypes), or real numbers that fit them exactly.
            xf32 and tf32 take float32 and truncate it, as the hardware does.
        c : array_like, optional
            Addend that broadcasts to the result's shape, in the output format. Absent means zero.

        Returns
        -------
        ndarray
            float32, or float16 or float64 where the core's output is that. K = 0 gives c. Inf, NaN,
            signed zeros and subnormals are the core's own; the same inputs give the same bits for
            any batch shape, memory layout, thread count and state of the host's float unit.

        Raises
        ------
        TypeError
            If an array does not hold real numbers.
        ValueError
            If shapes do not match, or a value does not fit its format (the message says which).
        """
        return Multiplier(self, kernels).matmul(a, b, c)

    def dot(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> np.generic:
        """One dot product ``sum(a * b) + c`` of two vectors; types as in :meth:`matmul`."""
        return Multiplier(self, kernels).dot(a, b, c)

    def dots(
        self,
        a: ArrayLike | Iterable[Chunk],
        b: ArrayLike | None = None,
        c: ArrayLike | None = None,
    ) -> NDArray | Iterator[NDArray]:
        """Independent dot products, one per row.

        Parameters
        ----------
        a, b : array_like
            Shape (rows, K); types as in :meth:`matmul`.
        c : array_like, optional
            Shape (rows,) or a scalar.

        Returns
        -------
        ndarray
            Shape (rows,). If ``a`` is an iterable of chunks ``(a, b)`` or ``(a, b, c)`` and ``b``
            is not given, an iterator of such arrays: a stream of any length runs in constant
            memory.
        """
        return Multiplier(self, kernels).dots(a, b, c)

    def trace(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> Trace:
        """One dot product step by step, by the definition in exact arithmetic.

        Parameters
        ----------
        a, b : array_like
            Shape (K,); types as in :meth:`matmul`.
        c : scalar, optional

        Returns
        -------
        mfmamodels.trace.Trace
            Its ``steps`` are records; printed, it shows every exponent, aligned significand (what
            is cut off after a bar), sum and rounding.
        """
        from mfmamodels.trace import trace

        codes = [as_codes(x, fmt, name) for x, fmt, name in ((a, self.a, "a"), (b, self.b, "b"))]
        if codes[0].ndim != 1 or codes[0].shape != codes[1].shape:
            raise ValueError(
                f"trace takes two vectors of one length; given {codes[0].shape} and "
                f"{codes[1].shape}"
            )
        addend = as_codes(0.0 if c is None else c, self.out, "c")
        if addend.size != 1:
            raise ValueError(f"trace takes one number as c; given shape {addend.shape}")
        return trace(self, codes[0].tolist(), codes[1].tolist(), int(addend.item()))

    @property
    def reference(self) -> Multiplier:
        """The same methods (matmul, dot, dots) by the definition in exact arithmetic."""
        from mfmamodels import reference  # mpmath is not needed before

        return Multiplier(self, reference)
