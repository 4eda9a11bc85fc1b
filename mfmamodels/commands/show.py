"""The subcommand show: one core in words."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "show",
        help="one core: its row of Table 3, parameters, instructions and evidence",
        description="Print one core: its row of Table 3, evidence, parameters and instructions.",
    )
    parser.add_argument("core", help="MI300X/fp16, or an instruction: v_mfma_f32_32x32x8_f16")
    parser.add_argument("--arch", help="of an instruction that more than one architecture has")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Print the core."""
    import mfmamodels as mm
    from mfmamodels.describe import WIDTH, parameters
    from mfmamodels.instructions import INSTRUCTIONS

    core = mm.core(arguments.core, arch=arguments.arch)
    print(core)
    print(f"Parameters of {type(core.accumulation).__name__}")
    for line in parameters(core):
        print(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="      "))
    names = [i.name for i in INSTRUCTIONS if (i.arch, i.inputs) == (core.arch, core.inputs)]
    if names:
        print("Instructions (v_mfma_...)")
        print(textwrap.fill(", ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  "))
    return 0
