"""The subcommand validate: compare a core with recorded outputs of hardware."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "validate",
        help="compare a core with recorded outputs",
        description="Compare a core with recorded outputs, bit by bit. Exit status 1 if any row "
        "differs.",
        epilog="DIR holds index.json and .npz files, or the public text files a_*, b_*, c_*, d_*.",
    )
    parser.add_argument("core", help="for example A100/fp16")
    parser.add_argument("--recorded", type=Path, metavar="DIR", required=True)
    parser.add_argument(
        "--case",
        action="append",
        help="a case of index.json, whatever the core's evidence names (may be repeated)",
    )
    parser.add_argument("--rows", type=int, default=3, help="mismatches to print (%(default)s)")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Print rows and mismatches of every case."""
    import mfmamodels as mm
    from mfmamodels.characterise import recorded

    core = mm.core(arguments.core)
    different = False
    for recording in recorded.read_for(core, arguments.recorded, arguments.case):
        comparison = recorded.compare(core, recording)
        print("\n".join(comparison.describe(arguments.rows)))
        different |= bool(len(comparison.mismatches))
    return int(different)
