"""Who can be compared: cores, the reference, the second opinion, functions, recordings, programs.

A party answers chunks of rows. Its answers are codes of the output format.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise.ensembles import Chunk


class PartyError(RuntimeError):
    """A party gave no usable answer; the message says why and what to look at."""


class Party(Protocol):
    """Answers rows."""

    @property
    def name(self) -> str:
        """What reports and saved outcomes call it."""

    def answer(self, core: Arithmetic, chunk: Chunk) -> NDArray:
        """Codes of the results, (rows,)."""


@dataclass(frozen=True)
class Model:
    """A core of this package, by its kernels, the reference or the second opinion.

    Attributes
    ----------
    core : Arithmetic
    backend : {"kernels", "reference", "exact_integer"}
    """

    core: Arithmetic
    backend: str = "kernels"

    @property
    def name(self) -> str:
        """Name of the core, and of the backend where it is not the usual one."""
        name = getattr(self.core, "name", repr(self.core))
        return name if self.backend == "kernels" else f"{name} ({self.backend})"

    def answer(self, core: Arithmetic, chunk: Chunk) -> NDArray:
        """Run the backend; the core must have the formats of the rows."""
        for place in ("a", "b", "out"):
            ours, theirs = getattr(self.core, place), getattr(core, place)
            if ours != theirs:
                raise PartyError(f"{self.name} has {place} in {ours}, the rows have {theirs}")
        out = np.empty(len(chunk.c), core.out.code_dtype)
        _backend(self.backend).dots(self.core, chunk.a, chunk.b, chunk.c, out)
        return out


def _backend(name: str) -> Any:
    if name == "kernels":
        from mfmamodels import kernels

        return kernels
    if name == "reference":
        from mfmamodels import reference

        return reference
    if name == "exact_integer":
        from mfmamodels.characterise import exact_integer

        return exact_integer
    raise ValueError(f"unknown backend {name!r}; known: kernels, reference, exact_integer")


@dataclass(frozen=True)
class Function:
    """A Python callable ``f(a, b, c) -> d`` on codes or on values.

    Attributes
    ----------
    call : callable
        Takes codes (rows, K), (rows, K), (rows,); gives codes (rows,), or values of the output
        format's type.
    name : str
    values : bool
        Whether it takes arrays of the formats' types instead of codes.
    """

    call: Callable[[NDArray, NDArray, NDArray], NDArray]
    name: str = "function"
    values: bool = False

    def answer(self, core: Arithmetic, chunk: Chunk) -> NDArray:
        """Call the function and check what it returns."""
        arrays = [chunk.a, chunk.b, chunk.c]
        if self.values:
            formats = (core.a, core.b, core.out)
            arrays = [x.view(f.dtype) for x, f in zip(arrays, formats, strict=True)]
        try:
            d = np.asarray(self.call(*arrays))
        except Exception as error:
            raise PartyError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        if core.out.is_type(d.dtype):
            d = d.view(core.out.code_dtype)
        if d.shape != chunk.c.shape or d.dtype != core.out.code_dtype:
            raise PartyError(
                f"{self.name} returned {d.dtype} of shape {d.shape}; needed: {core.out.code_dtype} "
                f"codes (or {core.out.dtype}) of shape {chunk.c.shape}"
            )
        return d


@dataclass(frozen=True)
class Recording:
    """The results that come with recorded rows."""

    name: str = "recording"

    def answer(self, core: Arithmetic, chunk: Chunk) -> NDArray:
        """Results of the chunk."""
        if chunk.d is None:
            raise PartyError(f"{self.name}: these rows come without recorded results")
        return chunk.d


@dataclass(frozen=True)
class Command:
    """A program that reads and writes the public text format.

    It is run for each chunk as ``COMMAND A B C D`` with four file names: it reads rows of a and b
    (float32 patterns in hexadecimal) and c (32 binary digits a line), and writes one result a line
    to D, as 32 binary digits.

    Attributes
    ----------
    argv : sequence of str, or str
        The program and its own arguments; a text is split like a shell does, but no shell runs.
    timeout : float
        Seconds for one chunk of at most 50 000 rows.
    """

    argv: Sequence[str] | str
    timeout: float = 600.0

    @property
    def name(self) -> str:
        """The command line."""
        return self.argv if isinstance(self.argv, str) else shlex.join(self.argv)

    def answer(self, core: Arithmetic, chunk: Chunk) -> NDArray:
        """Run the program on one chunk."""
        from mfmamodels.characterise import textfiles

        argv = shlex.split(self.argv) if isinstance(self.argv, str) else list(self.argv)
        with tempfile.TemporaryDirectory(prefix="mfmamodels-") as folder:
            files = [Path(folder) / f"{name}.txt" for name in "abcd"]
            codes = ((chunk.a, core.a), (chunk.b, core.b), (chunk.c, core.out))
            for file, (rows, fmt) in zip(files, codes, strict=False):
                textfiles.write_codes(file, rows, fmt)
            self._run([*argv, *map(str, files)], Path(folder) / "messages")
            return self._read(core, files[3], len(chunk.c))

    def _run(self, argv: list[str], messages: Path) -> None:
        """Run to the end or to the time limit; what it prints goes to a file, however much."""
        with open(messages, "wb") as stderr:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
            except OSError as error:
                raise PartyError(f"cannot start {self.name!r}: {error.strerror}") from error
            try:
                status = process.wait(self.timeout)
            except subprocess.TimeoutExpired as error:
                raise PartyError(
                    f"{self.name!r} did not finish within {self.timeout:g} s{_tail(messages)}"
                ) from error
            finally:
                # Also what it started itself: a wrapper script's program must not live on.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if status < 0:
            raise PartyError(f"{self.name!r} was ended by signal {-status}{_tail(messages)}")
        if status > 0:
            raise PartyError(f"{self.name!r} failed with status {status}{_tail(messages)}")

    def _read(self, core: Arithmetic, file: Path, rows: int) -> NDArray:
        from mfmamodels.characterise import textfiles

        if not file.is_file():
            raise PartyError(f"{self.name!r} ended well but wrote no results")
        try:
            d = textfiles.read_codes(file, core.out)
        except (ValueError, UnicodeDecodeError) as error:
            raise PartyError(f"{self.name!r} wrote what is no result: {error}") from error
        if len(d) != rows:
            raise PartyError(f"{self.name!r} wrote {len(d)} results for {rows} rows")
        return d


def _tail(messages: Path) -> str:
    """Last line of what a program said, for an error message."""
    with open(messages, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - 4096, 0))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""
