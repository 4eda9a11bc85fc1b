"""Boxes, operators and arrows in inches: what block diagrams are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT = 7.0  # points
LINE = 0.118  # inches between lines of text
PAD = 0.05
GAP = 0.17  # between rows, room for an arrow
PITCH = 0.42  # between products
RADIUS = 0.085

_STAGE = "0.93"  # exact or aligned arithmetic
_ROUND = "0.80"  # anything that rounds


@dataclass
class Canvas:
    """Boxes, operators and arrows on axes in inches, y downward.

    Attributes
    ----------
    axes : matplotlib.axes.Axes
    boxes : list of tuple
        Extents (left, top, right, bottom) of everything drawn but arrows, for checks.
    """

    axes: Axes
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)

    def box(self, x: float, top: float, lines: Sequence[str], *, width: float = 0.0,
            rounds: bool = False) -> Node:  # fmt: skip
        """Rounded box with lines of text, centred at x; wide enough for them."""
        from matplotlib.patches import FancyBboxPatch

        width = max(width, max(map(text_width, lines)) + 2 * PAD)
        height = LINE * len(lines) + 2 * PAD
        self.axes.add_patch(
            FancyBboxPatch(
                (x - width / 2, top), width, height, boxstyle="round,pad=0,rounding_size=0.04",
                facecolor=_ROUND if rounds else _STAGE, edgecolor="0.15", linewidth=0.6, zorder=2,
            )
        )  # fmt: skip
        for i, line in enumerate(lines):
            self.text(x, top + PAD + LINE * (i + 0.5), line)
        node = Node(x, top, width, height)
        self.boxes.append(node.extent)
        return node

    def operator(self, x: float, top: float, sign: str) -> Node:
        """Circle with a sign."""
        from matplotlib.patches import Circle

        y = top + RADIUS
        self.axes.add_patch(
            Circle((x, y), RADIUS, facecolor="white", edgecolor="0.15", linewidth=0.6, zorder=2)
        )
        self.text(x, y, sign, size=TEXT + 1)
        node = Node(x, top, 2 * RADIUS, 2 * RADIUS, round=True)
        self.boxes.append(node.extent)
        return node

    def text(self, x: float, y: float, text: str, *, size: float = TEXT, align: str = "center",
             weight: str = "normal") -> None:  # fmt: skip
        """One line, centred vertically at y."""
        self.axes.text(x, y, text, ha=align, va="center", fontsize=size, weight=weight, zorder=4)

    def label(self, x: float, top: float, text: str) -> Node:
        """Text that arrows start from or end at."""
        self.text(x, top + LINE / 2, text)
        node = Node(x, top, text_width(text), LINE)
        self.boxes.append(node.extent)
        return node

    def arrow(self, points: Sequence[tuple[float, float]]) -> None:
        """Line through points with a head at the last."""
        xs, ys = zip(*points, strict=True)
        if len(points) > 2:
            self.axes.plot(xs[:-1], ys[:-1], color="0.15", linewidth=0.6, zorder=1,
                           solid_joinstyle="miter", solid_capstyle="butt")  # fmt: skip
        self.axes.annotate(
            "", points[-1], points[-2], zorder=1,
            arrowprops={"arrowstyle": "-|>,head_length=0.22,head_width=0.09", "color": "0.15",
                        "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10},
        )  # fmt: skip

    def down(self, start: Node, end: Node) -> None:
        """Arrow from below one node to the top of another: straight if it can be."""
        if end.left <= start.x <= end.right and not end.round:
            self.arrow([(start.x, start.bottom), (start.x, end.top)])
        elif abs(start.x - end.x) < 1e-6:
            self.arrow([(start.x, start.bottom), (end.x, end.top)])
        elif end.round:
            # Operators are met from the side, at their middle.
            side = end.left if start.x < end.x else end.right
            self.arrow([(start.x, start.bottom), (start.x, end.middle), (side, end.middle)])
        else:
            middle = (start.bottom + end.top) / 2
            self.arrow([(start.x, start.bottom), (start.x, middle), (end.x, middle),
                        (end.x, end.top)])  # fmt: skip


@dataclass(frozen=True)
class Node:
    """Something arrows start from or end at."""

    x: float
    top: float
    width: float
    height: float
    round: bool = False

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + self.height

    @property
    def middle(self) -> float:
        """Height of the centre."""
        return self.top + self.height / 2

    @property
    def left(self) -> float:
        """Left edge."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """Right edge."""
        return self.x + self.width / 2

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.right, self.bottom


@lru_cache(maxsize=1024)
def text_width(text: str, size: float = TEXT) -> float:
    """Width of a line in inches, in the font of the figures."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), text, size=size, prop=FontProperties(family="STIXGeneral"))
    return path.get_extents().width / 72 if text.strip() else 0.0


@dataclass
class Products:
    """The operators of a block's products, and where they are.

    Attributes
    ----------
    nodes : list of Node
    left, right : float
    bottom : float
    """

    nodes: list[Node]
    left: float
    right: float
    bottom: float

    @property
    def x(self) -> float:
        """Middle."""
        return (self.left + self.right) / 2


def shown_indices(indices: Sequence[int], most: int) -> list[int | None]:
    """Indices to draw; None stands for those left out."""
    if len(indices) <= most:
        return list(indices)
    return [*indices[: most - 2], None, indices[-1]]


def multipliers(
    canvas: Canvas, left: float, top: float, indices: Sequence[int], most: int
) -> Products:
    """Multipliers with their operands above them."""
    nodes, x = [], left + PITCH / 2
    for index in shown_indices(indices, most):
        y = top + LINE + 0.13
        if index is None:
            canvas.text(x, y + RADIUS, r"$\cdots$", size=TEXT + 2)
        else:
            node = canvas.operator(x, y, "×")
            for letter, side in (("a", -1), ("b", 1)):
                label = canvas.label(x + side * 0.1, top, f"${letter}_{{{index}}}$")
                canvas.arrow([(label.x, label.bottom), (x + side * 0.05, node.top + 0.02)])
            nodes.append(node)
        x += PITCH
    right = x - PITCH / 2
    return Products(nodes, left, right, top + LINE + 0.13 + 2 * RADIUS)


def wide_box(
    canvas: Canvas,
    products: Products,
    top: float,
    lines: list[str],
    *,
    rounds: bool = False,
    extra: float = 0.0,
) -> Node:
    """A box under all products (and, with ``extra``, as far to the right as that)."""
    right = max(products.right, extra)
    x = (products.left + right) / 2
    return canvas.box(x, top, lines, width=right - products.left - 0.04, rounds=rounds)


def finish(canvas: Canvas, node: Node) -> float:
    """Result below a node; its lower edge."""
    label = canvas.label(node.x, node.bottom + GAP, "$d$")
    canvas.down(node, label)
    return label.bottom


def note(canvas: Canvas, left: float, top: float, text: str) -> float:
    """A line of small text; where the next thing may begin."""
    canvas.text(left, top + LINE / 2, text, align="left", size=TEXT - 0.5)
    return top + LINE + 0.05
