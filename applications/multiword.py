"""Multi-word matrix multiplication: Figures 4 to 6 and the claims of section 8.1.

Binary64 matrices are split into words of a low-precision format, and the products of words are
summed in a matrix core's binary32 accumulator. How large is the error as the inner dimension grows?

Two ways lead to an answer. The *published* way repeats the published experiment: its random
numbers, and its words, which were truncated by accident. The *default* way rounds the words to
nearest, as the method demands, and draws the data anew for every point, several times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from applications._multiword_advice import add_arguments, main
from applications._multiword_figures import CAPTIONS, names
from applications._multiword_published import MODELS, SIZES, WORDS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = [
    "CAPTIONS",
    "SCHEMA",
    "TITLE",
    "add_arguments",
    "claims",
    "compare_published",
    "figures",
    "jobs",
    "main",
    "plot",
    "run",
]

TITLE = "Multi-word matrix multiplication: error against inner dimension (Figures 4 to 6)"

_PUBLISHED = ":published"
_INT8 = "int8"


def _format_schema(name: str) -> dict[str, Any]:
    final = [c.removesuffix(":rd31") for c in MODELS[name].values()]
    properties = {
        "words": {
            "description": "Numbers of words p.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 8},
            "minItems": 1,
            "uniqueItems": True,
            "default": list(WORDS[name]),
        },
        "cores": {
            "description": "Cores to compare in the default way; they take words in this format.",
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "uniqueItems": True,
            "default": final,
        },
    }
    return {
        "description": f"Words in {name}.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "default": {},
    }


SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "ways": {
            "description": "published: the published experiment; default: words rounded to "
            "nearest and data drawn anew for every point.",
            "type": "array",
            "items": {"enum": ["published", "default"]},
            "minItems": 1,
            "uniqueItems": True,
            "default": ["published", "default"],
        },
        "sizes": {
            "description": "Inner dimensions n; the published way takes those of the paper's.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 10_000_000},
            "minItems": 1,
            "uniqueItems": True,
            "default": list(SIZES),
        },
        "draws": {
            "description": "Independent draws of the data per size up to n = 100000, in the "
            "default way.",
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 9,
        },
        "draws_large": {
            "description": "The same for larger sizes, where it is fewer.",
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 3,
        },
        "decades": {
            "description": "Spread of the entries' magnitudes in decades, in the default way.",
            "type": "number",
            "minimum": 0,
            "maximum": 200,
            "default": 20,
        },
        "split_rounding": {
            "description": "Rounding of the words in the default way: rne (to nearest) or rtz.",
            "enum": ["rne", "rtz"],
            "default": "rne",
        },
        "order": {
            "description": "Order of the products of words in the default way: as published, the "
            "smallest first, or each with an accumulator of its own.",
            "enum": ["largest first", "smallest first", "separate"],
            "default": "largest first",
        },
        "promotion": {
            "description": "Add the accumulator to a binary32 sum, and restart it, every so many "
            "products; 0 for never. Default way only.",
            "type": "integer",
            "minimum": 0,
            "default": 0,
        },
        "slices": {
            "description": "Numbers of int8 slices of Ozaki's scheme I, in the default way.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 9},
            "minItems": 1,
            "uniqueItems": True,
            "default": [2, 3, 4, 5],
        },
        "formats": {
            "description": "Formats of the words, each with its numbers of words and its cores.",
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _format_schema(name) for name in MODELS},
            "default": {},
        },
    },
}


def jobs(config: dict[str, Any]) -> list[str]:
    """One job per format and way, so that the cores share data and words; the longest first."""
    _check(config)
    names = []
    for name in ("e5m2", "fp16", "bf16"):
        if "published" in config["ways"] and _published_cores(name, config):
            names.append(name + _PUBLISHED)
        if "default" in config["ways"]:
            names.append(name)
    return [*names, _INT8] if "default" in config["ways"] else names


def run(job: str, config: dict[str, Any], seed: int, progress: Any = None) -> xr.Dataset:
    """Compute one format of words in one of the two ways; see :mod:`._multiword_runs`."""
    from applications import _multiword_runs as runs

    if job == _INT8:
        return runs.run_ozaki(config, seed, progress)
    if job.endswith(_PUBLISHED):
        name = job.removesuffix(_PUBLISHED)
        return runs.run_published(name, config["sizes"], _published_cores(name, config), progress)
    cores = config["formats"][job]["cores"]
    return runs.run_default(job, config, cores, seed, progress)


def figures(config: dict[str, Any]) -> list[str]:
    """Figures 4 to 6 in each way, and one on the causes of the error."""
    return names(jobs(config))


def plot(results: dict[str, xr.Dataset], config: dict[str, Any]) -> dict[str, Callable[[], Figure]]:
    """How to draw each of them from the results."""
    from applications._multiword_figures import draw

    return draw(results)


def claims(results: dict[str, xr.Dataset], config: dict[str, Any]) -> list[dict[str, Any]]:
    """The claims of section 8.1, judged by number."""
    from applications._multiword_claims import judge_all

    return judge_all(results)


def compare_published(
    results: dict[str, xr.Dataset], folder: str | Path, config: dict[str, Any]
) -> list[tuple[str, int, str, float]]:
    """Pair the published errors with ours: (file, n, published, ours)."""
    from applications._multiword_published import compare

    by_format = {
        job.removesuffix(_PUBLISHED): data
        for job, data in results.items()
        if job.endswith(_PUBLISHED)
    }
    return compare(by_format, Path(folder))


def _published_cores(name: str, config: dict[str, Any]) -> list[str]:
    """Cores of the published experiment that the configuration asks for, at its sizes."""
    if not set(SIZES) & set(config["sizes"]):
        return []
    wanted = config["formats"][name]["cores"]
    return [c for c in MODELS[name].values() if c.removesuffix(":rd31") in wanted]


def _check(config: dict[str, Any]) -> None:
    """Refuse what cannot be computed, such as cores that do not take the words, before it runs."""
    from mfmamodels import core

    for name, options in config["formats"].items():
        for wanted in options["cores"]:
            inputs = core(wanted)
            taken = {inputs.a.name.removesuffix("fnuz"), inputs.b.name.removesuffix("fnuz")}
            if taken != {name} or inputs.out.name != "fp32":
                raise ValueError(
                    f"formats.{name}.cores: {wanted} takes {inputs.inputs} and gives "
                    f"{inputs.out}; a core for {name} words with fp32 results is needed"
                )
