"""The subcommand trace: one dot product step by step."""

from __future__ import annotations

import argparse
from typing import Any

from mfmamodels.commands._numbers import HELP, read_numbers


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "trace",
        help="one dot product step by step",
        description="Print every exponent, aligned significand, sum and rounding of a*b + c.",
        epilog="Give numbers that start with a minus sign as --a=-1,2.",
    )
    parser.add_argument("core", help="for example MI300X/fp16")
    parser.add_argument("--a", required=True, help=HELP)
    parser.add_argument("--b", required=True, help="as many numbers as a")
    parser.add_argument("--c", default="0", help="one number in the output format (default 0)")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Print the steps."""
    import mfmamodels as mm

    core = mm.core(arguments.core)
    a = read_numbers(arguments.a, core.a, "a")
    b = read_numbers(arguments.b, core.b, "b")
    c = read_numbers(arguments.c, core.out, "c")
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} numbers and b {len(b)}: a dot product needs as many")
    if len(c) != 1:
        raise ValueError(f"c has {len(c)} numbers: a dot product has one")
    print(core.trace(a.view(core.a.dtype), b.view(core.b.dtype), c.view(core.out.dtype)))
    return 0
