"""The subcommand list: what there is, and on what evidence."""

from __future__ import annotations

import argparse
import fnmatch
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "list",
        help="every core with its formats and its evidence",
        description="Print every core with its formats and its evidence, strongest first.",
    )
    parser.add_argument("pattern", nargs="?", default="*", help="only these: 'MI300X/*', '*/bf16*'")
    parser.add_argument("--names", action="store_true", help="names only, one per line")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Print the list."""
    from mfmamodels import cores
    from mfmamodels.describe import evidence_lines

    pattern = arguments.pattern.casefold()
    found = [c for c in cores() if fnmatch.fnmatchcase(c.name.casefold(), pattern)]
    if not found:
        raise ValueError(f"no core is called {arguments.pattern!r}; `list --names` prints all")
    for core in found:
        if arguments.names:
            print(core.name)
            continue
        print(f"{core.name}  ({core.vendor}, {core.arch}; {core.a} x {core.b} -> {core.out})")
        print("\n".join(evidence_lines(core)))
    return 0
