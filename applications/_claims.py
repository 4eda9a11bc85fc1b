"""The paper's claims beside what was found, from the studies' own files to one table."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from applications._registry import Study

if TYPE_CHECKING:
    import xarray as xr

VERDICTS = ("holds", "holds only for the published split", "does not hold", "not comparable")
KEYS = ("id", "section", "claim", "paper", "ours", "tolerance", "verdict")


def write(study: Study, data: Mapping[str, xr.Dataset], path: str | Path) -> Path:
    """Compare a study's results with what the paper says, and write the verdicts as JSON.

    Raises
    ------
    ValueError
        A claim without one of its parts, or with a verdict that is none of `VERDICTS`.
    """
    claims = [_checked(study.name, c) for c in study.module.claims(dict(data), study.config)]
    return _write_json(claims, path)


def gather(studies: Iterable[str], paths: Iterable[str | Path], path: str | Path) -> Path:
    """Put the studies' claims into one JSON file, each with the name of its study.

    Raises
    ------
    ValueError
        Two claims have the same id.
    """
    gathered = []
    for study, file in zip(studies, paths, strict=True):
        claims = json.loads(Path(file).read_text(encoding="utf-8"))
        gathered += [{"study": study, **claim} for claim in claims]
    identifiers = [claim["id"] for claim in gathered]
    doubled = sorted({i for i in identifiers if identifiers.count(i) > 1})
    if doubled:
        raise ValueError(f"two claims have the id {doubled[0]!r}")
    return _write_json(gathered, path)


def write_page(source: str | Path, target: str | Path) -> Path:
    """Write the gathered claims as one HTML table, for the report."""
    from mfmamodels.results import write_text

    claims = json.loads(Path(source).read_text(encoding="utf-8"))
    head = "".join(f"<th>{key}</th>" for key in KEYS[1:])
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(str(c[key]))}</td>" for key in KEYS[1:]) + "</tr>"
        for c in claims
    )
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Claims</title>
<style>
body {{ font-family: sans-serif; font-size: 14px; margin: 1em; }}
table {{ border-collapse: collapse; }}
th, td {{ border: 1px solid #ccc; padding: 0.3em 0.6em; text-align: left; vertical-align: top; }}
</style></head>
<body><table id="claims"><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""
    return write_text(target, page)


def _checked(study: str, claim: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse a claim that lacks a part or has a verdict of its own making."""
    if set(claim) != set(KEYS):
        wrong = ", ".join(sorted(set(claim) ^ set(KEYS)))
        raise ValueError(f"study {study}: missing or unexpected in a claim: {wrong} ({claim})")
    if claim["verdict"] not in VERDICTS:
        raise ValueError(
            f"study {study}, claim {claim['id']}: the verdict {claim['verdict']!r} is none of "
            f"{', '.join(VERDICTS)}"
        )
    return {key: claim[key] for key in KEYS}


def _write_json(claims: list[dict[str, Any]], path: str | Path) -> Path:
    from mfmamodels.results import write_text

    return write_text(path, json.dumps(claims, indent=2, allow_nan=False) + "\n")
