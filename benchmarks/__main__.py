"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

import numba
import numpy as np

from benchmarks import peers
from benchmarks.measure import blas_name, gemm_seconds, measure, threads
from benchmarks.startup import startup
from mfmamodels import core, cores

#: One core of every arithmetic whose speed differs.
CORES = (
    "MI100/fp16 MI100/bf16 MI250/fp16 MI250/bf16 MI250/bf16_1k MI300X/fp16 MI300X/bf16 MI300X/xf32 "
    "MI300X/e4m3fnuz MI300X/e5m2fnuz MI300X/fp32 MI300X/fp64 V100/fp16 A100/fp16 A100/bf16 "
    "A100/tf32 H100/fp16 H100/fp16:fp16 H100/bf16 H100/tf32 H100/e4m3fn H100/e4m3fn:mma.sync "
    "B200/fp16 B200/e4m3fn"
)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cores", nargs="+", metavar="NAME", default=CORES.split(),
                        help='cores to measure, or "all"')  # fmt: skip
    parser.add_argument("--quick", action="store_true",
                        help="256^3 products and 100 000 dots only; no start-up times")  # fmt: skip
    parser.add_argument("--peers", action="store_true", help="MMA-Sim 2.1.1 too, if installed")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"), metavar="FOLDER",
                        help="where benchmarks.json and benchmarks.md go")  # fmt: skip
    return parser.parse_args(arguments)


def table(report: dict) -> str:
    """Markdown table of the cores' timings."""
    first = report["cores"][0]["gemm"]
    heads = [f"{x['n']}³, {x['threads']} thr." for x in first]
    lines = ["| core | " + " | ".join(heads) + " | 10 x n x 10 | 10⁶ dots, ms |"]
    lines.append("|---" * (len(heads) + 3) + "|")
    for row in report["cores"]:
        cells = [f"{x['gmacs']:.2f} ({x['ratio']:.1f}x)" for x in row["gemm"]]
        cells += [f"{row['thin_gmacs']:.2f}", f"{row['dots_ms']:.0f}"]
        lines.append(f"| {row['core']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _compare(names: list[str], rows: int) -> list[dict]:
    reason = peers.available()
    if reason:
        print(f"--peers skipped: {reason}", file=sys.stderr)
        return []
    found = []
    for name in names:
        with threads(1):
            peer = peers.measure_peer(core(name), rows)
            if peer is not None:
                ours = gemm_seconds(core(name), 256, 256, 256) * 1e3
                found.append({"core": name, **peer, "our_gemm_256_ms": ours})
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write."""
    options = parse(arguments)
    names = [c.name for c in cores()] if options.cores == ["all"] else options.cores
    counts = [1, 2] if numba.config.NUMBA_NUM_THREADS > 1 else [1]
    orders, rows = ([256], 100_000) if options.quick else ([512, 1024], 1_000_000)
    report = {
        "unit": "GMAC/s (10⁹ products per second); in brackets how much slower than float32 BLAS",
        "python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__,
        "processor": platform.processor() or platform.machine(), "blas": blas_name(), "cores": [],
    }  # fmt: skip
    print(f"{report['unit']}; BLAS: {report['blas']}", file=sys.stderr)
    for name in names:
        report["cores"].append(measure(core(name), orders, counts, rows))
        print(table({"cores": report["cores"][-1:]}).splitlines()[-1], file=sys.stderr, flush=True)
    if not options.quick:
        report["startup"] = {names[0]: startup(names[:1]), "all of these": startup(names)}
    if options.peers:
        report["peers"] = _compare(names, rows)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "benchmarks.json").write_text(json.dumps(report, indent=1) + "\n")
    text = f"{report['unit']}\n\n{table(report)}\n"
    for label, times in report.get("startup", {}).items():
        cold, cached = times["cold"], times["cached"]
        text += (
            f"\nStart-up, {label}: import {cached['import_s']:.2f} s, first calls "
            f"{cold['first_s']:.1f} s cold, {cached['first_s']:.2f} s cached\n"
        )
    (options.output / "benchmarks.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
