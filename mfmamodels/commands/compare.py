"""The subcommand compare: tell a bug in one of two devices from the arithmetic of both."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfmamodels.characterise.comparison import Accuracy, Pair
    from mfmamodels.core import Core

Progress = Callable[[int, int, str], None]


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser = subparsers.add_parser(
        "compare",
        help="compare cores on a matrix product or on a study",
        description="Compare cores pair by pair: how many words differ, by how much, and which "
        "numerical feature explains it (siblings with one feature changed at a time). On a random "
        "product by default, on a study with --study.",
    )
    parser.add_argument(
        "--cores", required=True, help="names, separated by commas: A100/fp16,B200/fp16"
    )
    parser.add_argument("--study", help="a study of applications/ instead of a product")
    parser.add_argument(
        "--config", type=Path, help="configuration of the study (default: as shipped)"
    )
    parser.add_argument("--shape", default="64,64,512", help="m,n,k of the product (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (%(default)s)")
    parser.add_argument(
        "--decades", type=float, default=0.0, help="spread of the inputs' magnitudes (%(default)s)"
    )
    parser.add_argument("--no-explain", action="store_true", help="do not run siblings")
    parser.add_argument("-o", "--output", type=Path, metavar="STEM",
                        help="also write STEM.json, STEM.md, STEM.png and STEM.pdf")  # fmt: skip
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    """Compare, print the report, write it where asked."""
    import mfmamodels as mm

    cores = [mm.core(name.strip()) for name in arguments.cores.split(",")]
    explain = not arguments.no_explain
    if arguments.study:
        from applications import _config

        config = _config.load(arguments.config)
        report = study_report(cores, arguments.study, config, explain=explain, progress=_progress)
    else:
        report = gemm_report(
            cores, _shape(arguments.shape), arguments.seed, arguments.decades,
            explain=explain, progress=_progress,
        )  # fmt: skip
    print(to_markdown(report))
    if arguments.output is not None:
        write(report, arguments.output)
    return 0


def _progress(done: int, total: int, text: str) -> None:
    print(f"compare: {done}/{total} {text}", file=sys.stderr)


def _shape(text: str) -> list[int]:
    try:
        m, n, k = (int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--shape is m,n,k (three whole numbers), not {text!r}") from None
    return [m, n, k]


def gemm_report(
    cores: list[Core],
    shape: Sequence[int],
    seed: int = 0,
    decades: float = 0.0,
    *,
    explain: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compare cores on a random product of shape (m, n, k)."""
    from mfmamodels.characterise import comparison

    m, n, k = shape
    gemm = comparison.Gemm.random(m, n, k, seed, decades=decades)
    pairs = comparison.compare(
        comparison.gemm_experiment(gemm), cores, scale={"D": gemm.scale},
        explain=explain, progress=progress,
    )  # fmt: skip
    title = f"Product {m} x {k} by {k} x {n}, seed {seed}, inputs over {decades:g} decades"
    return _report(title, "|A| |B|", pairs, [comparison.accuracy(core, gemm) for core in cores])


def study_report(
    cores: list[Core],
    name: str,
    config: Mapping[str, Any],
    *,
    explain: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compare cores on all floating-point results of a study.

    Parameters
    ----------
    cores : list of Core
    name : str
        The study, a file in applications/.
    config : mapping
        A whole configuration; the study's section decides its points.
    explain, progress
        As in :func:`mfmamodels.characterise.comparison.compare`.
    """
    import numpy as np

    from applications import _registry
    from mfmamodels.characterise import comparison

    study = _registry.make(name, config)

    def experiment(core: Core) -> dict[str, Any]:
        dataset = study.module.run(core.name, study.config, study.seed, None)
        return {
            str(variable): np.asarray(array.values)
            for variable, array in dataset.data_vars.items()
            if array.dtype.kind == "f"
        }

    pairs = comparison.compare(experiment, cores, explain=explain, progress=progress)
    return _report(f"Study {name}: {study.title}", "the largest magnitude", pairs, [])


def _report(title: str, scale: str, pairs: list[Pair], accuracies: list[Accuracy]) -> dict:
    from dataclasses import asdict

    from mfmamodels.characterise.comparison import as_dict

    return {
        "title": title,
        "scale": scale,
        "accuracy": [asdict(a) for a in accuracies],
        "pairs": [as_dict(pair) for pair in pairs],
    }


def to_markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"# {report['title']}",
        "",
        f"Differences and errors are relative to {report['scale']}.",
    ]
    if report["accuracy"]:
        lines += [
            "",
            "| core | largest error | rms error | mean signed error | inputs to zero "
            "| subnormal inputs | products lost |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {a['core']} | {a['largest']:.2e} | {a['rms']:.2e} | {a['mean']:+.1e} "
            f"| {a['inputs_to_zero']} | {a['subnormal_inputs']} "
            f"| {a['lost_products']} of {a['products']} |"
            for a in report["accuracy"]
        ]
    for pair in report["pairs"]:
        lines += ["", *_pair_lines(pair)]
    return "\n".join(lines)


def _pair_lines(pair: dict[str, Any]) -> list[str]:
    lines = [
        f"## {pair['first']} against {pair['second']}",
        "",
        f"{pair['verdict']}. Suggested tolerance: {pair['tolerance']:.2e}.",
        "",
        "| result | words that differ | largest | rms | mean signed |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {d['differing']} of {d['words']} | {d['largest']:.2e} | {d['rms']:.2e} "
        f"| {d['mean']:+.1e} |"
        for name, d in pair["distances"].items()
    ]
    if pair["explanations"]:
        lines += [
            "",
            f"| feature changed in {pair['first']} | from | to | words it changes "
            f"| words that still differ from {pair['second']} |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {e['feature']} | {e['first']} | {e['second']} | {_percent(e['changed'])} "
            f"| {_percent(e['remaining'])} |"
            for e in pair["explanations"]
        ]
    return lines


def _percent(share: float | None) -> str:
    return "not alone" if share is None else f"{share:.2%}"


def write(report: dict[str, Any], stem: Path) -> None:
    """Write the report as JSON, Markdown and a figure, each whole or not at all."""
    from mfmamodels import figures
    from mfmamodels.results import write_text

    write_text(stem.with_name(f"{stem.name}.json"), json.dumps(report, indent=1) + "\n")
    write_text(stem.with_name(f"{stem.name}.md"), to_markdown(report) + "\n")
    with figures.style():
        figures.save(draw(report), stem)


def draw(report: dict[str, Any]) -> Any:
    """Share of differing words and size of the differences, pair by pair."""
    import matplotlib.pyplot as plt

    from mfmamodels.figures import TWO_COLUMNS

    pairs = report["pairs"]
    labels = [f"{p['first']} – {p['second']}" for p in pairs]
    rows = range(len(pairs))
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(TWO_COLUMNS, 0.24 * len(pairs) + 1.0)
    )
    shares = [100 * p["differing"] for p in pairs]
    left.barh(rows, shares, height=0.6, color="0.65", edgecolor="0.2", linewidth=0.5)
    left.set_yticks(rows, labels)
    left.invert_yaxis()
    left.set_xlim(0, 100)
    left.set_xlabel("words that differ (%)")
    for key, marker, colour in (("largest", "o", "#0B3C7D"), ("rms", "s", "#D55E00")):
        values = [max(d[key] for d in p["distances"].values()) or float("nan") for p in pairs]
        right.plot(values, rows, marker, color=colour, markerfacecolor="white", label=key)
    right.set_xscale("log")
    right.set_xlabel(f"difference relative to {report['scale']}")
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure
