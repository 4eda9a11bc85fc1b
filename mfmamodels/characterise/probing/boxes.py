"""Black boxes: whatever answers dot products. A probe sees formats, lengths and answers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfmamodels.accumulation import Arithmetic
from mfmamodels.characterise.ensembles import Chunk
from mfmamodels.characterise.parties import Command, Function, Model, Party, PartyError
from mfmamodels.characterise.probing.rows import Queries
from mfmamodels.characterise.recorded import Recording
from mfmamodels.formats import Format, get_format


class BoxError(Exception):
    """A box that gave no usable answer: what happened, in one line."""


class Box(Protocol):
    """What a probe needs of a device.

    Attributes
    ----------
    name : str
    a, b, out : Format
        Formats of the operands, and of c and d.
    length : int or None
        Products in every query; None where any number is allowed.
    """

    name: str
    a: Format
    b: Format
    out: Format
    length: int | None

    def answer(self, queries: Queries) -> tuple[NDArray, NDArray[np.bool_]]:
        """Codes of d, and which queries were answered at all.

        Raises
        ------
        BoxError
            If the device failed.
        """


@dataclass(frozen=True)
class _Formats:
    """As much of a core as a party needs to know."""

    a: Format
    b: Format
    out: Format


@dataclass
class PartyBox:
    """A party of a validation (core, function, program) as a black box.

    Attributes
    ----------
    party : Party
    a, b, out : Format
    length : int or None
    most : int
        Rows given to the party at once.
    """

    party: Party
    a: Format
    b: Format
    out: Format
    length: int | None = None
    most: int = 50_000

    @property
    def name(self) -> str:
        """The party's."""
        return self.party.name

    def answer(self, queries: Queries) -> tuple[NDArray, NDArray[np.bool_]]:
        """Ask the party, a limited number of rows at a time."""
        formats: Any = _Formats(self.a, self.b, self.out)
        parts = []
        try:
            for first in range(0, len(queries[2]), self.most):
                some = (x[first : first + self.most] for x in queries)
                parts.append(self.party.answer(formats, Chunk(first, *some)))
        except PartyError as error:
            raise BoxError(str(error)) from error
        d = np.concatenate(parts)
        return d, np.ones(d.shape, bool)


def core_box(core: Arithmetic, backend: str = "kernels", length: int | None = None) -> PartyBox:
    """A core as a black box, on the kernels or on another backend ("reference")."""
    return PartyBox(Model(core, backend), core.a, core.b, core.out, length)


def function_box(
    dots: Callable[[NDArray, NDArray, NDArray], NDArray],
    inputs: str,
    out: str = "fp32",
    length: int | None = None,
    name: str = "function",
) -> PartyBox:
    """A Python callable on codes as a black box.

    Parameters
    ----------
    dots : callable
        ``dots(a, b, c) -> d`` with codes of shapes (rows, K), (rows, K), (rows,) and (rows,).
    inputs : str
        Format of the operands, or two of them: "e4m3fnuz/e5m2fnuz".
    out : str
    length : int, optional
        Products in every query, where the device has but one K.
    name : str
    """
    a, _, b = inputs.partition("/")
    formats = (get_format(a), get_format(b or a), get_format(out))
    return PartyBox(Function(dots, name), *formats, length)


def command_box(
    argv: Sequence[str] | str,
    inputs: str,
    out: str = "fp32",
    length: int | None = None,
    timeout: float = 600.0,
) -> PartyBox:
    """A program that reads and writes the public text format as a black box.

    Parameters
    ----------
    argv : sequence of str, or str
        Run as ``COMMAND A B C D``; see :class:`mfmamodels.characterise.parties.Command`.
    inputs, out, length
        As in :func:`function_box`.
    timeout : float
        Seconds for one run.
    """
    a, _, b = inputs.partition("/")
    formats = (get_format(a), get_format(b or a), get_format(out))
    return PartyBox(Command(argv, timeout), *formats, length)


@dataclass
class RecordedBox:
    """Recorded outputs: answers only for the rows that were recorded.

    Attributes
    ----------
    recording : Recording
    """

    recording: Recording
    _known: dict[bytes, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        r = self.recording
        self.name = f"recording {r.case}"
        self.a = self.b = r.inputs
        self.out = r.out
        self.length: int | None = r.a.shape[1]
        self._known = {key: i for i, key in enumerate(_keys(self.rows))}

    def answer(self, queries: Queries) -> tuple[NDArray, NDArray[np.bool_]]:
        """Look the rows up."""
        found = np.array([self._known.get(key, -1) for key in _keys(queries)], np.int64)
        d = np.where(found >= 0, self.recording.d[found], 0).astype(self.out.code_dtype)
        return d, found >= 0

    @property
    def rows(self) -> Queries:
        """The rows it can answer."""
        return self.recording.a, self.recording.b, self.recording.c


def _keys(queries: Queries) -> list[bytes]:
    a, b, c = queries
    return [x.tobytes() + y.tobytes() + z.tobytes() for x, y, z in zip(a, b, c, strict=True)]
