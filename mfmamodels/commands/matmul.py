"""The subcommand matmul: multiply matrices stored in .npy files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mfmamodels.formats import Format


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "matmul",
        help="A @ B + C of .npy files",
        description="Write A @ B + C, bit for bit as the core computes it.",
        epilog=".npy files cannot hold bfloat16 and 8-bit floats: give their codes (unsigned "
        "integers) and --codes, or wider floats whose values all fit.",
    )
    parser.add_argument("core", help="for example MI300X/fp16")
    parser.add_argument("a", type=Path, metavar="A.npy")
    parser.add_argument("b", type=Path, metavar="B.npy")
    parser.add_argument("c", type=Path, metavar="C.npy", nargs="?")
    parser.add_argument("-o", "--output", type=Path, metavar="D.npy", required=True)
    parser.add_argument(
        "--codes", action="store_true", help="the files hold codes of the formats, and so will D"
    )
    parser.add_argument("--force", action="store_true", help="overwrite D.npy")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Read, multiply, write."""
    import numpy as np

    import mfmamodels as mm

    core = mm.core(arguments.core)
    if arguments.output.exists() and not arguments.force:
        raise ValueError(f"{arguments.output} exists; --force overwrites it")
    a = _read(arguments.a, core.a, arguments.codes)
    b = _read(arguments.b, core.b, arguments.codes)
    c = None if arguments.c is None else _read(arguments.c, core.out, arguments.codes)
    d = core.matmul(a, b, c)
    with arguments.output.open("wb") as file:  # np.save would add .npy to another name
        np.save(file, d.view(core.out.code_dtype) if arguments.codes else d)
    return 0


def _read(file: Path, fmt: Format, codes: bool) -> NDArray:
    import numpy as np

    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{file} is no .npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{file} holds several arrays; one .npy file per matrix is needed")
    if not codes:
        if array.dtype.kind == "V":
            raise ValueError(f"{file} has lost its type in .npy; store codes and give --codes")
        return array
    if array.dtype.kind != "u" or array.dtype.itemsize != fmt.code_dtype.itemsize:
        raise ValueError(f"{file} holds {array.dtype}; codes of {fmt} are {fmt.code_dtype}")
    return array.astype(fmt.code_dtype, copy=False).view(fmt.dtype)
