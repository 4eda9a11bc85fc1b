"""The whole procedure: ask, search, vary, report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mfmamodels.accumulation import (
    AlignedSum,
    Arithmetic,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
)
from mfmamodels.characterise.probing.alternatives import Refuter, Verdict
from mfmamodels.characterise.probing.boxes import Box, BoxError, RecordedBox
from mfmamodels.characterise.probing.kinds import refuted_by
from mfmamodels.characterise.probing.lab import (
    FirstFacts,
    Lab,
    Progress,
    Unanswered,
    first_facts,
)
from mfmamodels.characterise.probing.recordings import fits_of_recording
from mfmamodels.characterise.probing.report import (
    KIND_WORDS,
    Report,
    c_position,
    describe_row,
    show,
)
from mfmamodels.characterise.probing.search import Found, Search, seeded
from mfmamodels.formats import Rounding


def probe(box: Box, *, seed: int = 0, progress: Progress | None = None) -> Report:
    """Find a box's numerical features.

    Parameters
    ----------
    box : Box
        See :mod:`boxes` for adapters.
    seed : int
        Of the random rows; equal seeds give equal queries and reports.
    progress : callable, optional
        Told each step, a line at a time.

    Returns
    -------
    Report
        Also where the box fails on the way: then ``error`` says how, and the features decided
        before are there.
    """
    lab = Lab(box, seeded(seed), progress or (lambda line: None))
    report = Report(box.name, box.a, box.b, box.out)
    try:
        if isinstance(box, RecordedBox):
            fits_of_recording(lab, box, report)
            report.asked = lab.asked
            return report
        facts = first_facts(lab)
        _note_facts(report, facts)
        search = Search(lab, facts)
        try:
            search.run()
        finally:
            _note_found(report, lab, facts, search.found)
    except (BoxError, Unanswered) as error:
        report.error = str(error)
    report.asked = lab.asked
    return report


def _note_facts(report: Report, facts: FirstFacts) -> None:
    digits = report.out.width // 4
    codes = " ".join(f"{c:0{digits}X}" for c in facts.nan_codes)
    if len(facts.nan_codes) == 1:
        report.add("nan", codes, f"the code of {facts.nan_query}")
    else:
        why = "no NaN was answered to" if not facts.nan_codes else f"several codes ({codes}) for"
        report.add("nan", None, f"{why} {facts.nan_query}", decided=False)
    for name, value in (
        ("input subnormals", facts.input_subnormal),
        ("subnormal c", facts.addend_subnormal),
        ("output subnormals", facts.output_subnormal),
    ):
        words = {True: "kept", False: "flushed", None: None}[value]
        why = "" if value is not None else "no product of the format is so small"
        if name == "output subnormals" and value is None and facts.addend_subnormal:
            why += "; a subnormal c comes back"
        report.add(name, words, why, decided=value is not None)


def _note_found(report: Report, lab: Lab, facts: FirstFacts, found: Found) -> None:
    """Put down what the records have in common."""
    if not found.records:
        reason = "no chain, exact, pairwise or aligned sum answers all rows alike"
        report.add("kind", None, reason, decided=False)
        return
    lab.progress("what else would answer alike")
    pairs = [_verdicts(lab, facts, record) for record in found.records]
    # Rows asked on the way may have refuted a record after all.
    pairs = [(record, v) for record, v in pairs if refuted_by([record], lab.transcript) == [-1]]
    found.records = [record for record, _ in pairs]
    all_verdicts = [verdicts for _, verdicts in pairs]
    if not pairs:
        report.add("kind", None, "every record was refuted by some row", decided=False)
        return
    report.arithmetic, *report.others = found.records
    for name, verdict in all_verdicts[0].items():
        others = [v[name] for v in all_verdicts[1:] if name in v]
        alike = list(verdict.alike)
        for other in others:
            alike += [x for x in (other.value, *other.alike) if x not in (verdict.value, *alike)]
        _note(report, lab, name, verdict, alike)


def _note(report: Report, lab: Lab, name: str, verdict: Verdict, alike: list) -> None:
    if alike:
        evidence = _reason(name, lab)
    elif verdict.example is None:
        evidence = f"{verdict.refuted} other values refuted" if verdict.refuted else ""
    else:
        value, rows, index = verdict.example
        row = describe_row(rows, index, report.a, report.b, report.out)
        evidence = f"{verdict.refuted} other values refuted; {show(value)} by {row}"
    report.add(name, verdict.value, evidence, decided=not alike, alike=alike)


_REASONS = {
    "product_limit": "no product of these formats lies there, or the result overflows anyway",
    "e_min": "no product of these formats lies below",
    "late.zero_exponent": "what lies beyond it is not dropped, or no product lies below it",
    "late.sum_frac_bits": "what a wider sum keeps, a later rounding drops",
    "late.second": "the sums that tell them apart are out of the formats' range",
    "frac_bits": "products of these formats do not reach so far apart",
    "late.c_max_shift": "a c shifted so far contributes nothing anyway",
}


def _reason(name: str, lab: Lab) -> str:
    known = _REASONS.get(name, "no row was found on which they differ")
    return f"all these answer alike on every row asked: {known}"


# --- verdicts on the fields of one record -----------------------------------------------------


def _verdicts(
    lab: Lab, facts: FirstFacts, record: Arithmetic
) -> tuple[Arithmetic, dict[str, Verdict]]:
    kind = record.accumulation
    verdicts: dict[str, Verdict] = {}
    if isinstance(kind, AlignedSum):
        last = kind.c.products if isinstance(kind.c, LastC) else 1
        refuter = Refuter(lab, facts, record, max(kind.n_fma, len(kind.order), last))
        verdicts = refuter.verdicts()
        record = refuter.record
    else:
        verdicts |= _siblings(lab, record)
    structural = {
        "kind": Verdict(KIND_WORDS[type(kind)]),
        "c": Verdict(c_position(record)),
        **_structure(lab, record),
    }
    return record, structural | verdicts


def _siblings(lab: Lab, record: Arithmetic) -> dict[str, Verdict]:
    """Fields of chains, exact and pairwise sums."""
    kind = record.accumulation
    assert isinstance(kind, FmaChain | ExactSum | PairwiseSum)
    found = {"rounding": _tried(lab, record, "rounding", list(Rounding))}
    if isinstance(kind, PairwiseSum):
        found["flush"] = _tried(lab, record, "flush", [False, True])
    return found


def _structure(lab: Lab, record: Arithmetic) -> dict[str, Verdict]:
    """Size and order of blocks."""
    kind = record.accumulation
    if isinstance(kind, FmaChain):
        return {"n_fma": Verdict(1)}
    found = {"n_fma": _tried(lab, record, "n_fma", [1, 2, 4, 8, 16, 32, 64])}
    if isinstance(kind, AlignedSum):
        found["interleave"] = _tried(lab, record, "interleave", [1, 2])
        found["order"] = _tried(lab, record, "order", [()])
        if isinstance(kind.c, LastC):
            found["products"] = _tried(lab, record, "products", [8, 16, 32, 64])
    return found


def _tried(lab: Lab, record: Arithmetic, name: str, values: list) -> Verdict:
    """Siblings with one field of structure changed, where that makes a legal record."""
    kind = record.accumulation
    own = kind.c.products if name == "products" else getattr(kind, name)  # type: ignore[union-attr]
    verdict = Verdict(own)
    pairs = [(v, s) for v in values if v != own for s in _changed(record, name, v)]
    for (value, _), n in zip(pairs, refuted_by([s for _, s in pairs], lab.transcript), strict=True):
        if n < 0:
            verdict.alike.append(value)
        else:
            verdict.refuted += 1
            verdict.example = (value, *_row(lab, n))
    return verdict


def _row(lab: Lab, n: int) -> tuple:
    for rows in lab.transcript:
        if n < len(rows):
            return rows, n
        n -= len(rows)
    raise IndexError(n)


def _changed(record: Arithmetic, name: str, value: object) -> Iterator[Arithmetic]:
    kind = record.accumulation
    changes: dict = {name: value}
    if name == "n_fma" and isinstance(kind, AlignedSum):
        changes["order"] = ()
        if isinstance(kind.c, LastC):
            whole = -(-kind.c.products // value) * value  # type: ignore[operator]
            changes["c"] = replace(kind.c, products=whole)
    if name == "products":
        changes = {"c": replace(kind.c, products=value)}  # type: ignore[union-attr]
    if name == "interleave" and not isinstance(getattr(kind, "c", None), LateC):
        return  # even and odd apart is known with a late c only
    try:
        yield replace(record, accumulation=replace(kind, **changes))
    except ValueError:
        return  # no such record
