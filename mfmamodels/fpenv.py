"""The host's floating-point unit in its IEEE 754 default state.

A library elsewhere in the process may have switched on flush-to-zero (FTZ) and
denormals-are-zero (DAZ), or another rounding direction. Models give the same bits all the same:
whatever computes with host floats does so inside :func:`ieee_environment`. Threads of numba's
pool have a state of their own, so kernels set it in every chunk of work (see ``kernels``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# Larger than fenv_t of every platform in use (32 bytes on x86-64 glibc).
_STATE_BYTES = 512


def _libm() -> ctypes.CDLL | None:
    try:
        # The interpreter itself is linked to the C mathematics library.
        library = ctypes.CDLL(None)
        for function in (library.fegetenv, library.fesetenv):
            function.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError, TypeError):
        return None
    return library


_LIBM = _libm()


def _default_environment(library: ctypes.CDLL) -> ctypes.c_void_p:
    """FE_DFL_ENV: the address -1 in glibc and musl, an object of the library on macOS."""
    try:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
    except ValueError:
        return ctypes.c_void_p(-1)


@contextmanager
def ieee_environment() -> Iterator[None]:
    """Run a block with round-to-nearest, no flushing of subnormals, and restore what was before."""
    if _LIBM is None:  # a platform without C99 <fenv.h> cannot have changed it through C either
        yield
        return
    saved = ctypes.create_string_buffer(_STATE_BYTES)
    _LIBM.fegetenv(saved)
    _LIBM.fesetenv(_default_environment(_LIBM))
    try:
        yield
    finally:
        _LIBM.fesetenv(saved)
