"""Compare parties over an ensemble: in constant memory, to the end, resumable, mergeable.

>>> import mfmamodels as mm
>>> from mfmamodels.characterise import parties, validation
>>> core, weaker = mm.core("MI300X/fp16"), mm.core("MI300X/fp16:rd32")
>>> ensemble = validation.Sampled(core, "near_tie", 2000, seed=1)
>>> pair = parties.Model(core), parties.Model(weaker)
>>> validation.compare(ensemble, core, *pair).mismatches > 0
True
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise.ensembles import (
    KEPT,
    SHARD_ROWS,
    Ensemble,
    Mismatch,
    Outcome,
    Recorded,
    Sampled,
    canonical,
    compared,
    merge,
    shards,
)
from mfmamodels.characterise.parties import Party, PartyError
from mfmamodels.results import source_digest, write_text

__all__ = [
    "KEPT",
    "SHARD_ROWS",
    "Ensemble",
    "Incomplete",
    "Mismatch",
    "Outcome",
    "Recorded",
    "Sampled",
    "compare",
    "compare_all",
    "merge",
    "shards",
]

Progress = Callable[[int, int, str], None]


class Incomplete(RuntimeError):
    """A party failed on the way.

    Attributes
    ----------
    outcomes : dict
        What was done before, by the name of the party compared.
    """

    def __init__(self, message: str, outcomes: dict[str, Outcome]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


def compare(
    ensemble: Ensemble,
    core: Arithmetic,
    left: Party,
    right: Party,
    *,
    only: Iterable[int] | None = None,
    saved: str | Path | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Compare two parties; arguments as in :func:`compare_all`."""
    found = compare_all(ensemble, core, left, [right], only=only, saved=saved, progress=progress)
    return found[right.name]


def compare_all(
    ensemble: Ensemble,
    core: Arithmetic,
    device: Party,
    others: Sequence[Party],
    *,
    only: Iterable[int] | None = None,
    saved: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Outcome]:
    """Compare a device under test with several parties on the same rows.

    Every row is compared, whatever was found before it.

    Parameters
    ----------
    ensemble : Ensemble
        :class:`Sampled` or :class:`Recorded` rows.
    core : Arithmetic
        Gives the formats.
    device : Party
    others : sequence of Party
        With different names.
    only : iterable of int, optional
        Shards to do; by default all. Outcomes of different shards merge to that of one run.
    saved : path, optional
        A file that holds what was done. If it is there, the comparison goes on from it; it is
        rewritten after every shard.
    progress : callable, optional
        Called with (shards done, shards in all, text).

    Returns
    -------
    dict
        An :class:`Outcome` by the name of each other party.

    Raises
    ------
    Incomplete
        If a party fails; it holds what was done, which ``saved`` also keeps.
    ValueError
        If ``saved`` belongs to another comparison, or to another version of this package.
    """
    names = [party.name for party in others]
    if len(set(names)) < len(names):
        raise ValueError(f"parties need different names: {names}")
    identity = {
        "ensemble": ensemble.describe(),
        "device": device.name,
        "others": names,
        "source": source_digest(),
    }
    outcomes = _resumed(saved, identity) or {name: Outcome({}) for name in names}
    wanted = list(shards(ensemble)) if only is None else sorted(only)
    done = outcomes[names[0]].counts.keys() if names else set()
    for place, shard in enumerate(wanted, 1):
        if shard not in done:
            outcomes = _one_shard(ensemble, core, device, others, shard, outcomes)
            if saved is not None:
                save(saved, identity, outcomes)
        if progress is not None:
            found = ", ".join(f"{n}: {o.mismatches}" for n, o in outcomes.items())
            progress(place, len(wanted), f"mismatches: {found}")
    return outcomes


def _one_shard(
    ensemble: Ensemble,
    core: Arithmetic,
    device: Party,
    others: Sequence[Party],
    shard: int,
    outcomes: dict[str, Outcome],
) -> dict[str, Outcome]:
    """Outcomes with one more shard, or as they were if a party fails on it."""
    chunk = ensemble.chunk(shard)
    try:
        truth = device.answer(core, chunk)
        answers = {party.name: party.answer(core, chunk) for party in others}
    except PartyError as error:
        done = sum(o.rows for o in outcomes.values()) // max(len(outcomes), 1)
        last = chunk.first + len(chunk.c) - 1
        raise Incomplete(
            f"{error} (in rows {chunk.first} to {last}; {done} of {ensemble.rows} rows are done "
            "and kept)",
            outcomes,
        ) from error
    return {
        name: merge([outcomes[name], compared(core, shard, chunk, truth, answer)])
        for name, answer in answers.items()
    }


# --- outcomes in files ----------------------------------------------------------------------------


def save(path: str | Path, identity: dict[str, Any], outcomes: dict[str, Outcome]) -> Path:
    """Write outcomes with what they are about, whole or not at all."""
    value = {**identity, "outcomes": {n: o.to_json() for n, o in outcomes.items()}}
    return write_text(path, json.dumps(value, indent=1) + "\n")


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, Outcome]]:
    """Read what :func:`save` wrote: what it is about, and the outcomes."""
    value = json.loads(Path(path).read_text(encoding="utf-8"))
    outcomes = {n: Outcome.from_json(o) for n, o in value.pop("outcomes").items()}
    return value, outcomes


def merge_files(paths: Iterable[str | Path], path: str | Path) -> Path:
    """Merge files of different shards of one comparison into the file of one run.

    Raises
    ------
    ValueError
        If they are not about the same comparison, or share a shard.
    """
    loaded = [load(p) for p in paths]
    identity = loaded[0][0]
    for other, _ in loaded[1:]:
        if canonical(other) != canonical(identity):
            raise ValueError(f"outcomes of different comparisons: {identity} and {other}")
    names = loaded[0][1]
    return save(path, identity, {n: merge(outcomes[n] for _, outcomes in loaded) for n in names})


def _resumed(path: str | Path | None, identity: dict[str, Any]) -> dict[str, Outcome] | None:
    if path is None or not Path(path).is_file():
        return None
    about, outcomes = load(path)
    if canonical(about) != canonical(identity):
        raise ValueError(
            f"{path} belongs to another comparison ({canonical(about)}, not "
            f"{canonical(identity)}); give another file or delete it"
        )
    return outcomes
