"""Compiled kernels on disk: found again by the next process, never stale, never an error.

numba keys a cached function on the source file that holds it. Kernels here are made of functions
from several modules, so the folder is named after a digest of all of them, and of the processor.
Three more departures from numba's defaults. Every kernel has a file of its own (numba numbers the
variants of one function, and two processes that compile different variants at once can take the
same number). The functions a kernel is made of get numbers no other process gives (numba counts
from one in each process and names machine code by that count; of two files that define one name
the loader keeps the first, so that a kernel of one core would run the functions of another, and
silently give wrong bits). Whatever goes wrong with the files only costs a compilation.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.ccallback import CFunc
from numba.core.runtime import rtsys
from numba.core.typing.templates import Signature

_PACKAGE = Path(__file__).parent


def _number_functions_apart() -> None:
    """Let numba count functions from a number that no other process starts from."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


_number_functions_apart()
if hasattr(os, "register_at_fork"):  # a forked child would go on counting as its parent does
    os.register_at_fork(after_in_child=_number_functions_apart)


@cache
def source_digest() -> str:
    """Digest of all that decides a kernel's code: sources of kernels and records, host, numba."""
    digest = hashlib.sha256()
    host = (
        numba.__version__,
        sys.version,
        config.CPU_NAME,
        config.CPU_FEATURES,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    digest.update(repr(host).encode())
    files = [
        *_PACKAGE.glob("*.py"),
        _PACKAGE.parent / "formats.py",
        _PACKAGE.parent / "accumulation.py",
    ]
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _candidates() -> list[Path]:
    folder = f"mfmamodels-{source_digest()}"
    if config.CACHE_DIR:  # the user said where: NUMBA_CACHE_DIR
        return [Path(config.CACHE_DIR) / folder]
    candidates = [_PACKAGE / "__pycache__" / folder]
    given = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # no home folder
        candidates.append((Path(given) if given else Path.home() / ".cache") / folder)
    return candidates


@cache
def cache_folder() -> Path | None:
    """First writable folder for compiled kernels; None where there is none.

    ``NUMBA_CACHE_DIR`` if it is set, else beside the sources, else the user's cache folder.
    """
    for path in _candidates():
        try:
            path.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path).close()
        except OSError:
            continue
        return path
    return None


class _Locator(_CacheLocator):
    """Tells numba's cache the folder and what makes an entry stale."""

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls()

    def get_cache_path(self):
        return str(cache_folder())

    def get_source_stamp(self):
        return source_digest()

    def get_disambiguator(self):
        return "kernel"


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class _KernelCache(FunctionCache):
    """numba's cache of one function, with files that may be damaged or vanish at any time."""

    _impl_class = _Impl

    def _index_key(self, sig, codegen):
        # The file is this function's alone, and the folder stands for everything it is made of.
        return sig, codegen.magic_tuple()

    def load_overload(self, sig, target_context):
        # Not numba's own method: that first loads all that numba could compile (and scipy.linalg),
        # which takes longer than everything else here and is of no use to code that is compiled.
        # Of all that, compiled code calls only the runtime library.
        try:
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception:  # a damaged file can raise anything while it is unpickled
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:  # disk full, folder gone: the compiled kernel is there all the same
            return
        except Exception:  # a damaged index: begin a new one
            with contextlib.suppress(Exception):
                self.flush()
                super().save_overload(sig, data)


def compile_callback(function: Callable, signature: Signature, name: str) -> CFunc:
    """Compile a function to a C callback, or fetch it from the cache.

    Parameters
    ----------
    function : callable
        Function in numba's subset. Its closure may hold anything that ``name`` determines.
    signature : numba signature
        Types of the arguments and of the result.
    name : str
        Unique among all kernels, since it alone (with the signature) finds the compiled code again.
    """
    _rename(function, name)
    callback = CFunc(
        function,
        (signature.args, signature.return_type),
        locals={},
        options={"nopython": True, "error_model": "numpy"},
    )
    if cache_folder() is not None:
        callback._cache = _KernelCache(function)
    callback.compile()
    return callback


def enable_cache(dispatcher: Any, name: str) -> Any:
    """Give a ``numba.njit`` function this cache; ``name`` as in :func:`compile_callback`."""
    _rename(dispatcher.py_func, name)
    if cache_folder() is not None:
        dispatcher._cache = _KernelCache(dispatcher.py_func)
    return dispatcher


def _rename(function: Callable, name: str) -> None:
    function.__qualname__ = function.__name__ = name
