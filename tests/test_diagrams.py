"""Block diagrams: every number is the record's, nothing overlaps, arrows meet what they join."""

from dataclasses import replace
from itertools import combinations

import pytest

import mfmamodels as mm
from mfmamodels import diagrams, figures

NAMES = ["MI100/fp16", "MI100/fp32", "MI250/fp16", "MI250/bf16", "MI300X/fp16", "MI300X/xf32",
         "MI300X/e4m3fnuz", "MI300X/fp16:rd31", "MI300X/bf16:rd32-blind", "A100/fp16:fp16",
         "H100/e4m3fn", "H100/e4m3fn:mma.sync"]  # fmt: skip


def _canvas(record):
    from matplotlib.figure import Figure

    with figures.style():
        canvas = diagrams.Canvas(Figure().add_axes((0, 0, 1, 1)))
        diagrams.draw(canvas, record, 0.06, 0.25)
    return canvas


def _words(record):
    return " | ".join(text.get_text() for text in _canvas(record).axes.texts)


@pytest.mark.parametrize("name", NAMES)
def test_boxes_and_labels_do_not_overlap(name):
    for x, y in combinations(_canvas(mm.core(name)).boxes, 2):
        apart = (
            x[2] <= y[0] + 1e-3 or y[2] <= x[0] + 1e-3 or x[3] <= y[1] + 1e-3 or y[3] <= x[1] + 1e-3
        )
        assert apart, f"{x} and {y}"


@pytest.mark.parametrize("name", NAMES)
def test_arrows_end_at_boxes(name):
    canvas = _canvas(mm.core(name))
    heads = [text.xy for text in canvas.axes.texts if getattr(text, "arrow_patch", None)]
    assert heads
    for x, y in heads:
        distance = min(
            max(left - x, x - right, top - y, y - bottom, 0.0)
            for left, top, right, bottom in canvas.boxes
        )
        assert distance < 0.02, (x, y)


@pytest.mark.parametrize("name", NAMES)
def test_text_fits_its_box(name):
    """Rendered extents of all text, not estimates, lie inside the drawing and off each other."""
    figure = diagrams.diagram([diagrams.Panel(name, mm.core(name))])
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with figures.style():
        FigureCanvasAgg(figure).draw()
        axes = figure.axes[0]
        extents = [t.get_window_extent() for t in axes.texts if t.get_text()]
        frame = figure.bbox
    for box in extents:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1
    for x, y in combinations(extents, 2):
        width = min(x.x1, y.x1) - max(x.x0, y.x0)
        height = min(x.y1, y.y1) - max(x.y0, y.y0)
        assert width < 1 or height < 3, "two texts overlap"


def test_widths_and_directions_are_the_records():
    core = mm.core("MI300X/e4m3fnuz")
    kind = core.accumulation
    before = _words(core)
    for wanted in ("RTZ to 24", "RD to 32", "RD to 31", "25 bits", "{128}", "−126", "RNE"):
        assert wanted in before
    changed = replace(
        kind, frac_bits=29, product_limit=77, rounding=mm.Rounding.RTZ,
        c=replace(kind.c, c_frac_bits=17, sum_frac_bits=41, c_max_shift=19, second_frac_bits=38,
                  zero_exponent=-99, rounding=mm.Rounding.RU),
    )  # fmt: skip
    after = _words(replace(core, accumulation=changed))
    for wanted in ("RTZ to 29", "RU to 17", "RU to 41", "19 bits", "RU to 38", "{77}", "−99"):
        assert wanted in after and wanted not in before
    assert "round to fp32, RTZ" in after


@pytest.mark.parametrize(("name", "wanted", "unwanted"), [
    ("MI300X/fp16:rd31", "RD to 31", "normalised, exponent"),
    ("MI250/fp16", "flush", "Kulisch"),
    ("H100/e4m3fn", "(13 frac. bits)", "frac. bits, RNE"),
    ("A100/fp16:fp16", "−20", "RTZ to 25"),
    ("H100/e4m3fn:mma.sync", "1, 2, 5, 6", "Kulisch"),
])  # fmt: skip
def test_what_a_diagram_says(name, wanted, unwanted):
    words = _words(mm.core(name))
    assert wanted in words and unwanted not in words


def test_the_papers_figures_fit_a_page():
    panels = diagrams.figures()
    assert sorted(panels) == ["figure_1", "figure_2", "figure_3"]
    for shown in panels.values():
        figure = diagrams.diagram(shown)
        assert figure.get_size_inches()[0] <= figures.TWO_COLUMNS + 1e-6
        assert min(t.get_fontsize() for t in figure.axes[0].texts if t.get_text()) >= 5.5


def test_one_panel_stands_for_cores_of_equal_arithmetic():
    """Titles that name two formats are true of both."""
    for one, other in (("MI300X/fp16", "MI300X/bf16"), ("MI250/fp16", "MI250/bf16_1k"),
                       ("MI300X/e4m3fnuz", "MI300X/e5m2fnuz")):  # fmt: skip
        assert mm.core(one).accumulation == mm.core(other).accumulation
