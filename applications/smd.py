"""Polynomial eigenvalue decomposition by sequential matrix diagonalisation (section 8.2).

The dominant eigenvalue of a parahermitian polynomial matrix is found once entirely in double and
once per core, with the GEMMs that update D(z) and Q(z) computed on the core. Figures 7 to 9 show
one matrix; the medians and the claims come from many, since a single matrix proves nothing: the
paper says so itself, and its own matrix is unpublished.

Every core also repeats the decisions of the double run (delays, rotations, trims). What is left of
a difference then is plain rounding; the rest is the algorithm taking another path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from applications._smd_algorithm import STOPPING_RULES, Options
from applications._smd_claims import claims
from applications._smd_examples import FAMILIES, load_matrix
from applications._smd_record import Recorder
from applications._smd_runs import DOUBLE, EIGENVALUES, Arithmetic

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["CAPTIONS", "SCHEMA", "TITLE", "claims", "figures", "jobs", "plot", "run"]

TITLE = "Polynomial eigenvalue decomposition by sequential matrix diagonalisation"

CORES = [
    "MI100/fp16",
    "MI210/fp16",
    "MI300X/fp16",
    "B200/fp16",
    "MI100/bf16",
    "MI210/bf16_1k",
    "MI300X/bf16",
    "B200/bf16",
    "MI300X/e4m3fnuz",
    "MI300X/e5m2fnuz",
]


def _option(description: str, default: Any, **schema: Any) -> dict[str, Any]:
    return {"description": description, "default": default, **schema}


def _choice(description: str, default: str, choices: Mapping[str, str]) -> dict[str, Any]:
    meaning = "; ".join(f"{key}: {text}" for key, text in choices.items())
    return _option(f"{description} ({meaning})", default, enum=list(choices))


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "cores": _option(
            "Cores to run on, besides double.",
            CORES,
            type="array",
            items={"type": "string"},
            uniqueItems=True,
            minItems=1,
        ),
        "families": _option(
            "Families of matrices that the medians are taken over.",
            ["random", "sources-20dB"],
            type="array",
            items={"enum": list(FAMILIES)},
            uniqueItems=True,
            minItems=1,
        ),
        "matrices": _option(
            "Matrices per family; number i is drawn from the root seed plus i.",
            24,
            type="integer",
            minimum=1,
        ),
        "example_family": _choice(
            "Family of the matrix of Figures 7 to 9",
            "random",
            {name: family.label for name, family in FAMILIES.items()},
        ),
        "example_number": _option(
            "Number of that matrix in its family.", 0, type="integer", minimum=0
        ),
        "matrix_file": _option(
            "An .npz file with a matrix of your own for Figures 7 to 9, as array R of shape "
            "(2 L + 1, M, M), lag first; a path relative to the folder of the run. Empty: the "
            "example of the two keys above.",
            "",
            type="string",
        ),
        "epsilon": _option("Threshold of the stopping rule.", 1e-4, type="number", minimum=0),
        "mu": _option(
            "Share of the energy that each trim of D and Q may cut off.",
            1e-4,
            type="number",
            minimum=0,
            exclusiveMaximum=1,
        ),
        "max_iterations": _option("Largest number of updates.", 250, type="integer", minimum=0),
        "stop": _choice("Stopping rule", "energy", STOPPING_RULES),
        "symmetrise": _option(
            "Replace D by its parahermitian part in every iteration.", True, type="boolean"
        ),
        "initial_evd": _choice(
            "Where the rotation before the first iteration is multiplied",
            "core",
            {"core": "on the core, like all others", "double": "in double"},
        ),
        "state": _choice(
            "Format in which D and Q are kept between iterations",
            "output",
            {"output": "the core's output format", "input": "the core's input format"},
        ),
        "scaling": _choice(
            "Scaling of the matrix before a run on a core",
            "auto",
            {"auto": "a power of two that uses the range of the input format", "none": "none"},
        ),
        "eigenvalue": _choice("What is taken as dominant eigenvalue", "first", EIGENVALUES),
        "bins": _option("Frequencies from 0 to 2 pi.", 1024, type="integer", minimum=2),
    },
}

_EXAMPLE = (
    "Magnitudes are in the units of R, whose trace at lag 0 is written below. MI210 takes bf16 by "
    "its bf16_1k instructions. The matrix of the paper is unpublished; this one has its size and "
    "order, so that magnitudes and orders can be compared with the paper, but not curves."
)

CAPTIONS = {
    "figure_7": "Dominant eigenvalue of an example matrix by SMD, in double and with the updates "
    "on each core, and the condition number of the matrix (from its eigenvalues at each "
    f"frequency). {_EXAMPLE}",
    "figure_8": "Absolute difference of the dominant eigenvalue between each core and double, for "
    f"the matrix of Figure 7. {_EXAMPLE}",
    "figure_9": "Absolute difference of the dominant eigenvalue between each two cores of one "
    f"input format, for the matrix of Figure 7. Dips are changes of sign. {_EXAMPLE}",
    "figure_smd_medians": "As Figures 8 and 9, relative to the largest dominant eigenvalue, over "
    "many matrices: median (line), quartiles (dark) and extremes (light) at each frequency.",
    "figure_smd_replay": "Largest difference over frequency, relative to the largest dominant "
    "eigenvalue, when each core runs freely and when it repeats the decisions of the double run: "
    "median, quartiles and extremes over the matrices (of those that differ at all; how many do "
    "not is written beside). What disappears on repeating was divergence of paths; what stays is "
    "rounding.",
    "figure_smd_formats": "Error of the dominant eigenvalue and number of iterations per input "
    "format: median, quartiles and extremes over the matrices.",
}


def jobs(config: Mapping[str, Any]) -> list[str]:
    """Return "double" and the cores."""
    return [DOUBLE, *config["cores"]]


def figures(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the figures."""
    return list(CAPTIONS)


def options(config: Mapping[str, Any]) -> Options:
    """Return the algorithm's own options."""
    return Options(
        epsilon=config["epsilon"],
        mu=config["mu"],
        max_iterations=config["max_iterations"],
        stop=config["stop"],
        symmetrise=config["symmetrise"],
    )


def run(
    job: str,
    config: Mapping[str, Any],
    seed: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> xr.Dataset:
    """Diagonalise the example and all matrices of all families in the arithmetic of one job."""
    recorder = Recorder(Arithmetic.of(job, config), options(config), config)
    total = 1 + len(config["families"]) * config["matrices"]
    if config["matrix_file"]:
        example, label = load_matrix(config["matrix_file"]), f"matrix from {config['matrix_file']}"
    else:
        family = FAMILIES[config["example_family"]]
        number = seed + config["example_number"]
        example, label = family.matrix(number), f"{family.label}, seed {number}"
    recorder.example(example, label)
    done = 1
    for name in config["families"]:
        for number in range(config["matrices"]):
            if progress:
                progress(done, total, f"{job}, {name}, matrix {number}")
            recorder.matrix(name, seed + number, FAMILIES[name].matrix(seed + number))
            done += 1
    if progress:
        progress(total, total, job)
    return recorder.dataset(job)


def plot(
    results: Mapping[str, xr.Dataset], config: Mapping[str, Any]
) -> dict[str, Callable[[], Figure]]:
    """How to draw each figure."""
    from applications import _smd_figures

    return _smd_figures.draw(results, config)
