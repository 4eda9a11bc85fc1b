"""Siblings of a core: one numerical feature changed, named by that change.

``MI300X/fp16:rounding=rtz`` is the MI300X with its results truncated; ``c.sum_frac_bits=31``
reaches into how c is added. What the fields mean is said in :mod:`mfmamodels.accumulation`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from mfmamodels.accumulation import (
    Accumulation,
    AlignedSum,
    CAddition,
    EarlyC,
    ExactSum,
    FmaChain,
    LastC,
    LateC,
    PairwiseSum,
)
from mfmamodels.core import Core, Evidence, Level

KINDS: dict[str, type] = {
    "chain": FmaChain,
    "exact": ExactSum,
    "pairwise": PairwiseSum,
    "aligned": AlignedSum,
}
C_ADDITIONS: dict[str, type] = {"early": EarlyC, "late": LateC, "last": LastC}


def features(accumulation: Accumulation) -> dict[str, str]:
    """All features of an accumulation as text, in the order of its fields.

    Returns
    -------
    dict of str to str
        ``{"kind": "aligned", "n_fma": "8", "frac_bits": "24", "c": "late", ...}``.
    """
    found = {"kind": _name_of(accumulation, KINDS), "n_fma": str(accumulation.n_fma)}
    for field in fields(accumulation):
        value = getattr(accumulation, field.name)
        if isinstance(value, EarlyC | LateC | LastC):
            found["c"] = _name_of(value, C_ADDITIONS)
            found |= {f"c.{f.name}": _text(getattr(value, f.name)) for f in fields(value)}
        else:
            found[field.name] = _text(value)
    return found


def differences(one: Core, other: Core) -> list[tuple[str, str, str]]:
    """Features in which two cores differ: (field, value of one, value of the other)."""
    mine, theirs = features(one.accumulation), features(other.accumulation)
    names = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    found = [(name, mine[name], theirs[name]) for name in names]
    for which in ("a", "b", "out"):
        formats = str(getattr(one, which)), str(getattr(other, which))
        if formats[0] != formats[1]:
            found.append((f"format of {which}", *formats))
    return found


def change(core: Core, field: str, value: str) -> Core:
    """Make a sibling with one feature of its accumulation changed.

    Parameters
    ----------
    core : Core
    field, value : str
        A name and a value as :func:`features` gives them. ``kind`` can become "exact", "pairwise"
        or "chain", which have no parameters that the core could not give.

    Returns
    -------
    Core
        Its ``variant`` names the change, and :func:`mfmamodels.core` understands that name.

    Raises
    ------
    ValueError
        If the core has no such feature, or the value means nothing there.
    """
    kind = core.accumulation
    if field == "kind":
        changed: Accumulation = _as_kind(kind, value)
    elif field == "c" and isinstance(kind, AlignedSum):
        changed = replace(kind, c=_as_addition(kind, value))
    elif field.startswith("c.") and isinstance(kind, AlignedSum):
        changed = replace(kind, c=_with_field(core, kind.c, field.removeprefix("c."), value, "c."))
    else:
        changed = _with_field(core, kind, field, value, "")
    variant = ":".join(filter(None, [core.variant, f"{field}={value}"]))
    evidence = (Evidence(Level.UNVERIFIED, f"{core.name} with {field} = {value}"),)
    return replace(core, accumulation=changed, variant=variant, evidence=evidence)


def _name_of(record: object, names: dict[str, type]) -> str:
    return next(name for name, kind in names.items() if type(record) is kind)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value)


def _with_field(core: Core, record: Any, name: str, value: str, prefix: str) -> Any:
    """A record with one field set from text of the kind that the field holds."""
    known = [field.name for field in fields(record)]
    if name not in known:
        choices = ", ".join(features(core.accumulation))
        raise ValueError(f"{core.name} has no feature {prefix + name!r}; it has: {choices}")
    return replace(record, **{name: _parsed(getattr(record, name), value, prefix + name)})


def _parsed(present: Any, text: str, name: str) -> Any:
    if isinstance(present, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text == "true"
    if isinstance(present, tuple):
        return () if text == "none" else tuple(_integer(part, name) for part in text.split(","))
    # Whole numbers are numbers; all else is the name of a choice, which the record checks.
    return int(text) if text.lstrip("-").isdecimal() else text


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is a list of whole numbers, not {text!r}") from None


def _as_kind(kind: Accumulation, name: str) -> Accumulation:
    if name == "exact":
        return ExactSum(kind.n_fma, kind.rounding)
    if name == "pairwise":
        return PairwiseSum(kind.n_fma, rounding=kind.rounding)
    if name == "chain":
        return FmaChain(kind.rounding)
    raise ValueError(f"kind can become exact, pairwise or chain, not {name!r}")


def _as_addition(kind: AlignedSum, name: str) -> CAddition:
    if name == "early":
        return EarlyC()
    if name == "late":
        return LateC()
    if name == "last":
        return LastC(products=max(kind.n_fma, len(kind.order)))
    raise ValueError(f"c can become early, late or last, not {name!r}")
