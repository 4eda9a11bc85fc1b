"""Command line: ``python -m mfmamodels list | show | trace | matmul | validate | ...``."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import textwrap
from collections.abc import Sequence

from mfmamodels import commands


def build_parser() -> argparse.ArgumentParser:
    """Parser with every subcommand of :mod:`mfmamodels.commands`."""
    parser = argparse.ArgumentParser(
        prog="mfmamodels",
        description="Bit-accurate models of AMD matrix cores and NVIDIA tensor cores.",
        epilog="Cores are named device/inputs[:out][:path][:variant], as `list` prints them.",
    )
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for module in sorted(m.name for m in pkgutil.iter_modules(commands.__path__)):
        if not module.startswith("_"):
            importlib.import_module(f"{commands.__name__}.{module}").add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        Exit status: 0; 1 where something was found to differ; 2 on bad input, with one message on
        standard error.
    """
    parsed = build_parser().parse_args(arguments)
    try:
        return parsed.main(parsed)
    except BrokenPipeError:  # the reader, `head` for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(textwrap.fill(f"mfmamodels: error: {error}", 100, break_long_words=False,
                            break_on_hyphens=False), file=sys.stderr)  # fmt: skip
        return 2


if __name__ == "__main__":
    sys.exit(main())
