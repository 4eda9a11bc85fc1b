"""Switch on flush-to-zero and denormals-are-zero in the host's floating-point unit, for tests."""

import ctypes
import platform
from contextlib import contextmanager

import pytest

# fenv_t of glibc on x86-64: 28 bytes of the x87 unit, then MXCSR.
_MXCSR_AT, _SIZE = 28, 64
_FTZ_AND_DAZ = 0x8040


def _mxcsr(state):
    return ctypes.c_uint32.from_buffer(state, _MXCSR_AT)


@contextmanager
def flushed_subnormals():
    """Run a block with FTZ and DAZ on in this thread; skip where that cannot be arranged."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc":
        pytest.skip("needs glibc on x86-64 to switch on FTZ and DAZ")
    library = ctypes.CDLL(None)
    saved, changed = (ctypes.create_string_buffer(_SIZE) for _ in range(2))
    library.fegetenv(saved)
    library.fegetenv(changed)
    _mxcsr(changed).value |= _FTZ_AND_DAZ
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(saved)
