"""Figures that show one number per run: its spread over matrices, per core and per format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from applications._smd_examples import FAMILIES
from applications._smd_measures import (
    Results,
    couple,
    device,
    input_formats,
    largest_difference,
    pairs,
    shared_formats,
)
from applications._smd_runs import DOUBLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FREE = {"color": "#0B3C7D", "marker": "o", "face": "#0B3C7D"}
REPLAYED = {"color": "#E69F00", "marker": "s", "face": "white"}
ERROR = r"$\max_\Omega |\lambda_1 - \lambda_{1,\mathrm{double}}| \,/ \max\lambda_1$"
PAIR = r"$\max_\Omega |\Delta\lambda_{i,j}| \,/ \max\lambda_1$"


def new_figure(height: float) -> Figure:
    """Return an empty figure of a journal's full width that no window system knows of."""
    from matplotlib.figure import Figure

    from mfmamodels.figures import TWO_COLUMNS

    return Figure(figsize=(TWO_COLUMNS, height), layout="constrained")


def small_print(figure: Figure, text: str) -> None:
    """Write what the figure is made of under it."""
    figure.supxlabel(text, fontsize=7, color="0.3")


def whisker(
    panel: Axes, y: float, values: NDArray[Any], looks: Mapping[str, Any], label: str | None = None
) -> None:
    """Draw median (marker), quartiles (thick) and extremes (thin) in a row.

    Only positive values can be drawn on a logarithmic axis; how many are zero is written beside.
    """
    positive = values[values > 0]
    if len(positive):
        low, first, median, third, high = np.percentile(positive, [0, 25, 50, 75, 100])
        panel.plot([low, high], [y, y], color=looks["color"], linewidth=0.7)
        panel.plot([first, third], [y, y], color=looks["color"], linewidth=2.4)
        panel.plot(
            [median],
            [y],
            marker=looks["marker"],
            color=looks["color"],
            markerfacecolor=looks["face"],
            linestyle="",
            label=label,
        )
    zeros = int((values == 0).sum())
    if zeros:
        panel.text(
            1.01,
            y,
            f"{zeros} of {len(values)} zero",
            transform=panel.get_yaxis_transform(),
            va="center",
            fontsize=6.5,
            color=looks["color"],
        )


def rows(panel: Axes, labels: list[str]) -> None:
    """Name the rows, the first at the top."""
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(len(labels) - 0.4, -0.6)
    panel.grid(axis="y", visible=False)


def whole_decades(panel: Axes) -> None:
    """Let a logarithmic axis begin and end at powers of ten."""
    low, high = panel.get_xlim()
    panel.set_xlim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))


def figure_replay(results: Results, config: Mapping[str, Any]) -> Figure:
    """Differences when cores decide for themselves, and when they repeat double's decisions."""
    from matplotlib.ticker import LogLocator, NullFormatter

    groups = shared_formats(results)
    family = config["families"][0]
    count = max(len(jobs) for jobs in groups.values())
    heights = [count, max(count * (count - 1) // 2, 1)]
    figure = new_figure(1.6 + 0.33 * sum(heights))
    axes = figure.subplots(2, len(groups), sharex="row", squeeze=False, height_ratios=heights)
    for column, (name, jobs) in enumerate(groups.items()):
        to_double = [(job, DOUBLE) for job in jobs]
        for panel, couples in zip(axes[:, column], (to_double, pairs(jobs)), strict=True):
            for y, (one, other) in enumerate(couples):
                free = largest_difference(results, one, other, family)
                replayed = largest_difference(results, one, other, family, replayed=True)
                named = y == 0
                whisker(panel, y - 0.17, free, FREE, "own decisions" if named else None)
                whisker(
                    panel, y + 0.17, replayed, REPLAYED, "decisions of double" if named else None
                )
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(LogLocator(numticks=7))
            panel.xaxis.set_minor_formatter(NullFormatter())
            whole_decades(panel)
            labels = [couple(one, other) for one, other in couples]
            rows(panel, labels if column == 0 else [""] * len(labels))
        axes[0, column].set_title(f"{name} inputs")
        axes[0, column].set_xlabel(ERROR)
        axes[1, column].set_xlabel(PAIR)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2)
    small_print(figure, population(results, family))
    return figure


def figure_formats(results: Results, config: Mapping[str, Any]) -> Figure:
    """Error and iterations of every job, by format, one row of panels per family."""
    groups = input_formats(results)
    entries = [(name, job) for name, jobs in groups.items() for job in jobs]
    labels = [f"{device(job)} {name}" for name, job in entries]
    families = config["families"]
    figure = new_figure(1.0 + (0.6 + 0.2 * (len(entries) + 1)) * len(families))
    axes = figure.subplots(len(families), 2, sharex="col", squeeze=False)
    for (left, right), family in zip(axes, families, strict=True):
        for y, (_, job) in enumerate(entries):
            whisker(left, y + 1, largest_difference(results, job, DOUBLE, family), FREE)
        for y, job in enumerate([DOUBLE, *(job for _, job in entries)]):
            data = results[job].sel(family=family)
            whisker(right, y, data["iterations"].values, FREE)
            unfinished = int((data["status"].values != 0).sum())
            if unfinished:
                text = f"{unfinished} of {data.sizes['matrix']} not converged"
                right.text(
                    0.02, y, text, transform=right.get_yaxis_transform(), va="center", fontsize=6.5
                )
        left.set_xscale("log")
        rows(left, ["double", *labels])
        rows(right, [""] * (len(labels) + 1))
        left.set_title(population(results, family), loc="left", fontsize=8)
        left.set_ylim(len(labels) + 0.6, -0.6)
    axes[-1, 0].set_xlabel(ERROR)
    axes[-1, 1].set_xlabel("iterations")
    return figure


def population(results: Results, family: str) -> str:
    """Return how many matrices of which family a figure stands on."""
    numbers = results[DOUBLE]["matrix"].values
    label = FAMILIES[family].label
    return f"{len(numbers)} matrices, seeds {numbers[0]} to {numbers[-1]}: {label}"
