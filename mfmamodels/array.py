"""Arrays whose matrix products run on a core: NumPy code becomes a study by wrapping its inputs.

NumPy hands operations on these arrays over (NEP 13 and NEP 18); matrix products go to the core, and
everything else stays NumPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfmamodels.core import Core
from mfmamodels.cores import core as look_up
from mfmamodels.formats import round_to
from mfmamodels.interop import as_array

# What `@=` passes to numpy.matmul: the axes it would use anyway.
_USUAL_AXES = [(-2, -1)] * 3


class CoreArray(np.ndarray):
    """An ndarray whose matrix products run on a core.

    Made by :func:`wrap`. Products are ``@``, ``numpy.matmul``, ``dot``, ``vdot``, ``inner``
    and ``tensordot``. Operands of a product are rounded to the core's input formats as agreed
    at wrapping (nothing else is ever rounded); the result has the wider of the operands' type and
    the core's output type, and is wrapped again. Functions of ``numpy.linalg`` and ``scipy`` that
    call BLAS or LAPACK themselves never see the core. ``numpy.einsum`` is refused, since its order
    of summation is its own.
    """

    core: Core
    rounding: str
    overflow: str | None

    # numpy calls this for views and copies too: the core goes with the data.
    def __array_finalize__(self, parent: Any) -> None:
        self.core = getattr(parent, "core", None)  # type: ignore[assignment]
        self.rounding = getattr(parent, "rounding", "rne")
        self.overflow = getattr(parent, "overflow", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Send ``numpy.matmul`` to the core and all else to NumPy."""
        if ufunc is np.matmul and method == "__call__":
            return self._matmul_ufunc(*inputs, **options)
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(_plain(x) for x in out)
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if isinstance(result, tuple):
            return tuple(self._wrapped(x) for x in result)
        return self._wrapped(result)

    def __array_function__(self, function: Callable, types: Any, args: Any, kwargs: Any) -> Any:
        """Send products to the core; NumPy's other functions see these arrays as their own."""
        if function in _PRODUCTS:
            return _PRODUCTS[function](*args, **kwargs)
        if function is np.einsum:
            raise TypeError(
                "numpy.einsum does not run on a core: its order of summation is its own; "
                "write the product with @ or numpy.tensordot"
            )
        return super().__array_function__(function, types, args, kwargs)

    def dot(self, other: ArrayLike, out: NDArray | None = None) -> Any:
        """Product as :func:`numpy.dot`, on the core."""
        return _dot(self, other, out)

    def _wrapped(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fV":
            return x
        return _attach(x, self)

    def _matmul_ufunc(self, a: Any, b: Any, /, out: tuple | None = None, **options: Any) -> Any:
        if options.pop("axes", _USUAL_AXES) != _USUAL_AXES or options:
            raise TypeError("numpy.matmul on a core takes no other option than out")
        return _store(_multiply(a, b), out[0] if out else None)


def wrap(
    values: ArrayLike, core: Core | str, *, rounding: str = "rne", overflow: str | None = None
) -> CoreArray:
    """Make an array's products run on a core.

    Parameters
    ----------
    values : array_like
        Real numbers of any shape; kept in their own type, not rounded.
    core : Core or str
    rounding, overflow : str
        How operands are rounded to the core's formats at each product; see
        :func:`mfmamodels.round_to`. By default an overflow is an error.

    Returns
    -------
    CoreArray
        A view of the values where possible.

    Raises
    ------
    TypeError
        If the values are not real floating-point numbers or integers.
    """
    x = as_array(values)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if x.dtype.kind not in "fV":
        raise TypeError(f"a core multiplies real numbers, not {x.dtype}")
    array = x.view(CoreArray)
    array.core = core if isinstance(core, Core) else look_up(core)
    array.rounding, array.overflow = rounding, overflow
    return array


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, CoreArray) else x


def _attach(x: NDArray, like: CoreArray) -> CoreArray:
    array = x.view(CoreArray)
    array.core, array.rounding, array.overflow = like.core, like.rounding, like.overflow
    return array


def _store(result: Any, out: NDArray | None) -> Any:
    if out is None:
        return result
    np.copyto(_plain(out), _plain(result), casting="same_kind")
    return out


def _like(a: Any, b: Any) -> CoreArray:
    """The operand that says which core; two different cores are a contradiction."""
    wrapped = [x for x in (a, b) if isinstance(x, CoreArray)]
    first = wrapped[0]
    if any(x.core != first.core for x in wrapped[1:]):
        raise ValueError(
            f"operands are wrapped for different cores: {first.core.name} and "
            f"{wrapped[1].core.name}; wrap both for one"
        )
    return first


def _multiply(a: Any, b: Any) -> Any:
    """``a @ b`` on the core, with numpy.matmul's shapes."""
    like = _like(a, b)
    core, x, y = like.core, as_array(_plain(a)), as_array(_plain(b))
    product = core.matmul(
        round_to(x, core.a, like.rounding, like.overflow),
        round_to(y, core.b, like.rounding, like.overflow),
    )
    wide = np.result_type(core.out.dtype, *(z.dtype for z in (x, y) if z.dtype.kind == "f"))
    return like._wrapped(product.astype(wide, copy=False)) if product.ndim else wide.type(product)


def _dot(a: Any, b: Any, out: NDArray | None = None) -> Any:
    """numpy.dot: scalars scale, otherwise last axis of a with last but one of b."""
    x, y = np.asarray(_plain(a)), np.asarray(_plain(b))
    if x.ndim == 0 or y.ndim == 0:
        return np.multiply(a, b) if out is None else np.multiply(a, b, out=out)
    if x.ndim <= 2 and y.ndim <= 2:
        return _store(_multiply(a, b), out)
    return _store(_tensordot(a, b, (-1, -2 if y.ndim > 1 else -1)), out)


def _vdot(a: Any, b: Any) -> Any:
    return _multiply(np.ravel(a), np.ravel(b))


def _inner(a: Any, b: Any) -> Any:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    return _tensordot(a, b, (-1, -1))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot as one matrix product of the flattened axes."""
    like, x, y = _like(a, b), as_array(_plain(a)), as_array(_plain(b))
    if np.ndim(axes) == 0:
        axes = (range(x.ndim - axes, x.ndim), range(axes))
    over_a, over_b = (
        [int(i) % z.ndim for i in np.atleast_1d(list(np.atleast_1d(s)))]
        for s, z in zip(axes, (x, y), strict=True)
    )
    if [x.shape[i] for i in over_a] != [y.shape[i] for i in over_b]:
        raise ValueError(
            f"axes {over_a} of shape {x.shape} and {over_b} of {y.shape} differ in length"
        )
    free_a = [i for i in range(x.ndim) if i not in over_a]
    free_b = [i for i in range(y.ndim) if i not in over_b]
    shape = [x.shape[i] for i in free_a] + [y.shape[i] for i in free_b]
    k = int(np.prod([x.shape[i] for i in over_a], dtype=int))
    rows = (
        x.transpose(free_a + over_a).reshape(-1, k) if x.size else np.empty((_size(x, free_a), k))
    )
    columns = (
        y.transpose(over_b + free_b).reshape(k, -1) if y.size else np.empty((k, _size(y, free_b)))
    )
    return np.reshape(_multiply(_attach(rows, like), columns), shape)


def _size(x: NDArray, axes: list[int]) -> int:
    return int(np.prod([x.shape[i] for i in axes], dtype=int))


_PRODUCTS: dict[Callable, Callable] = {
    np.dot: _dot,
    np.vdot: _vdot,
    np.inner: _inner,
    np.tensordot: _tensordot,
}
