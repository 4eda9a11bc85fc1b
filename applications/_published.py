"""Row-by-row comparison with published result files, to the digits that are printed there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from applications._config import ROOT
from applications._registry import Study
from applications._steps import read_results

DIGITS = 7  # significant digits in the published files
HEADER = ("file", "n", "published", "ours")

Row = tuple[str, int, str, str]


def printed(value: float | str) -> str:
    """Print a number as the published files do, like 1.234567e-08; text stays what it is."""
    return value if isinstance(value, str) else f"{value:.{DIGITS - 1}e}"


def units_apart(published: str, ours: str) -> float:
    """Count how far two printed numbers are apart, in units of the published one's last digit.

    Infinite where either is no finite number: a NaN agrees with nothing.
    """
    try:
        theirs, mine = Decimal(published), Decimal(ours)
    except InvalidOperation:
        return float("inf")
    if not (theirs.is_finite() and mine.is_finite()):
        return float("inf")
    # adjusted() is the exponent of the leading digit, without any logarithm.
    unit = Decimal(1).scaleb(theirs.adjusted() - (DIGITS - 1))
    return float(abs(theirs - mine) / unit)


def result_files(setting: str) -> list[Path]:
    """List the published result files that the setting `published_data` points to, sorted.

    Parameters
    ----------
    setting : str
        A folder, relative to the project's root; "" for none. An absent folder has no files.
    """
    return sorted((ROOT / setting).glob("*.dat")) if setting else []


def collect_rows(
    studies: Iterable[Study],
    results_folder: str | Path,
    setting: str,
    progress: Callable[[int, int, str], None],
) -> list[tuple[str, int, Any, Any]]:
    """Have every study that can compare itself with the published files do so.

    Parameters
    ----------
    studies : iterable of Study
        Those that define `compare_published`.
    results_folder : path
        Holds the studies' folders of results.
    setting : str
        As for `result_files`. Without any file nothing is compared, and that is said.
    progress : callable
        Called with (done, total, text).
    """
    if not result_files(setting):
        progress(0, 0, f"skipped: no published result files in published_data: {setting!r}")
        return []
    rows: list[tuple[str, int, Any, Any]] = []
    studies = list(studies)
    for done, study in enumerate(studies, 1):
        data = read_results(study, results_folder)
        rows += study.module.compare_published(data, ROOT / setting, study.config)
        progress(done, len(studies), f"{len(rows)} rows compared")
    return rows


def write_rows(rows: Iterable[tuple[str, int, Any, Any]], path: str | Path) -> Path:
    """Write every row compared as CSV: file, n, published, ours, sorted by file and n."""
    from mfmamodels.results import write_text

    ordered = sorted((str(file), int(n), printed(p), printed(o)) for file, n, p, o in rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(ordered)
    return write_text(path, text.getvalue())


def read_rows(path: str | Path) -> list[Row]:
    """Read what `write_rows` wrote."""
    with open(path, encoding="utf-8", newline="") as file:
        return [(r["file"], int(r["n"]), r["published"], r["ours"]) for r in csv.DictReader(file)]


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """Count the rows and files, and list the rows more than one unit of the last digit apart."""
    rows = list(rows)
    apart = [units_apart(published, ours) for _, _, published, ours in rows]
    return {
        "digits": DIGITS,
        "files": len({row[0] for row in rows}),
        "rows": len(rows),
        "equal": sum(distance == 0 for distance in apart),
        "one_unit": sum(0 < distance <= 1 for distance in apart),
        "differing": [
            dict(zip(HEADER, row, strict=True))
            for row, distance in zip(rows, apart, strict=True)
            if distance > 1
        ],
    }


def check(source: str | Path, target: str | Path) -> str:
    """Read the rows, write their summary as JSON, and return it in words.

    Raises
    ------
    ValueError
        A row is more than one unit in its last printed digit from ours; names the first ones.
    """
    from mfmamodels.results import write_text

    found = summary(read_rows(source))
    differing = found["differing"]
    if differing:
        some = "; ".join(
            f"{r['file']} n = {r['n']}: published {r['published']}, ours {r['ours']}"
            for r in differing[:5]
        )
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise ValueError(
            f"{len(differing)} of {found['rows']} published rows differ: {some}{more} "
            f"(all rows: {source})"
        )
    write_text(target, json.dumps(found, indent=2) + "\n")
    return in_words(found)


def in_words(found: Mapping[str, Any]) -> str:
    """Say what a summary says."""
    if not found["rows"]:
        return "nothing compared: no published result files"
    return (
        f"{found['rows']} published rows in {found['files']} files: {found['equal']} equal to "
        f"{found['digits']} digits, {found['one_unit']} one unit apart, "
        f"{len(found['differing'])} differ"
    )
