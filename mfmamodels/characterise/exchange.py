"""Ensembles as files of the public text format, for devices elsewhere and back."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfmamodels import kernels
from mfmamodels.characterise import recorded, textfiles
from mfmamodels.characterise.ensembles import SHARD_ROWS, Chunk, Sampled, shards
from mfmamodels.core import Core
from mfmamodels.formats import Format, encode, get_format
from mfmamodels.results import write_text


def write_samples(
    ensemble: Sampled, core: Core, folder: str | Path, name: str, *, with_results: bool = False
) -> list[Path]:
    """Write the rows of an ensemble as text, shard by shard.

    Parameters
    ----------
    ensemble : Sampled
    core : Core
    folder : path
        Made where it is absent. Beside the rows it gets ``samples.json``, which says how they were
        drawn.
    name : str
        Device, for the file names.
    with_results : bool
        Also write d as the core computes it, in place of a device's.

    Returns
    -------
    list of path
        The files written.

    Raises
    ------
    ValueError
        If a file is there already, or a format does not fit float32 patterns.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"a_{name}_{core.a}", f"b_{name}_{core.b}", f"c_{name}_fp32", f"d_{name}_{core.out}"]
    files = [folder / f"{stem}.txt" for stem in names[: 3 + with_results]]
    for file in files:
        if file.exists():
            raise ValueError(f"{file} exists; give another folder or delete it")
    formats = (core.a, core.b, core.out, core.out)
    with ExitStack() as stack:
        streams = [stack.enter_context(open(f, "w", encoding="ascii")) for f in files]
        for shard in shards(ensemble):
            chunk = ensemble.chunk(shard)
            rows = [chunk.a, chunk.b, chunk.c]
            if with_results:
                out = np.empty(len(chunk.c), core.out.code_dtype)
                kernels.dots(core, chunk.a, chunk.b, chunk.c, out)
                rows.append(out)
            for stream, codes, fmt in zip(streams, rows, formats, strict=False):
                stream.write(textfiles.as_text(codes, fmt))
    about = {"core": core.name, **ensemble.describe()}
    return [*files, write_text(folder / "samples.json", json.dumps(about, indent=1) + "\n")]


@dataclass(frozen=True)
class Files:
    """Rows in text files, with a device's results: an ensemble read back, shard by shard.

    Attributes
    ----------
    core : Core
        Gives the formats.
    folder : path
        With one file each of ``a_*``, ``b_*`` and ``d_*_<out>``, and at most one of ``c_*``.
    """

    core: Core
    folder: Path

    @property
    def device(self) -> str:
        """Name of the device, from the file of results (ValueError if a file is missing)."""
        _, _, results = (self._file(letter) for letter in "abd")
        return results.stem.removeprefix("d_").removesuffix(f"_{self.core.out}")

    @property
    def rows(self) -> int:
        """Number of results."""
        return _marks(self._file("d"))[1]

    def _file(self, letter: str) -> Path:
        return recorded.only(
            self.folder, f"d_*_{self.core.out}.txt" if letter == "d" else f"{letter}_*.txt"
        )

    def chunk(self, shard: int) -> Chunk:
        """Read one shard's lines."""
        core, first = self.core, shard * SHARD_ROWS
        a, b = (
            _part(self._file(letter), fmt, shard, products=True)
            for letter, fmt in (("a", core.a), ("b", core.b))
        )
        d = _part(self._file("d"), core.out, shard)
        c = np.zeros_like(d)
        if list(self.folder.glob("c_*.txt")):
            c = _part(self._file("c"), get_format("fp32"), shard)
            if core.out.dtype_name != "float32":  # drivers round c to the output's format
                with np.errstate(invalid="ignore"):  # signalling NaNs
                    c = encode(c.view(np.float32), core.out, "rne", "inf")
        if a.shape != b.shape or not len(a) == len(c) == len(d):
            raise ValueError(
                f"{self.folder}: from line {first + 1} on, {len(a)} rows of a, {len(b)} of b, "
                f"{len(c)} of c and {len(d)} results; each result needs one of each"
            )
        return Chunk(first, a, b, c, d)

    def describe(self) -> dict[str, Any]:
        """Names and sizes of the files."""
        files = sorted(f for n in "abcd" for f in self.folder.glob(f"{n}_*.txt"))
        return {
            "files": [[f.name, f.stat().st_size] for f in files],
            "rows": self.rows,
            "shard_rows": SHARD_ROWS,
        }


def _part(file: Path, fmt: Format, shard: int, *, products: bool = False) -> NDArray:
    starts, _ = _marks(file)
    lines: list[str] = []
    if shard < len(starts):
        with open(file, "rb") as stream:
            stream.seek(starts[shard])
            lines = [line.decode("ascii") for line in islice(stream, SHARD_ROWS)]
    first = shard * SHARD_ROWS + 1
    return textfiles.from_lines(lines, fmt, str(file), products=products, first=first)


def _marks(file: Path) -> tuple[list[int], int]:
    """Where the shards of a file begin, and how many lines it has."""
    return _scanned(str(file), file.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _scanned(file: str, _changed: int) -> tuple[list[int], int]:
    starts, position, count = [], 0, 0
    with open(file, "rb") as stream:
        for line in stream:
            if count % SHARD_ROWS == 0:
                starts.append(position)
            position += len(line)
            count += 1
    return starts, count
