"""Sequential matrix diagonalisation (SMD): the polynomial eigenvalue decomposition of section 8.2.

For a parahermitian R(z) it finds a paraunitary Q(z), Q Q~ = I, with D(z) = Q(z) R(z) Q~(z) nearly
diagonal and its diagonal spectrally majorised; R = Q~ D Q. Eigenvectors are the *rows* of Q.

One iteration takes the off-diagonal column of largest energy over all lags, brings it to lag 0 by a
delay of one channel (numbers only move), diagonalises lag 0 by an ordered eigenvalue decomposition
V and applies V^H . V to all lags and V^H to all taps of Q. Only these three products are GEMMs;
they go through the `matmul` that the caller gives, batched over all lags into one call each:

    W = V^H [R[-L] .. R[L]],   [W[-L]; ..; W[L]] V,   V^H [Q[0] .. Q[N-1]].

All have an inner dimension of M, the number of channels, so each output element is one dot product
of length M. (V^H R) V and V^H (R V) differ in the last bits; the first is computed.

Reference: S. Redif, S. Weiss, J. G. McWhirter, "Sequential matrix diagonalisation algorithms for
polynomial EVD of parahermitian matrices", IEEE Transactions on Signal Processing 63(1), 81-89,
2015, doi:10.1109/TSP.2014.2367460.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from applications._polynomial import (
    Array,
    as_parahermitian,
    off_diagonal_squares,
    order_kept,
    resize_centred,
    shift_row,
    shift_similarity,
    squared,
    symmetrise,
    taps_kept,
)

Matmul = Callable[[Array, Array], Array]

STOPPING_RULES = {
    "energy": "off-diagonal energy / total energy < epsilon",
    "column": "largest off-diagonal column norm < epsilon (absolute)",
    "relative-column": "largest off-diagonal column norm < epsilon * norm of the given matrix",
    "element": "largest off-diagonal magnitude < epsilon (absolute)",
}


@dataclass(frozen=True)
class Options:
    """Parameters of the algorithm; the defaults are those of section 8.2.

    Attributes
    ----------
    epsilon
        Threshold of the stopping rule.
    mu
        Share of the energy that each trim of D and of Q may cut off; 0 cuts exact zeros only.
    max_iterations
        Number of updates after the initial one at lag 0.
    stop
        Which quantity is compared with epsilon; a key of `STOPPING_RULES`. The paper says
        "off-diagonal energy threshold" and not which energy; "energy" is the scale-free reading.
    symmetrise
        Replace R by (R + R~) / 2 in every iteration. Without it a rounded D is no longer
        parahermitian.
    """

    epsilon: float = 1e-4
    mu: float = 1e-4
    max_iterations: int = 250
    stop: str = "energy"
    symmetrise: bool = True

    def __post_init__(self) -> None:
        if self.stop not in STOPPING_RULES:
            raise ValueError(
                f"unknown stopping rule {self.stop!r}; there are {', '.join(STOPPING_RULES)}"
            )
        if not 0 <= self.mu < 1:
            raise ValueError(f"mu is a share of the energy, at least 0 and below 1; got {self.mu}")
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0; got {self.epsilon}")
        if self.max_iterations < 0:
            raise ValueError(f"max_iterations must be at least 0; got {self.max_iterations}")


@dataclass(frozen=True)
class Decision:
    """What one iteration decides; enough to repeat its GEMMs in another arithmetic."""

    rotation: Array  # V, shape (M, M), in double
    lag: int = 0
    column: int = 0
    order: int = 0  # lags -order .. order of D stay
    taps: tuple[int, int] = (0, 1)  # taps first .. stop - 1 of Q stay


@dataclass
class History:
    """One row per state examined: row i is the state after i updates, before update i + 1."""

    lag: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    column_norm: list[float] = field(default_factory=list)
    off_diagonal: list[float] = field(default_factory=list)  # share of the total energy
    lags: list[int] = field(default_factory=list)
    taps: list[int] = field(default_factory=list)
    macs: list[int] = field(default_factory=list)  # real multiply-adds spent so far


@dataclass(frozen=True)
class Result:
    """What SMD returns.

    Attributes
    ----------
    d, q
        The nearly diagonal centred matrix and the causal paraunitary one; of the last finite state.
    status
        "converged", "iteration limit", "replayed" or "non-finite".
    iterations
        Updates done after the initial one. For "non-finite": the update that failed, 0 being the
        initial one.
    decisions
        One per update, the initial one first; input for `replay`.
    history
        See `History`.
    """

    d: Array
    q: Array
    status: str
    iterations: int
    decisions: list[Decision]
    history: History

    @property
    def path(self) -> list[tuple[int, int]]:
        """(lag, column) of each update after the initial one."""
        return [(x.lag, x.column) for x in self.decisions[1:]]

    def digest(self, round_input: Callable[[Array], Array]) -> str:
        """Return a SHA-256 of the path and of all rotations, rounded as the GEMM gets them.

        The rotations come from the host's LAPACK; equal digests mean that it had no influence on
        the result.
        """
        digest = hashlib.sha256()
        for decision in self.decisions:
            digest.update(
                repr((decision.lag, decision.column, decision.order, decision.taps)).encode()
            )
            # Adding 0.0 turns -0 into +0: the sign of a zero cannot move a result.
            digest.update(
                np.ascontiguousarray(round_input(decision.rotation) + 0.0).astype("<c16").tobytes()
            )
        return digest.hexdigest()


class _NonFinite(ArithmeticError):
    """A product is infinite or NaN."""


def rotation(r0: Array) -> Array:
    """Return the eigenvectors of the Hermitian part of `r0` as columns, eigenvalues decreasing.

    The sign (phase) of each is pinned: its entry of largest magnitude, the first on ties, is
    positive. A core that rounds down is not symmetric in sign, so the result would otherwise depend
    on the LAPACK in use.
    """
    values, vectors = np.linalg.eigh((r0 + r0.conj().T) / 2)
    vectors = vectors[:, np.argsort(-values, kind="stable")]
    pivots = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(r0))]
    return vectors * (pivots.conj() / np.abs(pivots))


def _finite(product: Array) -> Array:
    if not np.isfinite(product).all():
        raise _NonFinite
    return product


def _rotate(d: Array, q: Array, v: Array, matmul: Matmul) -> tuple[Array, Array]:
    """Return V^H D V and V^H Q: the GEMMs, three calls, each over all lags at once."""
    m = len(v)
    vh = np.ascontiguousarray(v.conj().T)
    # W leaves the first product in the memory order that the second one reads: (row, lag) x column.
    w = _finite(matmul(vh, d.transpose(1, 0, 2).reshape(m, -1)))
    d = _finite(matmul(w.reshape(-1, m), v)).reshape(m, -1, m).transpose(1, 0, 2)
    q = (
        _finite(matmul(vh, q.transpose(1, 0, 2).reshape(m, -1)))
        .reshape(m, -1, m)
        .transpose(1, 0, 2)
    )
    return d, q


@dataclass
class _State:
    """D and Q between two iterations, and the record of how they came about."""

    d: Array
    q: Array
    options: Options
    round_state: Callable[[Array], Array]
    decisions: list[Decision] = field(default_factory=list)
    history: History = field(default_factory=History)
    macs: int = 0

    def __post_init__(self) -> None:
        self.given_norm = float(np.sqrt(squared(self.d).sum()))

    def examine(self) -> tuple[int, int, bool]:
        """Return (lag, column, diagonal enough?) and write a row of the history.

        The column is the one of largest off-diagonal energy over all lags; ties go to the smallest
        lag, then to the smallest column.
        """
        squares = off_diagonal_squares(self.d)
        columns = squares.sum(axis=1)
        position = int(columns.argmax())  # the first maximum in the order (lag, column)
        lag, column = position // columns.shape[1] - len(self.d) // 2, position % columns.shape[1]
        norm = float(np.sqrt(columns.flat[position]))
        off, total = float(columns.sum()), float(squared(self.d).sum())
        if not np.isfinite(total):
            raise _NonFinite
        history = self.history
        history.lag.append(lag)
        history.column.append(column)
        history.column_norm.append(norm)
        history.off_diagonal.append(off / total if off else 0.0)
        history.lags.append(len(self.d))
        history.taps.append(len(self.q))
        history.macs.append(self.macs)
        measured = {
            "energy": (off, total),
            "column": (norm, 1.0),
            "relative-column": (norm, self.given_norm),
            "element": (float(np.sqrt(squares.max())), 1.0),
        }
        value, unit = measured[self.options.stop]
        # A diagonal matrix is done by every rule, with epsilon = 0 too, and when it is zero.
        return lag, column, value < self.options.epsilon * unit or norm == 0.0

    def update(self, lag: int, column: int, matmul: Matmul, plan: Decision | None) -> None:
        """Delay, rotate and trim; decide the rotation and the trims here unless there is a plan."""
        d, q = shift_similarity(self.d, lag, column), shift_row(self.q, lag, column)
        v = plan.rotation if plan else rotation(d[len(d) // 2])
        m = len(v)
        # A complex product is four real ones.
        self.macs += (4 if np.iscomplexobj(d) else 1) * m**3 * (2 * len(d) + len(q))
        d, q = _rotate(d, q, v, matmul)
        if not self.decisions:  # nothing is trimmed before the first delay
            order, taps = len(d) // 2, (0, 1)
        elif plan:
            order, taps = plan.order, plan.taps
        else:
            order, taps = order_kept(d, self.options.mu), taps_kept(q, self.options.mu)
        d, q = resize_centred(d, order), q[slice(*taps)]
        if self.options.symmetrise:
            d = symmetrise(d)
        self.d, self.q = self.round_state(d), self.round_state(q)
        self.decisions.append(Decision(v, lag, column, order, taps))

    def result(self, status: str, iterations: int) -> Result:
        return Result(self.d, self.q, status, iterations, self.decisions, self.history)


def smd(
    r: Array,
    matmul: Matmul = np.matmul,
    options: Options = Options(),
    *,
    initial_matmul: Matmul | None = None,
    round_state: Callable[[Array], Array] | None = None,
    replay: Sequence[Decision] | None = None,
) -> Result:
    """Diagonalise a parahermitian polynomial matrix.

    Parameters
    ----------
    r
        Shape (2 L + 1, M, M), lags -L .. L, real or complex; finite and parahermitian.
    matmul
        Two-dimensional product used for the updates: (M, M) x (M, n) and (n, M) x (M, M). It must
        take complex operands if `r` is complex.
    options
        See `Options`.
    initial_matmul
        Product used for the eigenvalue decomposition of R[0] before the first iteration; `matmul`
        if not given.
    round_state
        Applied to D and Q as they are kept between iterations; nothing is rounded if not given.
        Delays only move numbers, and the search, the trims and the eigenvalue decompositions are
        always in double.
    replay
        Decisions of an earlier run: delays, rotations and trims are taken from there, and nothing
        is decided here. What still differs from that run is then plain rounding, without any
        divergence of paths.

    Returns
    -------
    Result
        A product that overflows ends the run with the status "non-finite"; it is not an exception.

    Raises
    ------
    ValueError, TypeError
        If `r` is not a parahermitian matrix of finite numbers (see `as_parahermitian`).
    """
    d = as_parahermitian(r)
    q = np.eye(d.shape[1], dtype=d.dtype)[None]
    limit = options.max_iterations if replay is None else len(replay) - 1
    iteration = 0
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is a status here, not a warning
        state = _State(d, q, options, round_state or (lambda x: x))
        try:
            state.update(0, 0, initial_matmul or matmul, replay[0] if replay else None)
            while True:
                lag, column, done = state.examine()
                if replay is None and done:
                    return state.result("converged", iteration)
                if iteration == limit:
                    return state.result("replayed" if replay else "iteration limit", iteration)
                iteration += 1
                plan = replay[iteration] if replay else None
                if plan:
                    lag, column = plan.lag, plan.column
                state.update(lag, column, matmul, plan)
        except _NonFinite:
            return state.result("non-finite", iteration)
