"""The public multiply: checks, conversions to codes, shapes; the work is the backend's.

A backend is a module with ``gemm`` and ``dots`` on codes: :mod:`mfmamodels.kernels` (fast) or
:mod:`mfmamodels.reference` (the definition).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.formats import Format, get_format, round_to
from mfmamodels.fpenv import ieee_environment
from mfmamodels.interop import as_array, exact_float64

Chunk = tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike | None]


class Backend(Protocol):
    """Where dot products on codes are computed."""

    def gemm(
        self, arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
    ) -> None:
        """Write ``a @ b + c`` to ``out``: (M, K), (K, N), (M, N) or None, (M, N)."""

    def dots(
        self, arithmetic: Arithmetic, a: NDArray, b: NDArray, c: NDArray | None, out: NDArray
    ) -> None:
        """Write dot products of rows to ``out``: (rows, K) twice, (rows,) or None, (rows,)."""


@dataclass(frozen=True)
class Multiplier:
    """Matrix products of one arithmetic on one backend."""

    arithmetic: Arithmetic
    backend: Backend

    def matmul(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> NDArray:
        """``a @ b + c``; see :meth:`mfmamodels.core.Core.matmul`."""
        a = as_codes(a, self.arithmetic.a, "A")
        b = as_codes(b, self.arithmetic.b, "B")
        shape = _matmul_shape(a.shape, b.shape)
        c = _addend(c, self.arithmetic.out, "C", shape)
        if a.ndim == b.ndim == 2:
            out = np.empty(shape, self.arithmetic.out.code_dtype)
            self.backend.gemm(self.arithmetic, a, b, c, out)
            return out.view(self.arithmetic.out.dtype)
        a2 = a[None, :] if a.ndim == 1 else a
        b2 = b[:, None] if b.ndim == 1 else b
        full = (*np.broadcast_shapes(a2.shape[:-2], b2.shape[:-2]), a2.shape[-2], b2.shape[-1])
        out = np.empty(full, self.arithmetic.out.code_dtype)
        a2 = np.broadcast_to(a2, (*full[:-2], *a2.shape[-2:]))
        b2 = np.broadcast_to(b2, (*full[:-2], *b2.shape[-2:]))
        c2 = None if c is None else c.reshape(full)
        for batch in np.ndindex(full[:-2]):
            addend = None if c2 is None else c2[batch]
            self.backend.gemm(self.arithmetic, a2[batch], b2[batch], addend, out[batch])
        return out.reshape(shape).view(self.arithmetic.out.dtype)

    def dot(self, a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> Any:
        """One dot product of two vectors; see :meth:`mfmamodels.core.Core.dot`."""
        a, b = as_array(a), as_array(b)
        if a.ndim != 1 or a.shape != b.shape:
            raise ValueError(f"dot takes two vectors of one length; given {a.shape} and {b.shape}")
        return self.matmul(a, b, c)[()]

    def dots(
        self, a: ArrayLike | Iterable[Chunk], b: ArrayLike | None = None, c: ArrayLike | None = None
    ) -> NDArray | Iterator[NDArray]:
        """Independent dot products; see :meth:`mfmamodels.core.Core.dots`."""
        if b is None:
            return (self.dots(*chunk) for chunk in a)  # type: ignore[misc]
        a = as_codes(a, self.arithmetic.a, "a")  # type: ignore[arg-type]
        b = as_codes(b, self.arithmetic.b, "b")
        if a.ndim != 2 or a.shape != b.shape:
            raise ValueError(
                f"dots takes a and b of one shape (rows, K); given {a.shape} and {b.shape}"
            )
        c = _addend(c, self.arithmetic.out, "c", a.shape[:1])
        out = np.empty(a.shape[0], self.arithmetic.out.code_dtype)
        self.backend.dots(self.arithmetic, a, b, c, out)
        return out.view(self.arithmetic.out.dtype)


def _matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the product, as numpy.matmul has it."""
    if not a or not b:
        raise ValueError("A and B need at least one dimension; a scalar was given")
    inner = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner:
        raise ValueError(
            f"A has shape {a} and B {b}: the last dimension of A ({a[-1]}) "
            f"and the {'only' if len(b) == 1 else 'last but one'} of B ({inner}) differ"
        )
    if len(a) == len(b) == 2:
        return a[0], b[1]
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(
            f"A has shape {a} and B {b}: the batch dimensions {a[:-2]} "
            f"and {b[:-2]} do not broadcast"
        ) from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _addend(c: ArrayLike | None, fmt: Format, name: str, shape: tuple[int, ...]) -> NDArray | None:
    if c is None:
        return None
    codes = as_codes(c, fmt, name)
    try:
        return np.broadcast_to(codes, shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {codes.shape}, the product {shape}; "
            f"{name} must have that shape or broadcast to it"
        ) from None


def as_codes(values: ArrayLike, fmt: Format, name: str = "array") -> NDArray:
    """Codes of values that the format can hold.

    Parameters
    ----------
    values : array_like
        An array of the format's own type, taken as it is, NaN payloads and all; or of any other
        real type whose values all fit.
    fmt : Format
        xf32 and tf32 take what float32 can hold; the hardware reads its upper 19 bits.
    name : str
        What error messages call the array.

    Returns
    -------
    ndarray of unsigned int
        A view where the type allows, same shape.

    Raises
    ------
    TypeError
        If the values are not real numbers.
    ValueError
        If a value does not fit; the message names its index, its neighbours and the way out.
    """
    x = as_array(values)
    if fmt.is_type(x.dtype):
        return x.view(fmt.code_dtype)
    try:
        with ieee_environment(), np.errstate(over="ignore", invalid="ignore"):
            wide = x if x.dtype in (np.float32, np.float64) else exact_float64(x)
            stored = wide.astype(fmt.dtype)
            fits = (stored.astype(wide.dtype) == wide) | (wide != wide)
    except TypeError:
        raise TypeError(
            f"{name} has type {x.dtype}; {fmt} takes {fmt.dtype} or real numbers that fit it"
        ) from None
    if not fits.all():
        _refuse(wide, fits, fmt, name)
    return stored.view(fmt.code_dtype)


def _refuse(x: NDArray, fits: NDArray, fmt: Format, name: str) -> None:
    index = tuple(int(i) for i in np.argwhere(~fits)[0])
    container = "fp32" if fmt.ignored_bits else fmt.name
    value = float(x[index])
    below, above = (_neighbour(value, container, direction) for direction in ("rd", "ru"))
    where = f"{name}[{', '.join(map(str, index))}]" if index else name
    raise ValueError(
        f"{where} = {value!r} is not representable in {container}: its neighbours are {below!r} "
        f"and {above!r}; round first, for example mfmamodels.round_to({name}, {fmt.name!r}, "
        f"rounding='rne', overflow='saturate')"
    )


def _neighbour(value: float, container: str, direction: str) -> float:
    fmt = get_format(container)
    toward_zero = (direction == "rd") == (value > 0)
    beyond = "saturate" if toward_zero or not fmt.has_inf else "inf"
    return float(round_to(value, fmt, direction, beyond))
