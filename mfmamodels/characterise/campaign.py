"""The paper's randomised validation (5.1 to 5.4) as data, and its tables.

Nine tests: MI100 and MI210 (MI250 has the same arithmetic) with fp16 and bf16, CDNA3 with five
formats. Without the devices, the final core stands for the device: it is compared with the second
opinion and the reference, and, on CDNA3, with each stage of refinement that the paper went through.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from mfmamodels.catalogue.amd import CDNA3_VARIANTS
from mfmamodels.characterise import validation
from mfmamodels.characterise.ensembles import Outcome, Sampled, merge, shards
from mfmamodels.characterise.parties import Model
from mfmamodels.core import Core
from mfmamodels.cores import core as core_named
from mfmamodels.results import source_digest, write_text

#: Cores of the nine tests. On CDNA2, k = 16 (5.1.2) exists for bf16 in groups of four only.
TESTS = (
    "MI100/fp16",
    "MI100/bf16",
    "MI210/fp16",
    "MI210/bf16_1k",
    "MI300X/e4m3fnuz",
    "MI300X/e5m2fnuz",
    "MI300X/fp16",
    "MI300X/bf16",
    "MI300X/xf32",
)
STAGES = tuple(CDNA3_VARIANTS)
INDEPENDENT = "exact_integer"
DEFINITION = "reference"

MOST_SHARE = 1000
_PAPER_ROWS = 10**6  # 5.1.1 to 5.1.4, each test and sampler
_FINAL_ROWS = 10**7  # fourth iteration: per format, so 2e7 for the two 8-bit formats together
_DIRECTED_ROWS = 2 * 10**5  # near ties; not in the paper
_FEWEST_DIRECTED = 5000  # enough to see every stage, however small the share
_DEFINITION_ROWS = 500  # mpmath needs a millisecond for a row
_FEWEST_DEFINITION = 20


@dataclass(frozen=True)
class Task:
    """One ensemble, and which models the final core is compared with on it.

    Attributes
    ----------
    sampler : str
    rows : int
    others : tuple of str
        "exact_integer", "reference", or the name of a stage of refinement.
    """

    sampler: str
    rows: int
    others: tuple[str, ...]

    @property
    def name(self) -> str:
        """Key in result files."""
        return f"{self.sampler} {DEFINITION}" if self.others == (DEFINITION,) else self.sampler


def tasks(core: Core, share: float = 1.0) -> list[Task]:
    """What is validated on a core.

    Parameters
    ----------
    core : Core
        One of :data:`TESTS`.
    share : float
        Share of the paper's ensemble sizes; above 1 for more rows than the paper's.
    """
    if not 0 < share <= MOST_SHARE:
        raise ValueError(f"share is {share}; allowed: above 0, at most {MOST_SHARE}")
    staged = core.arch == "CDNA3"
    others = (INDEPENDENT, *STAGES) if staged else (INDEPENDENT,)
    sizes = {
        "exponent_mantissa": _FINAL_ROWS if staged else _PAPER_ROWS,
        "exponent_mantissa_subnormal": _PAPER_ROWS,
        "bits": _PAPER_ROWS,
        "near_tie": _DIRECTED_ROWS,
    }
    fewest = {"near_tie": _FEWEST_DIRECTED}
    planned = [
        Task(s, max(fewest.get(s, 100), round(share * rows)), others) for s, rows in sizes.items()
    ]
    small = max(_FEWEST_DEFINITION, round(share * _DEFINITION_ROWS))
    return planned + [Task(s, small, (DEFINITION,)) for s in sizes]


def parts(name: str, share: float = 1.0) -> int:
    """Into how many jobs a core's shards are scattered: some seven million rows in each at most."""
    return ceil(max(share, 1.0)) * (2 if name.startswith("MI300X") else 1)


def run_part(
    name: str,
    part: int,
    seed: int,
    share: float,
    path: str | Path,
    progress: validation.Progress | None = None,
) -> Path:
    """Validate one core on every ``parts``-th shard and write what was found.

    Parameters
    ----------
    name : str
        Core, one of :data:`TESTS`.
    part : int
        From 0 to ``parts(name, share) - 1``.
    seed, share
        Root seed, share of the paper's ensemble sizes.
    path : path
        JSON file: the findings of every task.
    progress : callable, optional
        Called with (done, total, text).
    """
    core = core_named(name)
    found = {}
    planned = tasks(core, share)
    for place, task in enumerate(planned):
        ensemble = Sampled(core, task.sampler, task.rows, seed)
        outcomes = validation.compare_all(
            ensemble,
            core,
            Model(core),
            [_party(core, other) for other in task.others],
            only=list(shards(ensemble))[part :: parts(name, share)],
        )
        found[task.name] = dict(zip(task.others, outcomes.values(), strict=True))
        if progress is not None:
            counts = ", ".join(f"{n} {o.mismatches}" for n, o in found[task.name].items())
            progress(place + 1, len(planned), f"{task.name}: {counts}")
    return write_findings(path, {"core": name, "seed": seed, "share": share}, found)


def _party(core: Core, other: str) -> Model:
    if other in (INDEPENDENT, DEFINITION):
        return Model(core, other)
    return Model(core_named(f"{core.name}:{other}"))


Findings = dict[str, dict[str, Outcome]]  # by task, by the model compared


def write_findings(path: str | Path, about: Mapping[str, Any], found: Findings) -> Path:
    """Write findings with the digest of the source that found them."""
    value = {
        **about,
        "source": source_digest(),
        "found": {t: {n: o.to_json() for n, o in by.items()} for t, by in found.items()},
    }
    return write_text(path, json.dumps(value, indent=1) + "\n")


def read_findings(path: str | Path) -> tuple[dict[str, Any], Findings]:
    """Read what :func:`write_findings` wrote."""
    value = json.loads(Path(path).read_text(encoding="utf-8"))
    found = value.pop("found")
    return value, {t: {n: Outcome.from_json(o) for n, o in by.items()} for t, by in found.items()}


def collect(paths: Iterable[str | Path]) -> dict[str, Findings]:
    """Read the parts of all cores and merge them: findings by core, as of one run.

    Raises
    ------
    ValueError
        If they are of different seeds, shares or versions of the package, or a part is missing or
        occurs twice.
    """
    by_core: dict[str, list[Findings]] = {}
    common: dict[str, Any] | None = None
    for path in paths:
        about, found = read_findings(path)
        by_core.setdefault(about.pop("core"), []).append(found)
        if common is not None and about != common:
            raise ValueError(f"parts of different validations: {common} and {about}")
        common = about
    for name, several in by_core.items():
        wanted = parts(name, common["share"] if common else 1.0)
        if len(several) != wanted:
            raise ValueError(f"{name}: {len(several)} parts, not {wanted}")
    return {
        name: {
            task: {other: merge(part[task][other] for part in several) for other in by}
            for task, by in several[0].items()
        }
        for name, several in by_core.items()
    }


def can_differ(core: Core, stage: str) -> bool:
    """Whether a stage of refinement differs from the final core on any input.

    Lines 12 and 13 of Algorithm 1 with and without a lowest exponent differ only in subnormal
    results, far below all products of fp16 and of 8-bit numbers.
    """
    smallest_product = core.a.emin + core.b.emin - core.a.fraction_bits - core.b.fraction_bits
    return stage != "rd32-norm" or smallest_product < core.out.emin


def verdict(found: Mapping[str, Findings], path: str | Path) -> str:
    """Write that every final core agrees with the independent computations.

    Parameters
    ----------
    found : mapping
        From :func:`collect`.
    path : path
        JSON file.

    Returns
    -------
    str
        One line for a reader.

    Raises
    ------
    ValueError
        If a final core shows a mismatch, or if the near ties fail to show the difference of a stage
        of refinement (they would then prove little). The summary is not written.
    """
    tests, problems = {}, []
    for name, findings in found.items():
        core = core_named(name)
        for task, by in findings.items():
            for other, outcome in by.items():
                what = f"{name}, {task}, {other}"
                if other not in STAGES:
                    tests[what] = outcome.rows
                    if outcome.mismatches:
                        counts = f"{outcome.mismatches} mismatches in {outcome.rows} rows"
                        problems.append(f"{what}: {counts}; the first: {outcome.kept[0]}")
                elif task == "near_tie" and bool(outcome.mismatches) != can_differ(core, other):
                    problems.append(f"{what}: {outcome.mismatches} mismatches")
    if problems:
        raise ValueError("; ".join(problems))
    total = sum(tests.values())
    summary = {"rows": total, "mismatches": 0, "tests": tests}
    write_text(path, json.dumps(summary, indent=1) + "\n")
    return f"{total} rows of {len(found)} cores: no mismatch"
