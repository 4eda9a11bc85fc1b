"""Block diagrams of cores (Figures 1 to 3), drawn from their records.

Every width, direction and limit in a diagram is read from the record's fields; nothing is known of
any device. Lengths are in inches, so that text and boxes fit each other at print size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mfmamodels.accumulation import (
    UNLIMITED,
    AlignedSum,
    Arithmetic,
    Bits,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
    SecondRounding,
)
from mfmamodels.canvas import (
    GAP,
    LINE,
    PAD,
    PITCH,
    RADIUS,
    TEXT,
    Canvas,
    Node,
    Products,
    finish,
    multipliers,
    note,
    shown_indices,
    text_width,
    wide_box,
)
from mfmamodels.cores import core
from mfmamodels.figures import TWO_COLUMNS, style
from mfmamodels.formats import Rounding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --- words --------------------------------------------------------------------------------------


def _power(exponent: int) -> str:
    return f"$2^{{{exponent}}}$".replace("-", "{-}")


def _bits(width: Bits, rounding: Rounding) -> str:
    return "exact" if width == UNLIMITED else f"{str(rounding).upper()} to {width} frac. bits"


def _result(record: Arithmetic, rounding: Rounding) -> list[str]:
    kind = record.accumulation
    bits = kind.out_frac_bits if isinstance(kind, AlignedSum) else UNLIMITED
    short = bits != UNLIMITED and int(bits) < record.out.fraction_bits
    first = f"round to {record.out}, {str(rounding).upper()}"
    return [first, f"({bits} frac. bits)"] if short else [first]


# --- kinds ---------------------------------------------------------------------------------------


def draw(canvas: Canvas, record: Arithmetic, left: float, top: float) -> tuple[float, float]:
    """Draw a core's block; right and lower ends of the drawing."""
    kind = record.accumulation
    if isinstance(kind, FmaChain):
        return _chain(canvas, record, kind, left, top)
    if isinstance(kind, PairwiseSum):
        return _pairwise(canvas, record, kind, left, top)
    if isinstance(kind, ExactSum):
        return _exact(canvas, record, kind, left, top)
    return _aligned(canvas, record, kind, left, top)


def _chain(
    canvas: Canvas, record: Arithmetic, kind: FmaChain, left: float, top: float
) -> tuple[float, float]:
    """Fused multiply-adds, one below the other."""
    lines = [f"fused multiply-add, {str(kind.rounding).upper()}"]
    half = text_width(lines[0]) / 2 + PAD
    x = left + half + 0.34
    above = canvas.label(x, top, "$c$")
    for index in ("1", "2", "3", "K"):
        if index == "K":
            canvas.text(x, above.bottom + GAP + LINE / 2, r"$\vdots$", size=TEXT + 2)
            dots = Node(x, above.bottom + GAP - 0.02, 0, LINE + 0.04)
            canvas.axes.plot(
                [x, x], [above.bottom, dots.top], color="0.15", linewidth=0.6, zorder=1
            )
            above = dots
        node = canvas.box(x, above.bottom + GAP, lines, rounds=True)
        canvas.down(above, node)
        operands = canvas.label(
            left + 0.13, node.middle - LINE / 2, f"$a_{{{index}}}, b_{{{index}}}$"
        )
        canvas.arrow([(operands.right + 0.02, node.middle), (node.left, node.middle)])
        above = node
    return x + half, finish(canvas, above)


def _exact(
    canvas: Canvas, record: Arithmetic, kind: ExactSum, left: float, top: float
) -> tuple[float, float]:
    """All products and c into one exact sum."""
    products = multipliers(canvas, left, top, range(1, kind.n_fma + 1), 4)
    c = canvas.label(products.right + 0.16, top, "$c$")
    end = c.x + 0.16
    total = wide_box(canvas, products, products.bottom + GAP, ["exact sum (Kulisch)"], extra=end)
    for node in (*products.nodes, c):
        canvas.down(node, total)
    result = canvas.box(total.x, total.bottom + GAP, _result(record, kind.rounding), rounds=True)
    canvas.down(total, result)
    return max(end, total.right), finish(canvas, result)


def _pairwise(
    canvas: Canvas, record: Arithmetic, kind: PairwiseSum, left: float, top: float
) -> tuple[float, float]:
    """A balanced tree of rounded additions, then c."""
    lines = [f"round to {record.out}, {str(kind.rounding).upper()}"]
    if kind.flush:
        top = note(canvas, left, top, "subnormal inputs flushed to zero")
        lines.append("flush subnormals")
    n = min(kind.n_fma, 4)
    indices = range(1, kind.n_fma + 1)
    pitch = max(map(text_width, lines)) + 2 * PAD + 0.08
    level: list[Node] = []
    for i, index in enumerate(shown_indices(indices, n)):
        x = left + pitch * (i + 0.5)
        if index is None:
            canvas.text(x, top + LINE + 0.13 + RADIUS, r"$\cdots$", size=TEXT + 2)
            continue
        product = multipliers(canvas, x - PITCH / 2, top, [index], 1)
        fl = canvas.box(x, product.bottom + GAP, lines, rounds=True)
        canvas.down(product.nodes[0], fl)
        level.append(fl)
    while len(level) > 1:
        level = [
            _rounded_add(canvas, x, y, lines) for x, y in zip(level[::2], level[1::2], strict=True)
        ]
    plus = canvas.operator(level[0].x, level[0].bottom + GAP, "+")
    c = canvas.label(plus.x + 0.5, plus.middle - LINE / 2, "$c$")
    canvas.down(level[0], plus)
    canvas.arrow([(c.left - 0.02, plus.middle), (plus.right, plus.middle)])
    result = canvas.box(plus.x, plus.bottom + GAP, lines, rounds=True)
    canvas.down(plus, result)
    return max(c.right, left + pitch * n), finish(canvas, result)


def _rounded_add(canvas: Canvas, x: Node, y: Node, lines: list[str]) -> Node:
    plus = canvas.operator((x.x + y.x) / 2, max(x.bottom, y.bottom) + GAP * 0.8, "+")
    canvas.down(x, plus)
    canvas.down(y, plus)
    node = canvas.box(plus.x, plus.bottom + GAP, lines, rounds=True)
    canvas.down(plus, node)
    return node


# --- aligned sums --------------------------------------------------------------------------------


def _aligned(
    canvas: Canvas, record: Arithmetic, kind: AlignedSum, left: float, top: float
) -> tuple[float, float]:
    """Products aligned to the largest exponent; c early, late or last."""
    if kind.order:
        top = note(canvas, left, top, f"products in the order {_order(kind)}")
    if isinstance(kind.c, LateC):
        return _late(canvas, record, kind, kind.c, left, top)
    products = multipliers(canvas, left, top, range(1, kind.n_fma + 1), 4)
    early = canvas.label(products.right + 0.16, top, "$c$" if isinstance(kind.c, EarlyC) else "$r$")
    end = early.x + 0.16
    node = _limit(canvas, kind, products, products.bottom + GAP)
    below = products.bottom if node is None else node.bottom
    lines = _alignment(kind, " and $c$" if isinstance(kind.c, EarlyC) else " and $r$")
    align = wide_box(canvas, products, below + GAP, lines, rounds=True, extra=end)
    for source in products.nodes if node is None else ():
        canvas.down(source, align)
    if node is not None:
        canvas.down(node, align)
    canvas.down(early, align)
    plus = canvas.operator(align.x, align.bottom + GAP, r"$\Sigma$")
    canvas.down(align, plus)
    result = canvas.box(plus.x, plus.bottom + GAP, _result(record, kind.rounding), rounds=True)
    canvas.down(plus, result)
    right = max(end, align.right)
    if isinstance(kind.c, EarlyC):
        return right, finish(canvas, result)
    return _last(canvas, record, kind, kind.c, result, right)


def _last(
    canvas: Canvas, record: Arithmetic, kind: AlignedSum, last: LastC, result: Node, right: float
) -> tuple[float, float]:
    """The addition of c after an instruction's blocks."""
    blocks = last.products // kind.n_fma
    text = f"$r$ ($r$ = 0 at first; after {blocks} blocks:)" if blocks > 1 else "$r$"
    label = canvas.label(result.x, result.bottom + GAP, text)
    canvas.down(result, label)
    plus = canvas.operator(result.x, label.bottom + GAP, "+")
    canvas.down(label, plus)
    c = canvas.label(plus.x + 0.5, plus.middle - LINE / 2, "$c$")
    canvas.arrow([(c.left - 0.02, plus.middle), (plus.right, plus.middle)])
    lines = [f"round to {record.out}, {str(last.rounding).upper()}"]
    final = canvas.box(plus.x, plus.bottom + GAP, lines, rounds=True)
    canvas.down(plus, final)
    return max(right, label.right), finish(canvas, final)


def _order(kind: AlignedSum) -> str:
    """The start of an order, counted from 1 as operands are."""
    return ", ".join(str(k + 1) for k in kind.order[:6]) + ", ..."


def _limit(canvas: Canvas, kind: AlignedSum, products: Products, top: float) -> Node | None:
    """Box that turns large products into infinities."""
    if kind.product_limit == UNLIMITED:
        return None
    text = rf"$|p_i| \geq$ {_power(int(kind.product_limit))}$\;\to\pm\infty$"
    node = wide_box(canvas, products, top, [text])
    for product in products.nodes:
        canvas.down(product, node)
    return node


def _alignment(kind: AlignedSum, also: str = "", whose: str = "") -> list[str]:
    """Text of the alignment: to what, how."""
    significand = "normalised" if kind.normalised_products else "un-normalised"
    lines = [f"{significand} $p_i${also}"]
    if whose:
        lines += ["aligned to largest exponent", whose]
    else:
        lines.append(r"aligned to largest exponent $e_{\max}$")
    lines.append(_bits(kind.frac_bits, kind.align_rounding))
    if kind.e_min != UNLIMITED:
        lines.append(rf"($e_{{\max}} \geq$ {kind.e_min})".replace("-", "−"))
    return lines


def _late(
    canvas: Canvas, record: Arithmetic, kind: AlignedSum, late: LateC, left: float, top: float
) -> tuple[float, float]:
    """Sum of the products, then c."""
    groups = [range(1 + g, kind.n_fma + 1, kind.interleave) for g in range(kind.interleave)]
    sums, x, bottom = [], left, top
    for g, indices in enumerate(groups):
        whose = "" if kind.interleave == 1 else ("among odd $i$", "among even $i$")[g]
        # A group is as wide as its text.
        lines = _alignment(kind, whose=whose)
        shown = min(4 if kind.interleave == 1 else 3, len(indices))
        width = max(max(map(text_width, lines)) + 2 * PAD + 0.04, shown * PITCH)
        inset = (width - shown * PITCH) / 2
        products = multipliers(canvas, x + inset, top, indices, shown)
        products = Products(products.nodes, x, x + width, products.bottom)
        node = _limit(canvas, kind, products, products.bottom + GAP)
        align = wide_box(canvas, products, (products.bottom if node is None else node.bottom) + GAP,
                      lines, rounds=True)  # fmt: skip
        for source in products.nodes if node is None else (node,):
            canvas.down(source, align)
        plus = canvas.operator(align.x, align.bottom + GAP, r"$\Sigma$")
        canvas.down(align, plus)
        sums.append(plus)
        x, bottom = x + width + 0.08, plus.bottom
    total = sums[0] if len(sums) == 1 else _joined(canvas, kind, sums)
    bottom = total.bottom
    return _with_c(canvas, record, kind, late, total, (left, x - 0.08, top, bottom))


def _joined(canvas: Canvas, kind: AlignedSum, sums: list[Node]) -> Node:
    """The two partial sums aligned to the larger exponent and added."""
    lines = [r"aligned to the larger, $e_{\max}$", _bits(kind.frac_bits, kind.join_rounding)]
    x = (sums[0].x + sums[1].x) / 2
    width = sums[1].x - sums[0].x + 0.3
    node = canvas.box(x, sums[0].bottom + GAP, lines, width=width, rounds=True)
    for plus in sums:
        canvas.down(plus, node)
    total = canvas.operator(x, node.bottom + GAP, "+")
    canvas.down(node, total)
    return total


def _with_c(
    canvas: Canvas, record: Arithmetic, kind: AlignedSum, late: LateC, total: Node,
    area: tuple[float, float, float, float],
) -> tuple[float, float]:  # fmt: skip
    """Shift whichever has the smaller exponent, add, round twice."""
    left, right, top, bottom = area
    shifted_sum = [r"shifted if $e_c > e_{\max}$", _bits(late.sum_frac_bits, late.rounding)]
    shifted_c = [r"shifted if $e_{\max} \geq e_c$", _bits(late.c_frac_bits, late.rounding)]
    if late.c_max_shift != UNLIMITED:
        shifted_c.append(f"(by over {late.c_max_shift} bits: 0)")
    if late.zero_exponent != UNLIMITED:
        shifted_c.append(f"($c$ = 0: $e_c$ = {late.zero_exponent})".replace("-", "−"))
    half_s, half_c = (max(map(text_width, t)) / 2 + PAD for t in (shifted_sum, shifted_c))
    x_s = max(left + half_s, min(total.x, right - half_s))
    x_c = max(x_s + half_s + 0.08 + half_c, right + 0.08)
    box_s = canvas.box(x_s, bottom + GAP, shifted_sum, rounds=True)
    box_c = canvas.box(x_c, bottom + GAP, shifted_c, rounds=True)
    canvas.down(total, box_s)
    c = canvas.label(x_c, top, "$c$")
    canvas.down(c, box_c)
    plus = canvas.operator(x_s, max(box_s.bottom, box_c.bottom) + GAP * 0.6, "+")
    canvas.down(box_s, plus)
    canvas.down(box_c, plus)
    node = plus
    if late.second is not SecondRounding.NONE:
        node = canvas.box(x_s, plus.bottom + GAP, _second_lines(record, late), rounds=True)
        canvas.down(plus, node)
    result = canvas.box(x_s, node.bottom + GAP, _result(record, kind.rounding), rounds=True)
    canvas.down(node, result)
    return max(box_c.right, c.right, node.right), finish(canvas, result)


def _second_lines(record: Arithmetic, late: LateC) -> list[str]:
    """Text of the second rounding."""
    how = {
        SecondRounding.BLIND: "not normalised",
        SecondRounding.NORMALISED: "normalised",
        SecondRounding.SUBNORMAL_AWARE: rf"normalised, exponent $\geq$ −{-record.out.emin}",
    }[late.second]
    return [r"if $e_c > e_{\max}$", how, _bits(late.second_frac_bits, late.rounding)]


# --- figures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """A diagram with its title."""

    title: str
    record: Arithmetic


def diagram(panels: Sequence[Panel], width: float | None = TWO_COLUMNS) -> Figure:
    """Draw cores side by side.

    Parameters
    ----------
    panels : sequence of Panel
    width : float, optional
        Most that the figure may have, in inches; a wider drawing is scaled down, text and all.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure()
        figure.set_layout_engine("none")
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        canvas = Canvas(axes)
        x, bottom = 0.06, 0.0
        for letter, panel in zip("abcdefgh", panels, strict=False):
            title = f"({letter}) {panel.title}" if len(panels) > 1 else panel.title
            canvas.text(x, 0.09, title, align="left", size=TEXT + 0.5)
            right, low = draw(canvas, panel.record, x, 0.25)
            x = max(right, x + text_width(title, TEXT + 0.5)) + 0.2
            bottom = max(bottom, low)
        right, bottom = x - 0.14, bottom + 0.06
        axes.set_xlim(0, right)
        axes.set_ylim(bottom, 0)
        scale = 1.0 if width is None else min(1.0, width / right)
        for text in axes.texts:
            text.set_fontsize(float(text.get_fontsize()) * scale)
        figure.set_size_inches(right * scale, bottom * scale)
    return figure


def figures() -> dict[str, list[Panel]]:
    """Panels of Figures 1 to 3 by name."""
    return {
        "figure_1": [
            Panel("fp16", core("MI100/fp16")),
            Panel("bf16", core("MI100/bf16")),
            Panel("fp32", core("MI100/fp32")),
        ],
        "figure_2": [
            Panel("fp16, bf16 (_1k)", core("MI250/fp16")),
            Panel("bf16", core("MI250/bf16")),
        ],
        "figure_3": [
            Panel("fp16, bf16", core("MI300X/fp16")),
            Panel("xf32", core("MI300X/xf32")),
            Panel("8-bit formats", core("MI300X/e4m3fnuz")),
        ],
    }
