"""The subcommand samples: write input rows for a device in the public text format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "samples",
        help="write random inputs for a device",
        description="Write rows of a, b (float32 patterns in hexadecimal) and c (32 binary digits "
        "a line) that a driver program runs on a device; examples/hardware/ has drivers. Put its "
        "results beside them as d_<name>_<out>.txt and run `validate CORE --recorded DIR`.",
    )
    parser.add_argument("core", help="for example MI300X/fp16")
    parser.add_argument("--sampler", default="exponent_mantissa", help="%(default)s, "
                        "exponent_mantissa_subnormal, bits, near_tie, cancellation, structured, "
                        "specials")  # fmt: skip
    parser.add_argument("--rows", type=int, default=100_000, help="%(default)s")
    parser.add_argument("--seed", type=int, default=1, help="%(default)s")
    parser.add_argument("-k", type=int, help="products in a row (default: the paper's)")
    parser.add_argument("--name", help="of the device, in the file names (default: the core's)")
    parser.add_argument(
        "--with-results", action="store_true", help="also write d, as the core computes it"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True)
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Write the files of one ensemble and say which."""
    import mfmamodels as mm
    from mfmamodels.characterise import exchange
    from mfmamodels.characterise.ensembles import Sampled

    core = mm.core(arguments.core)
    if arguments.rows < 1:
        raise ValueError(f"--rows is {arguments.rows}; allowed: 1 and more")
    ensemble = Sampled(core, arguments.sampler, arguments.rows, arguments.seed, arguments.k)
    name = arguments.name or core.device
    files = exchange.write_samples(
        ensemble, core, arguments.output, name, with_results=arguments.with_results
    )
    print("\n".join(map(str, files)))
    return 0
