"""Where two cores give different words, how far apart, and which numerical feature explains it.

An *experiment* is anything that turns a core into arrays: a plain matrix product
(:func:`gemm_experiment`) or a study. Cores are compared in pairs; for a pair, siblings of the first
with one feature of the second at a time show which feature matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfmamodels.core import Core
from mfmamodels.siblings import change, differences

#: Turns a core into named arrays of numbers, the same shapes for every core.
Experiment = Callable[[Core], Mapping[str, NDArray]]


@dataclass(frozen=True)
class Distance:
    """How two arrays differ. Differences are relative to the scale of the comparison.

    Attributes
    ----------
    words, differing : int
        Numbers compared, and how many have different bits.
    largest, rms, mean : float
        Largest absolute, root-mean-square and mean signed difference, second minus first.
    """

    words: int
    differing: int
    largest: float
    rms: float
    mean: float


@dataclass(frozen=True)
class Explanation:
    """Effect of giving the first core one feature of the second.

    Attributes
    ----------
    feature, first, second : str
        The feature and its two values.
    changed : float
        Share of words that change when only this feature does.
    remaining : float or None
        Share of words that still differ from the second core; None where no such sibling exists.
    """

    feature: str
    first: str
    second: str
    changed: float | None = None
    remaining: float | None = None


@dataclass(frozen=True)
class Pair:
    """Comparison of two cores on one experiment."""

    first: str
    second: str
    distances: dict[str, Distance]
    explanations: list[Explanation] = field(default_factory=list)

    @property
    def differing(self) -> float:
        """Share of all words that differ."""
        words = sum(d.words for d in self.distances.values())
        return sum(d.differing for d in self.distances.values()) / words if words else 0.0

    @property
    def tolerance(self) -> float:
        """Smallest power of two that is twice the largest difference or more; 0 if there is none.

        Whoever tests one device against the other should allow this much, on this scale.
        """
        largest = max((d.largest for d in self.distances.values()), default=0.0)
        if not np.isfinite(largest):
            return float("inf")
        return float(2.0 ** (np.ceil(np.log2(largest)) + 1)) if largest else 0.0

    @property
    def verdict(self) -> str:
        """What the difference is, in a sentence."""
        if self.differing == 0:
            return "no difference: these results cannot tell the two apart"
        if not any(e.remaining is not None for e in self.explanations):
            return "different formats or kinds of accumulation: differences of this size are theirs"
        best = min((e for e in self.explanations if e.remaining is not None),
                   key=lambda e: e.remaining)  # type: ignore[arg-type,return-value]  # fmt: skip
        if best.remaining == 0:
            return f"arithmetic: {best.feature} ({best.first} against {best.second}) explains all"
        if best.remaining is not None and best.remaining < 0.5 * self.differing:
            share = 1 - best.remaining / self.differing
            return (
                f"arithmetic: {best.feature} ({best.first} against {best.second}) explains most, "
                f"{share:.0%} of the words"
            )
        return "arithmetic: several features together; none alone explains half of the words"


def compare(
    experiment: Experiment,
    cores: Sequence[Core],
    *,
    scale: Mapping[str, NDArray | float] | None = None,
    explain: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Pair]:
    """Compare every pair of cores on an experiment.

    Parameters
    ----------
    experiment : callable
        Core to named arrays.
    cores : sequence of Core
        At least two, of different names.
    scale : mapping, optional
        What differences are divided by, per array; by default the largest finite magnitude of
        the first core's array.
    explain : bool
        Whether to run siblings (as many experiments again as features differ).
    progress : callable, optional
        Called with (done, total, text).

    Returns
    -------
    list of Pair

    Raises
    ------
    ValueError
        With fewer than two cores, or one of them twice.
    """
    names = [c.name for c in cores]
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"a comparison needs at least two different cores, not {', '.join(names)}")
    pairs = list(combinations(cores, 2))
    results = {}
    total = len(cores) + (len(pairs) if explain else 0)
    for done, core in enumerate(cores):
        results[core.name] = experiment(core)
        if progress:
            progress(done + 1, total, core.name)
    found = []
    for done, (first, second) in enumerate(pairs, len(cores)):
        ours, theirs = results[first.name], results[second.name]
        explanations = _explain(experiment, first, second, ours, theirs) if explain else []
        found.append(Pair(first.name, second.name, _distances(ours, theirs, scale), explanations))
        if progress and explain:
            progress(done + 1, total, f"{first.name} against {second.name}")
    return found


def _distances(
    ours: Mapping[str, NDArray], theirs: Mapping[str, NDArray], scale: Mapping[str, Any] | None
) -> dict[str, Distance]:
    return {
        name: distance(ours[name], theirs[name], None if scale is None else scale.get(name))
        for name in ours
        if name in theirs
    }


def distance(x: NDArray, y: NDArray, scale: NDArray | float | None = None) -> Distance:
    """Compare two arrays of one shape bit for bit and by size.

    Words that are NaN or infinite on either side count as differing if their bits do, and make the
    largest difference infinite unless both are the same.
    """
    if x.shape != y.shape:
        raise ValueError(f"results of shapes {x.shape} and {y.shape} cannot be compared")
    if x.dtype != y.dtype:
        x, y = x.astype(np.float64), y.astype(np.float64)
    bits = f"u{x.dtype.itemsize}"
    different = np.ascontiguousarray(x).view(bits) != np.ascontiguousarray(y).view(bits)
    x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if scale is None:
            magnitudes = np.abs(x[np.isfinite(x)])
            scale = float(magnitudes.max(initial=0.0)) or 1.0
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, (y - x) / scale)
    finite = apart[np.isfinite(apart)]
    largest = float(np.abs(finite).max(initial=0.0)) if finite.size == apart.size else np.inf
    rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    mean = float(np.mean(finite)) if finite.size else 0.0
    return Distance(x.size, int(different.sum()), largest, rms, mean)


def _share(ours: Mapping[str, NDArray], theirs: Mapping[str, NDArray]) -> float:
    return Pair("", "", _distances(ours, theirs, None)).differing


def _explain(
    experiment: Experiment,
    first: Core,
    second: Core,
    ours: Mapping[str, NDArray],
    theirs: Mapping[str, NDArray],
) -> list[Explanation]:
    """Run the siblings of the first core that have one feature of the second."""
    found = []
    for feature, mine, other in differences(first, second):
        sibling = _sibling(first, feature, other)
        if sibling is None:
            found.append(Explanation(feature, mine, other))
            continue
        result = experiment(sibling)
        found.append(
            Explanation(feature, mine, other, _share(ours, result), _share(result, theirs))
        )
    return found


def _sibling(core: Core, feature: str, value: str) -> Core | None:
    """The sibling with one feature changed; None where that alone would be no core."""
    try:
        return change(core, feature, value)
    except ValueError:
        return None


# --- a plain matrix product ---------------------------------------------------------------------


@dataclass(frozen=True)
class Gemm:
    """Inputs of a product ``A @ B``, drawn once for all cores.

    Attributes
    ----------
    a, b : ndarray of float64
        Shapes (m, k) and (k, n).
    """

    a: NDArray[np.float64]
    b: NDArray[np.float64]

    @classmethod
    def random(cls, m: int, n: int, k: int, seed: int = 0, *, decades: float = 0.0) -> Gemm:
        """Normal random entries, spread over a number of decades where asked.

        Raises
        ------
        ValueError
            If a dimension is below one.
        """
        if min(m, n, k) < 1:
            raise ValueError(f"m, n and k are {m}, {n} and {k}; each must be at least 1")
        rng = np.random.default_rng(seed)
        a, b = (
            rng.standard_normal(shape) * 10.0 ** (decades * (rng.random(shape) - 0.5))
            for shape in ((m, k), (k, n))
        )
        return cls(a, b)

    def operands(self, core: Core) -> tuple[NDArray, NDArray]:
        """Inputs rounded to nearest to a core's formats (saturating)."""
        from mfmamodels.formats import round_to

        return (
            round_to(self.a, core.a, overflow="saturate"),
            round_to(self.b, core.b, overflow="saturate"),
        )

    @property
    def scale(self) -> NDArray[np.float64]:
        """``|A| @ |B|``: what rounding errors of a product are in proportion to."""
        return np.abs(self.a) @ np.abs(self.b)


def gemm_experiment(gemm: Gemm) -> Experiment:
    """The experiment that multiplies on a core."""
    return lambda core: {"D": core.matmul(*gemm.operands(core))}


@dataclass(frozen=True)
class Accuracy:
    """Error of a core's product against the exact product of its own (rounded) operands.

    Attributes
    ----------
    largest, rms, mean : float
        Of the signed errors, relative to ``|A| @ |B|``.
    inputs_to_zero : int
        Nonzero inputs that rounding to the format made zero.
    subnormal_inputs : int
        Inputs that are subnormal in the format; a core that flushes takes them for zero.
    products, lost_products : int
        Nonzero products, and those whose every bit was flushed or cut by alignment.
    """

    core: str
    largest: float
    rms: float
    mean: float
    inputs_to_zero: int
    subnormal_inputs: int
    products: int
    lost_products: int


def accuracy(core: Core, gemm: Gemm) -> Accuracy:
    """Measure one core on a product; see :class:`Accuracy`."""
    from mfmamodels.characterise.losses import lost_products

    a, b = gemm.operands(core)
    exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(exact_a) @ np.abs(exact_b)
    # Products of these formats are exact in float64, sums accurate to 2**-53: far below fp32.
    errors = core.matmul(a, b).astype(np.float64) - exact_a @ exact_b
    errors = np.divide(errors, scale, out=np.zeros_like(errors), where=scale > 0)
    products, lost = lost_products(core, a, b)
    return Accuracy(
        core.name,
        float(np.abs(errors).max(initial=0.0)),
        float(np.sqrt(np.mean(errors**2))),
        float(np.mean(errors)),
        int((((gemm.a != 0) & (exact_a == 0)).sum()) + ((gemm.b != 0) & (exact_b == 0)).sum()),
        sum(
            int(((x != 0) & (np.abs(x) < fmt.min_normal)).sum())
            for x, fmt in ((exact_a, core.a), (exact_b, core.b))
        ),
        products,
        lost,
    )


def as_dict(pair: Pair) -> dict[str, Any]:
    """A pair as JSON would have it."""
    return {
        **asdict(pair),
        "differing": pair.differing,
        "tolerance": pair.tolerance,
        "verdict": pair.verdict,
    }
