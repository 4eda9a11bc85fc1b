"""Recorded outputs of real hardware: reading, writing, and comparing any core with them, as bits.

Two layouts are read. *Packed*: ``index.json`` names cases, each with an ``.npz`` of codes of a and
b (shared between cases) and one of c and d. *Text*, as the public recordings of tensor cores have
it: ``a_<gpu>_<in>.txt`` and ``b_...`` with one dot product per line as float32 patterns in
hexadecimal, ``c_<gpu>_fp32.txt`` and ``d_<gpu>_<out>.txt`` with one float32 pattern per line as 32
binary digits, whatever the output format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mfmamodels.characterise.textfiles import read_codes, write_codes
from mfmamodels.core import Core, Level
from mfmamodels.formats import Format, encode, get_format
from mfmamodels.matmul import Backend

#: Names of input formats in the public recordings.
_FORMAT_NAMES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "float8_e4m3fn": "e4m3fn",
    "float8_e5m2": "e5m2",
    "E4M3": "e4m3fn",
    "E5M2": "e5m2",
}


@dataclass(frozen=True, eq=False)
class Recording:
    """Dot products that some device computed.

    Attributes
    ----------
    case : str
        Name, for example "A100_fp16_fp32": device, input format, output format.
    inputs, out : Format
    a, b : ndarray of unsigned int
        Codes of the input format, (rows, K).
    c, d : ndarray of unsigned int
        Codes of the output format, (rows,).
    """

    case: str
    inputs: Format
    out: Format
    a: NDArray
    b: NDArray
    c: NDArray
    d: NDArray

    @property
    def rows(self) -> int:
        """Number of dot products."""
        return len(self.d)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a core gives for the rows of a recording.

    Attributes
    ----------
    recording : Recording
    got : ndarray of unsigned int
        The core's results, (rows,).
    mismatches : ndarray of int
        Rows whose bits differ.
    """

    recording: Recording
    got: NDArray
    mismatches: NDArray

    def describe(self, most: int = 3) -> list[str]:
        """Lines for a reader: the count, then the first mismatches in hexadecimal."""
        r = self.recording
        lines = [f"{r.case}: {r.rows} rows, {len(self.mismatches)} mismatches"]
        for row in self.mismatches[:most]:
            lines += [
                f"  row {row}",
                f"    a = {_hex_row(r.a[row], r.inputs)}",
                f"    b = {_hex_row(r.b[row], r.inputs)}",
                f"    c = {_hex(r.c[row], r.out)}, recorded d = {_hex(r.d[row], r.out)}, "
                f"model d = {_hex(self.got[row], r.out)}",
            ]
        return lines


def _hex(code: int, fmt: Format) -> str:
    return f"{int(code):0{fmt.width // 4}X}"


def _hex_row(codes: NDArray, fmt: Format) -> str:
    return " ".join(_hex(code, fmt) for code in codes)


def data_folder() -> Path | None:
    """Folder of published and recorded data, if it is there.

    The environment variable ``MFMAMODELS_DATA`` names it; otherwise it is looked for beside the
    project, in ``../shared/data``.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("MFMAMODELS_DATA") or beside)
    return folder if folder.is_dir() else None


def compare(core: Core, recording: Recording, backend: Backend | None = None) -> Comparison:
    """Run a core on the rows of a recording.

    Parameters
    ----------
    core : Core
    recording : Recording
    backend : module, optional
        ``mfmamodels.reference`` for the definition; by default the fast kernels.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If the recording is of other formats than the core's.
    """
    for place, ours, theirs in (
        ("inputs", core.a, recording.inputs),
        ("inputs", core.b, recording.inputs),
        ("outputs", core.out, recording.out),
    ):
        if ours != theirs:
            raise ValueError(f"{recording.case} has {place} in {theirs}; {core.name} takes {ours}")
    if backend is None:
        from mfmamodels import kernels as backend
    got = np.empty(recording.rows, core.out.code_dtype)
    backend.dots(core, recording.a, recording.b, recording.c, got)
    return Comparison(recording, got, np.flatnonzero(got != recording.d))


# --- packed -----------------------------------------------------------------------------------


def packed_cases(folder: str | Path) -> list[str]:
    """Names of the cases of a folder with an ``index.json``."""
    return sorted(_index(Path(folder)))


def _index(folder: Path) -> dict[str, dict[str, str]]:
    return json.loads((folder / "index.json").read_text(encoding="utf-8"))


def read_packed(folder: str | Path, case: str) -> Recording:
    """Read one case of a folder with an ``index.json``.

    Raises
    ------
    ValueError
        If there is no such case; the message lists what there is.
    """
    folder = Path(folder)
    index = _index(folder)
    if case not in index:
        raise ValueError(f"no case {case!r} in {folder}; it has: {', '.join(sorted(index))}")
    entry = index[case]
    inputs = get_format(_FORMAT_NAMES.get(entry["in"], entry["in"]))
    out = get_format(entry["out"])
    with np.load(folder / entry["inputs"]) as ab, np.load(folder / entry["outputs"]) as cd:
        a, b, c, d = ab["a"], ab["b"], cd["c"], cd["d"]
    return Recording(
        case, inputs, out, a, b, encode(_float32(c), out, "rne", "inf"), d.astype(out.code_dtype)
    )


def _float32(patterns: NDArray) -> NDArray[np.float32]:
    return patterns.astype(np.uint32).view(np.float32)


# --- text -------------------------------------------------------------------------------------


def read_text(folder: str | Path, inputs: str, out: str) -> Recording:
    """Read a recording in the public text layout.

    Parameters
    ----------
    folder : path
        With exactly one file ``a_*``, one ``b_*`` and one ``d_*_<out>.txt``; a file ``c_*`` is
        optional (c is zero without it).
    inputs, out : str
        Formats of a and b, and of c and d. The files hold float32 patterns for any of them: a, b
        and d must fit their formats; c is rounded to nearest, as the recording programs do.

    Raises
    ------
    ValueError
        If a file is absent or ambiguous, a line cannot be read, or lengths differ.
    """
    folder = Path(folder)
    fmt_in, fmt_out = get_format(inputs), get_format(out)
    a, b = (read_codes(only(folder, f"{name}_*.txt"), fmt_in, products=True) for name in "ab")
    d_file = only(folder, f"d_*_{out}.txt")
    d = read_codes(d_file, fmt_out)
    c_files = sorted(folder.glob("c_*.txt"))
    if c_files:
        c = read_codes(only(folder, "c_*.txt"), get_format("fp32"))
        c = encode(_float32(c), fmt_out, "rne", "inf")
    else:
        c = np.zeros_like(d)
    if a.shape != b.shape or not len(a) == len(c) == len(d):
        raise ValueError(
            f"{folder}: a has shape {a.shape}, b {b.shape}, c {c.shape}, d {d.shape}; "
            "one row of a and b, and one line of c and d, belong to each dot product"
        )
    gpu = d_file.stem.removeprefix("d_").removesuffix(f"_{out}")
    return Recording(f"{gpu}_{inputs}_{out}", fmt_in, fmt_out, a, b, c, d)


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a folder that matches; ValueError if there is none, or more."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        names = ", ".join(f.name for f in files) or "none"
        raise ValueError(f"{folder}: one file {pattern} is needed, found {names}")
    return files[0]


def write_text(recording: Recording, folder: str | Path, gpu: str) -> None:
    """Write a recording in the public text layout; the folder is created where it is absent.

    Parameters
    ----------
    recording : Recording
    folder : path
    gpu : str
        Goes into the file names.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = (
        (f"a_{gpu}_{recording.inputs}", recording.a, recording.inputs),
        (f"b_{gpu}_{recording.inputs}", recording.b, recording.inputs),
        (f"c_{gpu}_fp32", recording.c, recording.out),
        (f"d_{gpu}_{recording.out}", recording.d, recording.out),
    )
    for stem, codes, fmt in files:
        write_codes(folder / f"{stem}.txt", codes, fmt)


# --- which recordings belong to a core --------------------------------------------------------


def cases_of(core: Core) -> list[str]:
    """Cases that the core's evidence names."""
    return [e.case for e in core.evidence if e.level is Level.RECORDED_WORDS and e.case]


def read_for(core: Core, folder: str | Path, cases: Iterable[str] | None = None) -> list[Recording]:
    """Recordings of a folder that a core should reproduce.

    Parameters
    ----------
    core : Core
    folder : path
        Packed (with an ``index.json``) or text.
    cases : iterable of str, optional
        Cases of a packed folder; by default those the core's evidence names.

    Raises
    ------
    ValueError
        If there are none; the message says what the folder has.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder")
    if not (folder / "index.json").is_file():
        if core.a != core.b:
            raise ValueError(f"{core.name} has two input formats; the text layout holds one")
        return [read_text(folder, core.a.name, core.out.name)]
    known = packed_cases(folder)
    wanted = cases_of(core) if cases is None else list(cases)
    found = [case for case in wanted if cases is not None or case in known]
    if not found:
        raise ValueError(f"no recording of {core.name} in {folder}; it has: {', '.join(known)}")
    return [read_packed(folder, case) for case in found]
