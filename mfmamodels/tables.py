"""Tables of the paper: one table, three files (CSV for programs, Markdown and LaTeX for people)."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from mfmamodels.formats import FORMATS, Format
from mfmamodels.results import write_text

SUFFIXES = ("csv", "md", "tex")


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes
    ----------
    name : str
        Stem of the files and label in LaTeX: "table_1".
    caption : str
    header : tuple of str
    rows : tuple of tuple of str
    notes : tuple of str
        Sentences below the table.
    """

    name: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"{self.name}: {len(row)} cells under {len(self.header)} headings: {row}"
                )

    def csv(self) -> str:
        """Heading and rows only; captions and notes are for readers."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return text.getvalue()

    def markdown(self) -> str:
        """Caption, table, notes."""
        lines = [f"**{self.caption}**", ""]
        for row in (self.header, ("---",) * len(self.header), *self.rows):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def latex(self) -> str:
        """A float for a document with the package booktabs."""
        body = [" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows)]
        notes = " ".join(_latex(note) for note in self.notes)
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_latex(self.caption)}}}\label{{tab:{self.name}}}",
                rf"\begin{{tabular}}{{{'l' * len(self.header)}}}",
                r"\toprule",
                body[0],
                r"\midrule",
                *body[1:],
                r"\bottomrule",
                r"\end{tabular}",
                *([rf"\par\smallskip\footnotesize {notes}"] if notes else []),
                r"\end{table}",
                "",
            ]
        )

    def write(self, folder: str | Path) -> list[Path]:
        """Write the three files; each appears whole or not at all."""
        texts = (self.csv(), self.markdown(), self.latex())
        return [
            write_text(Path(folder) / f"{self.name}.{suffix}", text)
            for suffix, text in zip(SUFFIXES, texts, strict=True)
        ]


_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "∞": r"$\infty$",
    "×": r"$\times$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "−": r"$-$",
    "–": "--",
}


def _latex(text: str) -> str:
    """Text with powers (2^-126) and special characters as LaTeX has them."""
    pieces = re.split(r"(\d+\^-?\d+)", text)
    for i, piece in enumerate(pieces):
        if i % 2:
            base, exponent = piece.split("^")
            pieces[i] = f"${base}^{{{exponent}}}$"
        else:
            pieces[i] = "".join(_ESCAPES.get(character, character) for character in piece)
    return "".join(pieces)


# --- Table 1 ------------------------------------------------------------------------------------


# Heading of the paper, our formats (FNUZ and OCP where both exist), CDNA generations with them.
_TABLE_1 = (
    ("binary64 (double)", ("fp64",), "1/2/3/4"),
    ("binary32 (single)", ("fp32",), "1/2/3/4"),
    ("tf19 (19-bit)", ("xf32",), "3/4"),
    ("bfloat16", ("bf16",), "1/2/3/4"),
    ("binary16 (half)", ("fp16",), "1/2/3/4"),
    ("fp8-E4M3 (FNUZ/OCP)", ("e4m3fnuz", "e4m3fn"), "3/4"),
    ("fp8-E5M2 (FNUZ/OCP)", ("e5m2fnuz", "e5m2"), "3/4"),
)


def table_1() -> Table:
    """Input formats (Table 1), derived from the records of :mod:`mfmamodels.formats`."""
    rows = []
    for label, names, generations in _TABLE_1:
        formats = [FORMATS[name] for name in names]
        rows.append(
            (
                label,
                "/".join(names),
                str(formats[0].precision),
                "/".join(f"2^{f.emin}" for f in formats),
                "/".join(f"2^{f.emin - f.fraction_bits}" for f in formats),
                "/".join(_largest(f) for f in formats),
                generations,
            )
        )
    return Table(
        "table_1",
        "Input formats of AMD matrix cores",
        ("Format", "name here", "precision f", "min. normal", "min. subnormal", "max.", "CDNA"),
        tuple(rows),
        (
            "CDNA generations as the paper states them; CDNA 1 has no fp64 matrix instruction, "
            "CDNA 4 is not modelled.",
            "FNUZ formats have no infinities and no −0; e4m3fn has no infinities.",
        ),
    )


def _largest(fmt: Format) -> str:
    return f"{fmt.max:.0f}" if fmt.max < 1e6 else f"{fmt.max:.3e}".replace("e+", "e")
