"""The subcommand probe: find a device's numerical features from its answers."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfmamodels.characterise.probing import Box


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "probe",
        help="find a device's numerical features from its answers",
        description="Find N_FMA, alignment, roundings, c's place and widths, limits and "
        "subnormals of a core or of a program that runs dot products on a device. Each feature "
        "comes with the query that decided it, or as undecided with the values that fit. Exit "
        "status 1 if no record answers all rows or the program failed; what was found before is "
        "printed.",
        epilog="COMMAND is run as `COMMAND A B C D` with four files of the public text format: it "
        "reads the first three (one row of a and b a line as float32 patterns in hexadecimal, c "
        "as 32 binary digits) and writes d, as c.",
    )
    parser.add_argument("core", nargs="?", help="for example MI300X/fp16")
    parser.add_argument("--command", metavar="COMMAND", help="a program, as one word of the shell")
    parser.add_argument("--recorded", type=Path, metavar="DIR",
                        help="recorded outputs: answers for their own rows only")  # fmt: skip
    parser.add_argument("--case", help="case of DIR/index.json")
    parser.add_argument("--inputs", help="format of a and b, or two: e4m3fnuz/e5m2fnuz")
    parser.add_argument("--out", default="fp32", help="format of c and d (%(default)s)")
    parser.add_argument("-k", type=int, help="products in every query, where the device has one K")
    parser.add_argument("--seed", type=int, default=0, help="of the random rows (%(default)s)")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS",
                        help="for one run of the program (%(default)s)")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Probe and print the report."""
    from mfmamodels.characterise.probing import probe

    start = time.monotonic()

    def progress(line: str) -> None:
        print(f"[{time.monotonic() - start:5.1f} s] {line}", file=sys.stderr)

    found = probe(
        _box(arguments), seed=arguments.seed, progress=None if arguments.quiet else progress
    )
    print(found.report())
    return int(found.arithmetic is None or bool(found.error))


def _box(arguments: argparse.Namespace) -> Box:
    import mfmamodels as mm
    from mfmamodels.characterise import probing, recorded

    given = [x is not None for x in (arguments.core, arguments.command, arguments.recorded)]
    if sum(given) != 1:
        raise ValueError("probe takes one of CORE, --command COMMAND or --recorded DIR")
    if arguments.core is not None:
        return probing.core_box(mm.core(arguments.core), length=arguments.k)
    if arguments.command is not None:
        if arguments.inputs is None:
            raise ValueError("--command needs --inputs FORMAT, for example --inputs fp16")
        return probing.command_box(
            arguments.command, arguments.inputs, arguments.out, arguments.k, arguments.timeout
        )
    if (arguments.recorded / "index.json").is_file():
        if arguments.case is None:
            cases = ", ".join(recorded.packed_cases(arguments.recorded))
            raise ValueError(f"--recorded with an index.json needs --case; it has: {cases}")
        return probing.RecordedBox(recorded.read_packed(arguments.recorded, arguments.case))
    if arguments.inputs is None:
        raise ValueError("--recorded with text files needs --inputs FORMAT")
    recording = recorded.read_text(arguments.recorded, arguments.inputs, arguments.out)
    return probing.RecordedBox(recording)
