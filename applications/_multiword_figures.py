"""Figures of the multi-word study, drawn from its results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Format of the words -> number of the paper's figure, and how the format is printed.
FIGURES = {"e5m2": (4, "fp8-e5m2"), "fp16": (5, "fp16"), "bf16": (6, "bf16")}

#: Devices of the paper's figures, in the legend's order.
PRINTED = ("MI100", "MI250", "MI300X", "B200")

#: Curves of the default way that are no device's.
_LIMITS: dict[str, dict[str, Any]] = {
    "split alone": {"color": "0.6", "linewidth": 3, "alpha": 0.5, "zorder": 1},
    "bound (3.26)": {"color": "0.35", "linewidth": 0.9, "linestyle": "--", "zorder": 1},
    "for $p$ words": {"color": "0.35", "linewidth": 0.9, "linestyle": "-", "zorder": 1},
}
_OZAKI: dict[str, Any] = {"color": "black", "linewidth": 1, "linestyle": (0, (1, 2)), "zorder": 1}

CAPTIONS = {
    "figure_4": "Section 8.1, Figure 4: multi-word products with fp8-e5m2 words, as published "
    "(truncated words, published random numbers).",
    "figure_5": "Section 8.1, Figure 5: multi-word products with fp16 words, as published.",
    "figure_6": "Section 8.1, Figure 6: multi-word products with bf16 words, as published.",
    "figure_4_default": "Figure 4 with words rounded to nearest and independent data per point: "
    "median, smallest and largest of several draws. Grey: the words multiplied and summed exactly.",
    "figure_5_default": "Figure 5 with words rounded to nearest; dotted: Ozaki's scheme I with "
    "int8 slices, the same on any device.",
    "figure_6_default": "Figure 6 with words rounded to nearest.",
    "multiword_causes": "What the error is made of, for the largest number of words: error of the "
    "split alone, error of the accumulation alone, and which way the latter points.",
}


def names(jobs: Iterable[str]) -> list[str]:
    """Figures that can be drawn from the results of some jobs."""
    jobs = list(jobs)
    ways = ((":published", ""), ("", "_default"))
    found = [
        f"figure_{number}{suffix}"
        for way, suffix in ways
        for fmt, (number, _) in FIGURES.items()
        if fmt + way in jobs
    ]
    return [*found, "multiword_causes"] if set(FIGURES) & set(jobs) else found


def draw(results: Mapping[str, xr.Dataset]) -> dict[str, Callable[[], Figure]]:
    """How to draw each figure that :func:`names` announces for these results."""
    return {name: partial(_draw, name, results) for name in names(results)}


def _draw(name: str, results: Mapping[str, xr.Dataset]) -> Figure:
    if name == "multiword_causes":
        return _causes({f: results[f] for f in FIGURES if f in results})
    number, _, default = name.removeprefix("figure_").partition("_")
    fmt = next(f for f, (n, _) in FIGURES.items() if n == int(number))
    if default:
        return _error_figure(results[fmt], results.get("int8") if number == "5" else None)
    return _error_figure(results[f"{fmt}:published"])


def printed_cores(data: xr.Dataset) -> dict[str, str]:
    """Core for each device of the paper's figures, as far as the data has one."""
    found = {}
    for name in map(str, data.core.values):
        device, _, rest = name.partition("/")
        variant = rest.partition(":")[2]
        if device in PRINTED and variant in ("", "rd31"):
            found[device] = name
    return {device: found[device] for device in PRINTED if device in found}


def _error_figure(data: xr.Dataset, ozaki: xr.Dataset | None = None) -> Figure:
    """Error against n: one panel per number of words, one curve per device."""
    from matplotlib.figure import Figure as NewFigure

    from mfmamodels import figures

    default = data.attrs["way"] == "default"
    words = data.words.values
    figure = NewFigure(figsize=(figures.TWO_COLUMNS, 3.0))
    panels = figure.subplots(1, len(words), sharex=True, sharey=True, squeeze=False)[0]
    for axes, p in zip(panels, words, strict=True):
        of_words = data.sel(words=p)
        if default:
            _draw_limits(axes, of_words)
        if ozaki is not None:
            _draw_ozaki(axes, ozaki, labelled=axes is panels[-1])
        for device, name in printed_cores(data).items():
            _draw_device(axes, of_words.error.sel(core=name), device)
        axes.set_title("1 word" if p == 1 else f"{p} words")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("Inner dimension $n$")
    panels[0].set_ylabel("Norm-wise relative error")
    handles, labels = _legend(printed_cores(data), _LIMITS if default else {})
    if ozaki is not None:
        handles.append(_line(**_OZAKI))
        labels.append("Ozaki I")
    figure.legend(handles, labels, loc="outside upper center", ncols=5, columnspacing=1.2)
    return figure


def _draw_limits(axes: Axes, of_words: xr.Dataset) -> None:
    """The split's own error from below, the bounds from above."""
    axes.plot(of_words.n, of_words.floor.median("draw"), **_LIMITS["split alone"])
    axes.plot(of_words.n, of_words.bound, **_LIMITS["bound (3.26)"])
    axes.plot(of_words.n, of_words.bound_words, **_LIMITS["for $p$ words"])


def _draw_device(axes: Axes, errors: xr.DataArray, device: str) -> None:
    """Median over the draws, with bars from the smallest to the largest."""
    from mfmamodels import figures

    style = figures.appearance(device).line()
    middle = errors.median("draw")
    axes.plot(errors.n, middle, **style, zorder=3)
    if errors.sizes["draw"] > 1:
        axes.vlines(
            errors.n,
            errors.min("draw"),
            errors.max("draw"),
            color=style["color"],
            linewidth=0.8,
            alpha=0.6,
            zorder=2,
        )


def _draw_ozaki(axes: Axes, ozaki: xr.Dataset, *, labelled: bool) -> None:
    """Draw a curve per number of slices, the same in all panels; named beside the last one."""
    for q in ozaki.slices.values:
        middle = ozaki.ozaki.sel(slices=q).median("draw")
        axes.plot(ozaki.n, middle, **_OZAKI)
        if labelled:
            axes.annotate(
                f"{q} slices",
                (1, float(middle[-1])),
                xycoords=("axes fraction", "data"),
                xytext=(3, 0),
                textcoords="offset points",
                verticalalignment="center",
                fontsize=6,
            )


def _legend(devices: Iterable[str], more: Mapping[str, dict]) -> tuple[list, list]:
    """Handles and labels for devices, and for further curves by label."""
    from mfmamodels import figures

    labels = list(devices)
    handles = [_line(**figures.appearance(device).line()) for device in labels]
    return [*handles, *(_line(**style) for style in more.values())], [*labels, *more]


def _line(**style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], **style)


def _causes(results: Mapping[str, xr.Dataset]) -> Figure:
    """Rows: split error, accumulation error, bias; columns: formats with their most words."""
    from matplotlib.figure import Figure as NewFigure

    from mfmamodels import figures

    figure = NewFigure(figsize=(figures.TWO_COLUMNS, 5.2))
    grid = figure.subplots(3, len(results), sharex=True, sharey="row", squeeze=False)
    for column, (fmt, data) in enumerate(results.items()):
        p = int(data.words.max())
        chosen = data.sel(words=p)
        top, middle, bottom = grid[:, column]
        top.set_title(f"{FIGURES[fmt][1]}, {p} words")
        for device, name in _causes_cores(data).items():
            of_core = chosen.sel(core=name)
            _draw_device(top, of_core.error, device)
            _draw_device(middle, of_core.accumulation, device)
            _draw_device(bottom, of_core.bias, device)
        for axes in (top, middle):
            axes.plot(data.n, chosen.floor.median("draw"), **_LIMITS["split alone"])
            axes.set_yscale("log")
        bottom.axhline(0, color="black", linewidth=0.6)
        bottom.set_xscale("log")
        bottom.set_xlabel("Inner dimension $n$")
    for axes, label in zip(
        grid[:, 0],
        ("Total error", "Accumulation error", "Direction of it\n($-1$: all downward)"),
        strict=True,
    ):
        axes.set_ylabel(label)
    devices = {d: c for data in results.values() for d, c in _causes_cores(data).items()}
    split_alone = {"split alone": _LIMITS["split alone"]}
    handles, labels = _legend(devices, split_alone)
    figure.legend(handles, labels, loc="outside upper center", ncols=6)
    return figure


def _causes_cores(data: xr.Dataset) -> dict[str, str]:
    """The printed devices, and B200 with rounding to nearest at the end."""
    found = printed_cores(data)
    nearest = [str(c) for c in data.core.values if str(c).startswith("B200/") and ":rne" in str(c)]
    return {**found, **({"B200 RNE": nearest[0]} if nearest else {})}
