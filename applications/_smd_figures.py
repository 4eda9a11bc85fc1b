"""Figures 7 to 9 of section 8.2 and their counterparts over many matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from applications._smd_examples import FAMILIES
from applications._smd_measures import (
    Results,
    couple,
    device,
    difference,
    pairs,
    shared_formats,
)
from applications._smd_runs import DOUBLE
from applications._smd_summaries import (
    figure_formats,
    figure_replay,
    new_figure,
    population,
    small_print,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FREQUENCY = r"normalised angular frequency $\Omega/\pi$"

TO_DOUBLE = r"$|\lambda_1 - \lambda_{1,\mathrm{double}}| \,/ \max\lambda_1$"
BETWEEN = r"$|\Delta\lambda_{i,j}| \,/ \max\lambda_1$"

# Six pairs of four devices need looks of their own. Often several curves coincide: broken lines are
# drawn over whole ones, so that all of them show; lightness and dashes tell them apart in grey.
PAIR_LOOKS: list[dict[str, Any]] = [
    {"color": "#E69F00", "linestyle": "-", "linewidth": 1.4, "zorder": 2.1},
    {"color": "#56B4E9", "linestyle": (0, (6, 3)), "linewidth": 1.2, "zorder": 2.3},
    {"color": "#CC79A7", "linestyle": (0, (1, 1.5)), "linewidth": 1.4, "zorder": 2.6},
    {"color": "#009E73", "linestyle": (0, (5, 3, 1, 3)), "linewidth": 1.2, "zorder": 2.4},
    {"color": "#0072B2", "linestyle": (0, (9, 4)), "linewidth": 1.2, "zorder": 2.2},
    {"color": "#000000", "linestyle": "-", "linewidth": 1.8, "zorder": 2.0},
    {"color": "#8C564B", "linestyle": (0, (2, 3)), "linewidth": 1.2, "zorder": 2.5},
    {"color": "#7F7F7F", "linestyle": (0, (5, 3, 1, 3, 1, 3)), "linewidth": 1.2, "zorder": 2.5},
]


def draw(results: Results, config: Mapping[str, Any]) -> dict[str, Callable[[], Figure]]:
    """How to draw each figure of the study."""
    return {
        "figure_7": partial(figure_7, results),
        "figure_8": partial(figure_8, results),
        "figure_9": partial(figure_9, results),
        "figure_smd_medians": partial(figure_medians, results, config),
        "figure_smd_replay": partial(figure_replay, results, config),
        "figure_smd_formats": partial(figure_formats, results, config),
    }


def look(job: str, position: int) -> dict[str, Any]:
    """Return line properties of a device; markers staggered, so that coinciding curves show."""
    from mfmamodels.figures import appearance

    line = appearance(device(job)).line()
    every = (0.02 + 0.025 * (position % 4), 0.1)
    return line | {"label": device(job), "markevery": every, "linewidth": 1.0}


def half_circle(results: Results) -> tuple[NDArray[np.float64], slice]:
    """Return W / pi and the part of the grid to draw: of a real matrix, up to pi."""
    dataset = results[DOUBLE]
    bins = dataset.sizes["frequency"]
    shown = slice(None) if dataset.attrs["example_is_complex"] else slice(0, bins // 2 + 1)
    return dataset["frequency"].values[shown] / np.pi, shown


def note(figure: Figure, results: Results) -> None:
    """Say under the figure which matrix it shows and that the paper's is another one."""
    dataset = results[DOUBLE]
    text = f"Matrix: {dataset.attrs['example']}; trace R[0] = {dataset.attrs['example_trace']:.4g}."
    small_print(
        figure,
        f"{text} The paper's matrix is unpublished: magnitudes can be compared, curves cannot.",
    )


def figure_7(results: Results) -> Figure:
    """Dominant eigenvalue per input format, and the condition number of the matrix."""
    groups = shared_formats(results)
    figure = new_figure(4.6)
    axes = figure.subplot_mosaic([list(groups), ["condition"] * len(groups)])
    omega, shown = half_circle(results)
    double = results[DOUBLE]
    reference = double["example_eigenvalue"].values[shown]
    for name, jobs in groups.items():
        panel = axes[name]
        # The reference is a broad grey line that the others are seen to lie on.
        panel.plot(omega, decibel(reference), color="0.75", linewidth=4, label="double")
        for position, job in enumerate(jobs):
            values = results[job]["example_eigenvalue"].values[shown]
            panel.plot(omega, decibel(values), **look(job, position))
        panel.set_title(f"{name} inputs")
        panel.set_xlim(omega[0], omega[-1])
        panel.legend(loc="best")
    panels = [axes[name] for name in groups]
    limits = np.array([panel.get_ylim() for panel in panels])
    for panel in panels:
        panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        panel.tick_params(labelleft=panel is panels[0])
    panels[0].set_ylabel(r"$\lambda_1(\mathrm{e}^{\mathrm{j}\Omega})$ / dB")
    condition = double["example_true_largest"] / double["example_true_smallest"]
    panel = axes["condition"]
    panel.semilogy(omega, condition.values[shown], color="black")
    panel.set_ylabel("condition number\n" r"of $\mathbf{R}(\mathrm{e}^{\mathrm{j}\Omega})$")
    panel.set_xlabel(FREQUENCY)
    panel.set_xlim(omega[0], omega[-1])
    note(figure, results)
    return figure


def decibel(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 10 log10, NaN where a value is not positive."""
    return 10 * np.log10(np.where(values > 0, values, np.nan))


def two_panels(groups: Mapping[str, Any], height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with one logarithmic panel per format beside each other."""
    figure = new_figure(height)
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    figure.get_layout_engine().set(wspace=0.06)
    for panel, name in zip(axes, groups, strict=True):
        panel.set_title(f"{name} inputs")
        panel.set_yscale("log")
        panel.set_xlabel(FREQUENCY)
    return figure, list(axes)


def nonzero(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values with NaN for zeros, which a logarithmic axis cannot show."""
    return np.where(values > 0, values, np.nan)


def legend_below(panel: Axes, columns: int) -> None:
    """Put the legend under the panel, where it covers no curve."""
    if not panel.get_lines():
        panel.text(0.5, 0.5, "a single core", transform=panel.transAxes, ha="center")
        return
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


def figure_8(results: Results) -> Figure:
    """Absolute difference between each core and double, for the example."""
    groups = shared_formats(results)
    figure, axes = two_panels(groups)
    omega, shown = half_circle(results)
    reference = results[DOUBLE]["example_eigenvalue"].values[shown]
    for panel, jobs in zip(axes, groups.values(), strict=True):
        for position, job in enumerate(jobs):
            values = np.abs(results[job]["example_eigenvalue"].values[shown] - reference)
            panel.plot(omega, nonzero(values), **look(job, position))
        panel.set_xlim(omega[0], omega[-1])
        legend_below(panel, 2)
    axes[0].set_ylabel(r"$|\lambda_1 - \lambda_{1,\mathrm{double}}|$")
    note(figure, results)
    return figure


def figure_9(results: Results) -> Figure:
    """Absolute difference between each two cores of one format, for the example."""
    groups = shared_formats(results)
    figure, axes = two_panels(groups, 3.7)
    omega, shown = half_circle(results)
    for panel, jobs in zip(axes, groups.values(), strict=True):
        for number, (one, other) in enumerate(pairs(jobs)):
            values = np.abs(
                results[one]["example_eigenvalue"] - results[other]["example_eigenvalue"]
            ).values[shown]
            label = couple(one, other) + ("" if values.any() else " (identical)")
            panel.plot(omega, nonzero(values), label=label, **PAIR_LOOKS[number % len(PAIR_LOOKS)])
        panel.set_xlim(omega[0], omega[-1])
        legend_below(panel, 2)
    axes[0].set_ylabel(r"$|\Delta\lambda_{i,j}(\mathrm{e}^{\mathrm{j}\Omega})|$")
    note(figure, results)
    return figure


def spread(
    panel: Axes, omega: Any, values: NDArray[np.float64], colour: str
) -> NDArray[np.float64]:
    """Draw the median over matrices at each frequency; shade quartiles and extremes.

    Returns the values that the axis has to show: all positive ones from the lower quartile up.
    Where the lower bound of a shade is zero it runs down to the axis.
    """
    panel.set_yscale("log")
    values = values[np.isfinite(values).all(axis=1)]
    if not len(values):
        panel.text(0.5, 0.5, "non-finite", transform=panel.transAxes, ha="center", fontsize=7)
        return np.empty(0)
    low, first, median, third, high = np.percentile(values, [0, 25, 50, 75, 100], axis=0)
    for bottom, top, alpha in ((low, high, 0.15), (first, third, 0.4)):
        drawn = np.maximum(bottom, np.finfo(float).tiny)
        panel.fill_between(omega, drawn, nonzero(top), color=colour, alpha=alpha, linewidth=0)
    panel.plot(omega, nonzero(median), color="black", linewidth=0.9)
    if not median.any():
        panel.text(0.5, 0.06, "median zero", transform=panel.transAxes, ha="center", fontsize=7)
    panel.set_xlim(omega[0], omega[-1])
    panel.set_xticks([0, 0.5, 1] if omega[-1] <= 1 else [0, 1, 2])
    shown = np.concatenate([first, high])
    return shown[shown > 0]


def figure_medians(results: Results, config: Mapping[str, Any]) -> Figure:
    """Figures 8 and 9 over all matrices of the first family, one small panel per curve."""
    from mfmamodels.figures import appearance

    groups = shared_formats(results)
    family = config["families"][0]
    frequency = results[DOUBLE]["frequency"].values
    is_complex = getattr(FAMILIES[family], "complex", False)
    shown = slice(None) if is_complex else slice(0, len(frequency) // 2 + 1)
    omega = frequency[shown] / np.pi
    figure = new_figure(1.0 + 2.6 * len(groups))
    upper, lower = figure.subfigures(2, 1)
    for part, couples, label in (
        (upper, [[(job, DOUBLE) for job in jobs] for jobs in groups.values()], TO_DOUBLE),
        (lower, [pairs(jobs) for jobs in groups.values()], BETWEEN),
    ):
        columns = max(1, *(len(row) for row in couples))
        axes = part.subplots(len(groups), columns, sharex=True, sharey=True, squeeze=False)
        reach: list[NDArray[np.float64]] = []
        for row, name, row_couples in zip(axes, groups, couples, strict=True):
            row[0].set_ylabel(name)
            for panel in row[len(row_couples) :]:
                panel.set_visible(False)
            for panel, (one, other) in zip(row, row_couples, strict=False):
                values = difference(results, one, other, family)[:, shown]
                colour = appearance(one).colour if other == DOUBLE else "#555555"
                reach.append(spread(panel, omega, values, colour))
                panel.set_title(couple(one, other), fontsize=8)
        limits = np.concatenate([[], *reach])
        if len(limits):
            axes[0, 0].set_ylim(limits.min() / 2, limits.max() * 2)
        part.supylabel(label, fontsize=9)
    lower.supxlabel(
        f"{FREQUENCY}\n{population(results, family)}.\n"
        "Lines: medians; dark: quartiles; light: extremes.",
        fontsize=8,
    )
    return figure
