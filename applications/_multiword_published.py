"""How the published multi-word results came about, and the comparison with their files.

The published experiments differ from what section 8.1 describes in one respect. The rounding
options of the conversion library persist between calls, the model of the core ends with rounding
toward zero, and the experiment passes no direction: so every split after the first product of a
session truncates. Only the first cell of a session (n = 10 with the fewest words) was split with
rounding to nearest. Everything else here is as described there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

#: Format of the words -> name of a model in the files -> core that computes it.
MODELS: dict[str, dict[str, str]] = {
    "fp16": {
        "mi100": "MI100/fp16",
        "mi250": "MI250/fp16",
        # The released model of CDNA3 was an earlier stage of the final one.
        "mi300x": "MI300X/fp16:rd31",
        "v100": "V100/fp16",
        "a100": "A100/fp16",
        "b200": "B200/fp16",
        "b200rn": "B200/fp16:rne",
    },
    "bf16": {
        "mi100": "MI100/bf16",
        "mi250": "MI250/bf16_1k",
        "mi300x": "MI300X/bf16:rd31",
        "a100": "A100/bf16",
        "b200": "B200/bf16",
        "b200rn": "B200/bf16:rne",
    },
    "e5m2": {
        "mi300x": "MI300X/e5m2fnuz:rd31",
        "h100": "H100/e5m2",
        "l40s": "L40S/e5m2",
        "b200": "B200/e5m2",
        "b200rn": "B200/e5m2:rne",
    },
}

WORDS: dict[str, tuple[int, ...]] = {"fp16": (1, 2, 3), "bf16": (1, 2, 3), "e5m2": (1, 4, 6)}

#: floor(logspace(1, 6, 20)), written down: the powers of ten in it are at a rounding's mercy.
SIZES = (
    10, 18, 33, 61, 112, 206, 379, 695, 1274, 2335,
    4281, 7847, 14384, 26366, 48329, 88586, 162377, 297635, 545559, 1000000,
)  # fmt: skip

#: Cores whose run began its session: their first cell was split with rounding to nearest.
FIRST_IN_SESSION = frozenset({"MI100/fp16", "V100/fp16", "MI300X/bf16:rd31", "H100/e5m2"})

#: Run after another model of its format without reseeding: it saw the random numbers that follow.
SECOND_IN_STREAM = frozenset({"B200/e5m2:rne"})

_FILE_FORMATS = {"binary16": "fp16", "bfloat16": "bf16", "fp8-e5m2": "e5m2"}
_FILE_NAME = re.compile(r"matmul_test_(.+)_binary32_words_(\d+)_model_(\w+)\.dat")


def compare(results: Mapping[str, xr.Dataset], folder: Path) -> list[tuple[str, int, str, float]]:
    """Pair every published error with ours.

    Parameters
    ----------
    results : mapping
        From the name of a format of words to the dataset of its published way.
    folder : Path
        With files matmul_test_FORMAT_binary32_words_P_model_MODEL.dat: a line of headings, then
        n, error and bound.

    Returns
    -------
    list of (file, n, published, ours)
        For the sizes, words and cores that the results hold. Files of numbers of words that were
        not part of the experiment are passed over: those of fp8 with two and three words on MI300X
        come from an earlier run with another format's range.
    """
    rows = []
    for path in sorted(folder.glob("matmul_test_*.dat")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None or _FILE_FORMATS.get(match[1]) not in results:
            continue
        data = results[_FILE_FORMATS[match[1]]]
        words, core = int(match[2]), MODELS[_FILE_FORMATS[match[1]]].get(match[3])
        if core not in data.core.values or words not in data.words.values:
            continue
        errors = data.error.sel(core=core, words=words).isel(draw=0)
        ours = dict(zip(errors.n.values.tolist(), errors.values.tolist(), strict=True))
        rows += [(path.name, n, published, ours[n]) for n, published in _read(path) if n in ours]
    return rows


def _read(path: Path) -> list[tuple[int, str]]:
    """Sizes and errors of a published file, the errors as the text printed there."""
    lines = path.read_text(encoding="ascii").splitlines()[1:]
    return [(int(line.split()[0]), line.split()[1]) for line in lines if line.strip()]
