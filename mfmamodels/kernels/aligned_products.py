"""The products of an aligned sum, as the code of a block function reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir
from numba.core import cgutils

from mfmamodels.kernels import emit
from mfmamodels.kernels.emit import Lanes, maximum
from mfmamodels.kernels.lanes import LANES

_WORD = ir.IntType(64)
Range = tuple[int, int, int]  # places in the order of summation: first, last, step


@dataclass(frozen=True)
class Products:
    """The products of one group in a vector of lanes, in the code being written.

    ``a``, ``b`` point to the first product's values, ``ea``, ``eb`` to its exponents; ``lda`` and
    ``ldb`` lead from product to product. With ``dots`` every lane has its own ``a``. ``order``
    gives the product at each place of the summation (empty: as they come).
    """

    builder: ir.IRBuilder
    a: ir.Value
    ea: ir.Value
    b: ir.Value
    eb: ir.Value
    lda: ir.Value
    ldb: ir.Value
    dots: bool
    exponent_kind: str
    order: tuple[int, ...]

    def _read(self, which: str, index: ir.Value, kind: str, count: int = LANES) -> Lanes:
        pointer = getattr(self, which)
        if which[-1] == "b":
            return emit.load(self.builder, pointer, self.builder.mul(index, self.ldb), kind, count)
        if self.dots:
            return emit.load(self.builder, pointer, self.builder.mul(index, self.lda), kind, count)
        return emit.broadcast(self.builder, pointer, index, kind, count)

    def _index(self, place: int) -> ir.Value:
        return _WORD(self.order[place] if self.order else place)

    def exponent(self, index: ir.Value, count: int = LANES) -> Lanes:
        """Exponent of a product, in the panels' own kind."""
        e = self._read("ea", index, self.exponent_kind, count)
        return e + self._read("eb", index, self.exponent_kind, count)

    def value(self, index: ir.Value, kind: str = "f32") -> Lanes:
        """A product, exact."""
        return self._read("b", index, "f32").to(kind) * self._read("a", index, "f32").to(kind)

    def largest_exponent(self, places: Range, count: int) -> Lanes:
        """Largest exponent of the products at these places, in the panels' own kind."""
        exponents = (self.exponent(self._index(place), count) for place in range(*places))
        e = next(exponents)
        for other in exponents:
            e = maximum(e, other)
        return e

    def sum(self, places: Range, scale: Lanes) -> Lanes:
        """Sum over these places of products times ``scale``, each truncated to an integer."""
        aligned = ((self.value(self._index(place)) * scale).to("i32") for place in range(*places))
        total = next(aligned)
        for other in aligned:
            total = total + other
        return total

    def fold(
        self, places: Range, start: tuple[Lanes, ...], step: Callable[..., tuple[Lanes, ...]]
    ) -> tuple[Lanes, ...]:
        """Loop over these places: ``state = step(index, *state)``, written once, run for each."""
        builder = self.builder
        cells = [cgutils.alloca_once_value(builder, x.value) for x in start]
        table = None
        if self.order:
            array = ir.Constant(ir.ArrayType(_WORD, len(self.order)), self.order)
            table = cgutils.global_constant(builder.module, "order", array)
        first, last, stride = (_WORD(x) for x in places)
        with cgutils.for_range_slice(builder, first, last, stride, _WORD) as (place, _):
            index = place
            if table is not None:
                index = builder.load(builder.gep(table, [_WORD(0), place]))
            state = step(
                index, *(x.like(builder.load(cell)) for x, cell in zip(start, cells, strict=True))
            )
            for x, cell in zip(state, cells, strict=True):
                builder.store(x.value, cell)
        return tuple(x.like(builder.load(cell)) for x, cell in zip(start, cells, strict=True))
