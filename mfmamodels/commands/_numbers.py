"""Numbers on the command line: decimal, hexadecimal floats, or codes of a format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mfmamodels.formats import Format

HELP = "numbers separated by commas: 1.5, 0x1.8p0, inf, or codes of the format: 0x3E00"


def read_numbers(text: str, fmt: Format, name: str) -> NDArray:
    """Codes of numbers given as text.

    Parameters
    ----------
    text : str
        Separated by commas. ``0x`` followed by digits without a point or ``p`` is a code.
    fmt : Format
    name : str
        What error messages call the numbers.

    Returns
    -------
    ndarray of unsigned int

    Raises
    ------
    ValueError
        If a word is no number, or a number does not fit the format.
    """
    import numpy as np

    words = [word.strip() for word in text.split(",")]
    codes = [_code(word, fmt, f"{name}[{i}]") for i, word in enumerate(words)]
    return np.array(codes, fmt.code_dtype)


def _code(word: str, fmt: Format, name: str) -> int:
    import numpy as np

    from mfmamodels.matmul import as_codes

    plain = word.lower().lstrip("+-")
    try:
        if plain.startswith("0x") and "p" not in plain and "." not in plain:
            code = int(word, 16)
            if not 0 <= code < 1 << fmt.width:
                raise ValueError(f"{name} = {word}: a code of {fmt} has {fmt.width} bits")
            return code
        value = float.fromhex(word) if "0x" in plain else float(word)
        if value in (math.inf, -math.inf) and not plain.startswith("inf"):
            raise OverflowError
    except (ValueError, OverflowError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name} = {word!r} is no number ({HELP})") from None
    return int(as_codes(np.float64(value), fmt, name).item())
