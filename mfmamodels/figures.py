"""The look of every figure: one style, one appearance per device, files without dates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfmamodels.results import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG_DPI = 300

# Widths of a journal's text block, in inches.
ONE_COLUMN = 3.4
TWO_COLUMNS = 7.0

STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": PNG_DPI,
    "font.family": "serif",
    # STIX ships with matplotlib: the same glyphs on every machine, and in formulae and text alike.
    "font.serif": ["STIXGeneral"],
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.88",
    "grid.linewidth": 0.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # TrueType, which journals ask for
    "svg.hashsalt": "mfmamodels",
}


@dataclass(frozen=True)
class Appearance:
    """How a device is drawn in every figure: told apart by shape and dashes even without colour."""

    colour: str
    marker: str
    linestyle: Any

    def line(self) -> dict[str, Any]:
        """Keyword arguments for `Axes.plot`: open markers, so that coinciding curves show."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.linestyle,
            "markerfacecolor": "white",
            "markeredgecolor": self.colour,
        }


_DASHES = {
    "solid": "-",
    "dashed": (0, (4, 1.5)),
    "dotted": (0, (1, 1.2)),
    "dash-dot": (0, (5, 1.5, 1, 1.5)),
    "dash-dot-dot": (0, (5, 1.5, 1, 1.5, 1, 1.5)),
    "long": (0, (8, 2)),
}

# AMD in blues and greens, NVIDIA in reds, yellows and purples, after the palette of Okabe and Ito;
# within a vendor the lightness differs, so that a print without colour keeps the order.
DEVICES: dict[str, Appearance] = {
    "MI100": Appearance("#56B4E9", "o", _DASHES["solid"]),
    "MI210": Appearance("#3A9FBF", "p", _DASHES["long"]),
    "MI250": Appearance("#009E73", "s", _DASHES["dashed"]),
    "MI300A": Appearance("#2F6FB0", "h", _DASHES["dotted"]),
    "MI300X": Appearance("#0B3C7D", "^", _DASHES["dash-dot"]),
    "V100": Appearance("#F0C419", "<", _DASHES["dotted"]),
    "A100": Appearance("#E69F00", "v", _DASHES["dashed"]),
    "H100": Appearance("#D55E00", "D", _DASHES["dash-dot"]),
    "L40S": Appearance("#B8860B", "P", _DASHES["long"]),
    "B200": Appearance("#9B1C31", "X", _DASHES["solid"]),
    "B200 RNE": Appearance("#CC79A7", "*", _DASHES["dash-dot-dot"]),
    "double": Appearance("#000000", "x", _DASHES["dotted"]),
}

_UNKNOWN = (
    Appearance("#555555", "8", _DASHES["long"]),
    Appearance("#7A5195", "d", _DASHES["dashed"]),
    Appearance("#8C8C8C", ">", _DASHES["dash-dot"]),
    Appearance("#4D4D00", "H", _DASHES["dotted"]),
)


def appearance(device: str) -> Appearance:
    """How to draw a device.

    Parameters
    ----------
    device : str
        A key of `DEVICES`; a core's name ("MI300X/fp16") stands for its device.

    Returns
    -------
    Appearance
        A device not listed gets one of a few spare looks, chosen by its name alone, so a new core
        can be drawn before anyone has given it a look of its own.
    """
    name = device.partition("/")[0]
    if name in DEVICES:
        return DEVICES[name]
    return _UNKNOWN[sum(name.encode()) % len(_UNKNOWN)]


@contextmanager
def style() -> Iterator[None]:
    """Draw in the common style inside this context, whatever the user's own settings are."""
    import matplotlib as mpl

    defaults = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    with mpl.rc_context({**defaults, **STYLE}):
        yield


def save(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write a figure as PNG (300 dots per inch) and PDF, each whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn inside `style`, so that the fonts are the common ones.
    stem : path
        The path without its suffix.

    Returns
    -------
    tuple of pathlib.Path
        The PNG and the PDF. Equal figures give equal bytes: no dates are written.
    """
    stem = Path(stem)
    png, pdf = (stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf"))
    no_date = {"CreationDate": None, "ModDate": None}
    with style():
        write_atomically(png, lambda path: figure.savefig(path, dpi=PNG_DPI))
        write_atomically(pdf, lambda path: figure.savefig(path, metadata=no_date))
    return png, pdf
