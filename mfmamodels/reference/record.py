"""What a dot product did on its way, for whoever asks: see :func:`mfmamodels.trace.trace`.

The reference calls :func:`note` at every step. Unless a recorder is open, that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from mpmath import mpf


class Item(NamedTuple):
    """One number of a step: as it was, and as it was kept."""

    label: str
    exact: mpf
    kept: mpf
    exponent: int | None = None  #: of its un-normalised significand


@dataclass(frozen=True)
class Step:
    """One step of a dot product.

    Attributes
    ----------
    what : str
        "block", "products", "special", "align", "join", "shift c", "drop c", "shift sum", "sum",
        "second rounding", "round", "multiply", "add", "multiply-add", "flush", "last c".
    items : tuple of Item
    exponent : int or None
        Exponent the numbers are aligned to: the weight of the binary point.
    quantum : int or None
        Every kept number is a multiple of 2**quantum; None where nothing is rounded.
    rounding : str
        Direction of the rounding, empty where there is none.
    """

    what: str
    items: tuple[Item, ...]
    exponent: int | None = None
    quantum: int | None = None
    rounding: str = ""


_STEPS: ContextVar[list[Step] | None] = ContextVar("steps", default=None)


@contextmanager
def recorder() -> Iterator[list[Step]]:
    """Collect the steps of dot products computed inside."""
    steps: list[Step] = []
    token = _STEPS.set(steps)
    try:
        yield steps
    finally:
        _STEPS.reset(token)


def note(
    what: str,
    labels: str | Sequence[str],
    exact: Sequence[mpf],
    kept: Sequence[mpf] | None = None,
    *,
    exponents: Sequence[int] | None = None,
    exponent: int | None = None,
    quantum: int | str | None = None,
    rounding: str = "",
) -> None:
    """Record a step; ``labels`` is one label per number, or one to be counted: p1, p2, ..."""
    steps = _STEPS.get()
    if steps is None:
        return
    if isinstance(labels, str):
        labels = [f"{labels}{i}" for i in range(1, len(exact) + 1)]
    found = exponents if exponents is not None else [None] * len(exact)
    items = zip(labels, exact, exact if kept is None else kept, found, strict=True)
    if not isinstance(quantum, int):  # an unlimited width rounds nothing
        quantum, rounding = None, ""
    steps.append(Step(what, tuple(Item(*item) for item in items), exponent, quantum, str(rounding)))
