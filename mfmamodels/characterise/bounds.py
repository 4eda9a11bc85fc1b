"""What mismatches in an ensemble say about their probability (paper 5.4).

With a uniform prior, m mismatches in n independent rows leave the Beta(m + 1, n - m + 1) posterior
for the probability that a row of that sampler shows a mismatch.
"""

from __future__ import annotations

import math


def _check(rows: int, mismatches: int) -> None:
    if not 0 <= mismatches <= rows:
        raise ValueError(
            f"{mismatches} mismatches in {rows} rows; allowed: 0 to the number of rows"
        )


def upper_bound(rows: int, mismatches: int = 0, epsilon: float = 1e-6) -> float:
    """Probability of a mismatch that is exceeded with posterior probability ``epsilon`` only.

    Parameters
    ----------
    rows, mismatches : int
        Size of the ensemble and what was seen in it.
    epsilon : float
        Between 0 and 1.

    Returns
    -------
    float
        p_epsilon of 5.4: ``1 - epsilon**(1 / (rows + 1))`` where nothing was seen, otherwise the
        upper quantile of the posterior.

    Raises
    ------
    ValueError
        For impossible counts or an epsilon outside (0, 1).
    """
    _check(rows, mismatches)
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon is {epsilon}; allowed: between 0 and 1")
    if mismatches == 0:
        return -math.expm1(math.log(epsilon) / (rows + 1))
    return float(posterior(rows, mismatches).isf(epsilon))


def posterior(rows: int, mismatches: int):
    """Posterior of the probability of a mismatch, a frozen ``scipy.stats.beta``."""
    from scipy import stats  # half a second to import

    _check(rows, mismatches)
    return stats.beta(mismatches + 1, rows - mismatches + 1)


def expected_rows(rows: int, mismatches: int) -> float:
    """Expected number of rows up to and including the first mismatch.

    That is the posterior mean of 1/p; infinite where nothing was seen, since then arbitrarily
    small p are too likely.
    """
    _check(rows, mismatches)
    return (rows + 1) / mismatches if mismatches else math.inf


def rows_interval(rows: int, mismatches: int, level: float = 0.95) -> tuple[float, float]:
    """Central posterior interval of 1/p, the mean number of rows up to a mismatch."""
    low, high = posterior(rows, mismatches).interval(level)
    return 1.0 / float(high), 1.0 / float(low)


def predictive(rows: int, mismatches: int, later_rows: int, later: int) -> float:
    """Probability of exactly ``later`` mismatches in further rows of the same sampler."""
    from scipy import stats

    _check(rows, mismatches)
    _check(later_rows, later)
    distribution = stats.betabinom(later_rows, mismatches + 1, rows - mismatches + 1)
    return float(distribution.pmf(later))
