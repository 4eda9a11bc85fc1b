"""Arrays of other libraries, without a change of value.

JAX arrays give numpy arrays of ml_dtypes types by themselves. torch tensors of bfloat16 and 8-bit
floats refuse to become numpy arrays, so their bits are handed over. torch is never imported here:
whoever has a tensor has it loaded already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# torch's dtype -> (integer type of the same width, ml_dtypes type of the same codes)
_TORCH_TYPES = {
    "torch.bfloat16": ("int16", "bfloat16"),
    "torch.float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "torch.float8_e4m3fnuz": ("uint8", "float8_e4m3fnuz"),
    "torch.float8_e5m2": ("uint8", "float8_e5m2"),
    "torch.float8_e5m2fnuz": ("uint8", "float8_e5m2fnuz"),
}


def as_array(values: ArrayLike | Any) -> NDArray:
    """Turn anything array-like into a numpy array with the same bits.

    Parameters
    ----------
    values : array_like, torch.Tensor or jax.Array
        A tensor on another device or with a gradient is copied to the host without it.

    Returns
    -------
    ndarray
        A view where possible. bfloat16 and 8-bit floats have ml_dtypes types.
    """
    if type(values).__module__.partition(".")[0] != "torch":
        return np.asarray(values)
    tensor = values.detach().cpu()
    if str(tensor.dtype) not in _TORCH_TYPES:
        return tensor.numpy()
    import ml_dtypes  # slow to import

    integer, name = _TORCH_TYPES[str(tensor.dtype)]
    bits = tensor.contiguous().view(getattr(sys.modules["torch"], integer))
    return bits.numpy().view(getattr(ml_dtypes, name))


def exact_float64(values: ArrayLike) -> NDArray[np.float64]:
    """Convert any real array to float64, refusing to lose a bit.

    Raises
    ------
    TypeError
        For complex, object or text arrays.
    ValueError
        For integers or long doubles that float64 cannot hold.
    """
    x = as_array(values)
    if x.dtype.kind in "cOSUMm":
        raise TypeError(f"an array of real numbers is needed, not of {x.dtype}")
    with np.errstate(over="ignore"):
        as_float64 = x.astype(np.float64)
    if (x.dtype.kind in "iu" and x.dtype.itemsize == 8) or x.dtype == np.longdouble:
        back = as_float64.astype(np.longdouble)
        bad = (back != x.astype(np.longdouble)) & (x == x)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ValueError(f"element {index} ({x[index]!r}) does not fit float64")
    return as_float64
