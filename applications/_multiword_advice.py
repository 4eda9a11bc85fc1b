"""Advice: how many words a core needs for given matrices and a tolerance."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: 8 words of e5m2 have 24 bits, as the accumulator has; wider formats need fewer.
MOST_WORDS = 8


@dataclass(frozen=True)
class Advice:
    """What a core needs, or the best it can do.

    Attributes
    ----------
    core : str
    words : int
        Fewest words that meet the tolerance; where none do, those with the smallest error.
    error : float
        With that many words.
    split : float
        The same with products summed exactly: what the words alone cost.
    met : bool
        Whether the tolerance is met.
    """

    core: str
    words: int
    error: float
    split: float
    met: bool

    @property
    def products(self) -> int:
        """Matrix products on the core."""
        return self.words * (self.words + 1) // 2


def advise(
    a: ArrayLike,
    b: ArrayLike,
    tolerance: float,
    cores: Mapping[str, Sequence[str]],
    *,
    componentwise: bool = False,
) -> list[Advice]:
    """Find the number of words that each core needs, by multiplying.

    Parameters
    ----------
    a, b : array_like
        Shapes (m, n) and (n, q), finite real numbers.
    tolerance : float
        Positive; for the error as Figures 4 to 6 have it, ``||C - AB|| / (||A|| ||B||)`` in the
        infinity norm, or the largest ``|C - AB|_ij / (|A| |B|)_ij`` with `componentwise`.
    cores : mapping
        Names of cores by format of the words (fp16, bf16, e5m2).
    componentwise : bool

    Returns
    -------
    list of Advice
        One per core, in the given order.

    Raises
    ------
    ValueError
        Shapes that do not match, entries that are not finite, a tolerance that is not positive.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; a positive number is needed")
    a, b = _checked(a, "A"), _checked(b, "B")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"A has shape {a.shape} and B {b.shape}: the inner dimensions differ")
    return [
        advice
        for fmt, names in cores.items()
        for advice in _of_format(a, b, tolerance, fmt, names, componentwise)
    ]


def _checked(x: ArrayLike, name: str) -> NDArray[np.float64]:
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} is a {x.ndim}-dimensional array of {x.dtype}; a real matrix is needed"
        )
    x = np.asfortranarray(x, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(x))
    if bad.size:
        i, k = map(int, bad[0])
        raise ValueError(f"{name}[{i}, {k}] is {x[i, k]}: words cannot hold it")
    return x


def _of_format(a, b, tolerance, name, cores, componentwise) -> list[Advice]:
    """Advice on the cores that take words in one format."""
    from applications._multiword_algorithm import (
        exact_products,
        scaled_products,
        scales,
        split_pair,
    )
    from applications._multiword_reference import reference
    from applications._multiword_runs import engine
    from mfmamodels import get_format

    fmt = get_format(name)
    exponents = scales(a, b, fmt)
    ref = reference(a, b, *exponents)
    measure = ref.componentwise if componentwise else ref.normwise
    words = split_pair(a, b, fmt, MOST_WORDS, "rne", exponents)
    best: dict[str, Advice] = {}
    for core in map(engine, cores):
        own = words.converted(core.inputs)
        for p in range(1, MOST_WORDS + 1):
            (product,) = scaled_products(own, [p], [core])[p]
            split, error = (
                measure(ref.difference(c.astype(np.float64)))
                for c in (exact_products(own, [p])[p], product)
            )
            if core.name not in best or error < best[core.name].error:
                best[core.name] = Advice(core.name, p, error, split, error <= tolerance)
            # Where the split errs far less than the core's sums, further words change nothing.
            if best[core.name].met or split < error / 100:
                break
    return [best[core] for core in cores]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command line that ask for advice."""
    group = parser.add_argument_group(
        "advice on matrices of your own (multiword)",
        "say how many words each core needs to multiply A by B",
    )
    group.add_argument("--matrices", metavar="AB.npz", help="numpy file with matrices A and B")
    group.add_argument("--tolerance", type=float, metavar="T", help="for the relative error")
    group.add_argument(
        "--componentwise",
        action="store_true",
        help="largest |C - AB| / (|A| |B|) instead of the norm-wise error of Figures 4 to 6",
    )
    group.add_argument(
        "--cores",
        nargs="+",
        metavar="CORE",
        help="cores such as MI300X/fp16 (default: those of the study's configuration)",
    )


def main(options: argparse.Namespace, config: Mapping[str, Any]) -> int | None:
    """Print advice if matrices were given.

    Returns
    -------
    int or None
        0 if every core meets the tolerance, 1 if not; None without ``--matrices``.
    """
    if options.matrices is None:
        for option in ("tolerance", "cores", "componentwise"):
            if getattr(options, option):
                raise ValueError(f"--{option} needs --matrices")
        return None
    if options.tolerance is None:
        raise ValueError("--matrices needs --tolerance")
    a, b = load(options.matrices)
    cores = {name: of_format["cores"] for name, of_format in config["formats"].items()}
    if options.cores:
        cores = by_format(options.cores)
    found = advise(a, b, options.tolerance, cores, componentwise=options.componentwise)
    print(table(found))
    return 0 if all(advice.met for advice in found) else 1


def by_format(names: Iterable[str]) -> dict[str, list[str]]:
    """Group cores by the format of the words they take."""
    from applications._multiword_published import MODELS
    from mfmamodels import core

    found: dict[str, list[str]] = {}
    for name in names:
        inputs = core(name).a.name.removesuffix("fnuz")
        if inputs not in MODELS:
            raise ValueError(f"{name}: words are in {', '.join(MODELS)}; this core takes {inputs}")
        found.setdefault(inputs, []).append(name)
    return found


def load(path: str | Path) -> tuple[NDArray, NDArray]:
    """Matrices A and B of a numpy file.

    Raises
    ------
    ValueError
        The file is not an npz file, or has no arrays of these names.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            given = {name.upper(): file[name] for name in file.files}
    except (TypeError, AttributeError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a readable npz file of numbers ({error})") from error
    missing = [name for name in ("A", "B") if name not in given]
    if missing:
        raise ValueError(
            f"{path} holds {', '.join(given) or 'nothing'}; A and B are needed: "
            "numpy.savez(path, A=..., B=...)"
        )
    return given["A"], given["B"]


def table(advice: Sequence[Advice]) -> str:
    """Advice as text, a line per core."""
    width = max([len("core"), *(len(line.core) for line in advice)])
    lines = [f"{'core':{width}}  words  products  error     split alone"]
    for line in advice:
        note = "" if line.met else "  tolerance not met: the smallest error"
        lines.append(
            f"{line.core:{width}}  {line.words:5}  {line.products:8}  {line.error:8.2e}  "
            f"{line.split:8.2e}{note}"
        )
    return "\n".join(lines)
