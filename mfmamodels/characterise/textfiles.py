"""The public text format of rows: float32 patterns, whatever the format of the numbers.

One line holds one row of a or b in hexadecimal (eight digits a number), or one c or d as 32 binary
digits. Formats that float32 does not contain (fp64) cannot be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mfmamodels.formats import Format, Specials, decode, encode, is_nan
from mfmamodels.fpenv import ieee_environment


def write_codes(file: str | Path, codes: NDArray, fmt: Format) -> None:
    """Write one file; arguments as in :func:`as_text`."""
    Path(file).write_text(as_text(codes, fmt), encoding="ascii")


def as_text(codes: NDArray, fmt: Format) -> str:
    """Lines of a file.

    Parameters
    ----------
    codes : ndarray of unsigned int
        Of shape (rows, K), as for a and b, or (rows,), as for c and d.
    fmt : Format

    Returns
    -------
    str
        A line for each row, the last one ended too.

    Raises
    ------
    ValueError
        For fp64.
    """
    patterns = _patterns(codes, fmt).tolist()
    if codes.ndim == 2:
        return "".join(" ".join(f"{x:08x}" for x in row) + "\n" for row in patterns)
    return "".join(f"{x:032b}\n" for x in patterns)


def read_codes(file: str | Path, fmt: Format, *, products: bool = False) -> NDArray:
    """Read one file; arguments as in :func:`from_lines`."""
    lines = Path(file).read_text(encoding="ascii").splitlines()
    return from_lines(lines, fmt, str(file), products=products)


def from_lines(
    lines: Sequence[str], fmt: Format, where: str, *, products: bool = False, first: int = 1
) -> NDArray:
    """Codes of lines.

    Parameters
    ----------
    lines : sequence of str
    fmt : Format
        xf32 and tf32 keep the bits that the hardware ignores.
    where : str
        What messages call the file.
    products : bool
        Whether the lines hold rows of a or b, instead of one c or d each.
    first : int
        Number of the first line, for messages.

    Returns
    -------
    ndarray of unsigned int
        (rows, K) or (rows,).

    Raises
    ------
    ValueError
        If a line cannot be read or a value does not fit the format; the message names the line.
    """
    patterns = (_rows if products else _words)(lines, where, first)
    return _fitting(patterns, fmt, where, first)


def _rows(lines: Sequence[str], where: str, first: int) -> NDArray[np.uint32]:
    rows: list[list[int]] = []
    for number, line in enumerate(lines, first):
        try:
            rows.append([int(word, 16) for word in line.split()])
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: {error}") from None
        if len(rows[-1]) != len(rows[0]):
            raise ValueError(
                f"{where}, line {number}: {len(rows[-1])} values; its lines do not all hold "
                "the same number of values"
            )
        if rows[-1] and max(rows[-1]) > 0xFFFFFFFF:
            raise ValueError(f"{where}, line {number}: a pattern of more than 32 bits")
    return np.array(rows, np.uint32)


def _words(lines: Sequence[str], where: str, first: int) -> NDArray[np.uint32]:
    words = [line.strip() for line in lines]
    for number, word in enumerate(words, first):
        if len(word) != 32 or set(word) - {"0", "1"}:
            raise ValueError(f"{where}, line {number}: {word[:40]!r} is not 32 binary digits")
    return np.array([int(word, 2) for word in words], np.uint32)


def _fitting(patterns: NDArray[np.uint32], fmt: Format, where: str, first: int) -> NDArray:
    """Codes of float32 patterns that the format holds."""
    if fmt.dtype_name == "float32":
        return patterns
    x = patterns.view(np.float32)
    nan = np.isnan(x)
    x = np.where(nan, np.float32(0), x)
    with ieee_environment():
        codes = encode(x, fmt, "rne", "inf" if fmt.has_inf else "nan")
        unfit = decode(codes, fmt) != x
    if unfit.any():
        row = int(np.argwhere(unfit)[0][0])
        raise ValueError(f"{where}, line {row + first}: a value does not fit {fmt}")
    return np.where(nan, _narrow_nan(patterns, fmt), codes).astype(fmt.code_dtype)


def _narrow_nan(patterns: NDArray[np.uint32], fmt: Format) -> NDArray:
    """Codes of float32 NaNs: the sign and the upper bits of the payload, where there are any."""
    if fmt.specials is Specials.FNUZ:
        return np.full(patterns.shape, fmt.nan_code)
    sign = patterns >> 31 << (fmt.width - 1)
    if fmt.specials is Specials.FN:
        return sign | fmt.nan_code
    return sign | fmt.inf_code | (patterns & 0x7FFFFF) >> (23 - fmt.fraction_bits)


def _patterns(codes: NDArray, fmt: Format) -> NDArray[np.uint32]:
    """Float32 patterns of codes of a format that float32 contains."""
    if fmt.dtype_name == "float32":
        return codes.astype(np.uint32)
    if fmt.width == 64:
        raise ValueError("the text layout holds float32 patterns: fp64 does not fit")
    with ieee_environment():
        patterns = decode(codes, fmt).astype(np.float32).view(np.uint32)
    wide = codes.astype(np.uint32)
    nan = wide >> (fmt.width - 1) << 31 | 0x7F800000
    if fmt.has_inf:
        nan |= (wide & ((1 << fmt.fraction_bits) - 1)) << (23 - fmt.fraction_bits)
    else:
        nan |= 1 << 22
    return np.where(is_nan(codes, fmt), nan, patterns)
