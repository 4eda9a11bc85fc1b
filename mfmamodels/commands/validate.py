"""The subcommand validate: compare a core with a device's results, a program, or another core."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfmamodels.characterise.validation import Outcome
    from mfmamodels.core import Core


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "validate",
        help="compare a core with recorded outputs, a program or another core",
        description="Compare a core, bit by bit, with recorded outputs (--recorded), or over a "
        "random ensemble with a program (--command) or another core (--against). Exit status 1 if "
        "any row differs, 2 if a program fails.",
        epilog="DIR holds index.json and .npz files, or the public text files a_*, b_*, c_*, d_*. "
        "COMMAND is run as `COMMAND A B C D` with four files of that text format: it reads the "
        "first three and writes the last.",
    )
    parser.add_argument("core", help="for example A100/fp16")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--recorded", type=Path, metavar="DIR")
    source.add_argument("--command", metavar="COMMAND", help="a program, as one word of the shell")
    source.add_argument("--against", metavar="OTHER", help="another core, `reference`, or "
                        "`exact_integer` (a second implementation)")  # fmt: skip
    parser.add_argument(
        "--case",
        action="append",
        help="a case of index.json, whatever the core's evidence names (may be repeated)",
    )
    ensemble = parser.add_argument_group("ensembles (--command, --against)")
    ensemble.add_argument("--sampler", default="exponent_mantissa", help="%(default)s")
    ensemble.add_argument("--samples", type=int, default=100_000, help="rows (%(default)s)")
    ensemble.add_argument("--seed", type=int, default=1, help="%(default)s")
    ensemble.add_argument("-k", type=int, help="products in a row (default: the paper's)")
    ensemble.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS",
                          help="for 50 000 rows of a program (%(default)s)")  # fmt: skip
    ensemble.add_argument("--save", type=Path, metavar="FILE",
                          help="keep what was found there, and go on from it")  # fmt: skip
    parser.add_argument("--rows", type=int, default=3, help="mismatches to print (%(default)s)")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Print rows and mismatches."""
    import mfmamodels as mm

    core = mm.core(arguments.core)
    if arguments.recorded is None:
        return _over_an_ensemble(core, arguments)
    if (arguments.recorded / "index.json").is_file():
        return _packed(core, arguments)
    return _text_files(core, arguments)


def _packed(core: Core, arguments: argparse.Namespace) -> int:
    from mfmamodels.characterise import recorded

    different = False
    for recording in recorded.read_for(core, arguments.recorded, arguments.case):
        comparison = recorded.compare(core, recording)
        print("\n".join(comparison.describe(arguments.rows)))
        different |= bool(len(comparison.mismatches))
    return int(different)


def _text_files(core: Core, arguments: argparse.Namespace) -> int:
    from mfmamodels.characterise import parties, validation
    from mfmamodels.characterise.exchange import Files

    if not arguments.recorded.is_dir():
        raise ValueError(f"{arguments.recorded} is not a folder")
    files = Files(core, arguments.recorded)
    case = f"{files.device}_{core.inputs}_{core.out}"
    outcome = validation.compare(files, core, parties.Recording(), parties.Model(core))
    return _report(case, "recorded", outcome, arguments.rows)


def _over_an_ensemble(core: Core, arguments: argparse.Namespace) -> int:
    import mfmamodels as mm
    from mfmamodels.characterise import parties, validation
    from mfmamodels.characterise.bounds import upper_bound

    ensemble = validation.Sampled(
        core, arguments.sampler, arguments.samples, arguments.seed, arguments.k
    )
    other: parties.Party
    if arguments.command is not None:
        other = parties.Command(arguments.command, arguments.timeout)
    elif arguments.against in ("reference", "exact_integer"):
        other = parties.Model(core, arguments.against)
    else:
        other = parties.Model(mm.core(arguments.against))
    what = f"{other.name} and {core.name} on {arguments.sampler} rows"
    failed = None
    try:
        outcome = validation.compare(
            ensemble, core, other, parties.Model(core), saved=arguments.save, progress=_progress
        )
    except validation.Incomplete as error:
        failed = error
        (outcome,) = error.outcomes.values()
    status = _report(what, "other", outcome, arguments.rows)
    bound = upper_bound(outcome.rows, outcome.mismatches)
    print(f"probability of a mismatch in such a row: below {bound:.3g}, with 1 - 1e-6 certainty")
    if failed is not None:
        raise ValueError(str(failed))
    return status


def _progress(done: int, total: int, text: str) -> None:
    print(f"validate: {done}/{total} {text}", file=sys.stderr)


def _report(what: str, left: str, outcome: Outcome, rows: int) -> int:
    """Print the count and the first mismatches; return the exit status."""
    print(f"{what}: {outcome.rows} rows, {outcome.mismatches} mismatches")
    for found in outcome.kept[:rows]:
        print(f"  row {found.row}\n    a = {found.a.upper()}\n    b = {found.b.upper()}")
        print(
            f"    c = {found.c.upper()}, {left} d = {found.left.upper()}, "
            f"model d = {found.right.upper()}"
        )
    return int(outcome.mismatches > 0)
