"""Writing SIMD code for kernels: vectors of lanes as Python values.

A kernel computes :data:`~mfmamodels.kernels.lanes.LANES` results at once. Its arithmetic is
ordinary Python over :class:`Lanes` values, run once, when the kernel is compiled: each operation
appends an LLVM instruction. So nothing is left to an optimiser's choice of what to vectorise, and
functions cost no compile time of their own. LLVM splits a vector into whatever registers the host
has (two AVX2 registers, four NEON ones).

Python numbers become vectors of that constant. Integers wrap; ``>>`` is arithmetic on signed
elements; a shift count must lie in ``0..bits-1``. Floating-point operations are single IEEE
operations: nothing here permits contraction or reassociation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir
from numba.core import cgutils

from mfmamodels.kernels.lanes import LANES

_ELEMENTS = {
    "mask": ir.IntType(1),
    "i8": ir.IntType(8),
    "i16": ir.IntType(16),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
    "u8": ir.IntType(8),
    "u16": ir.IntType(16),
    "u32": ir.IntType(32),
    "u64": ir.IntType(64),
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
}
_WORD = ir.IntType(64)


def vector_type(kind: str, count: int = LANES) -> ir.VectorType:
    """LLVM type of a vector of ``count`` lanes of that kind."""
    return ir.VectorType(_ELEMENTS[kind], count)


@dataclass(frozen=True, eq=False)
class Lanes:
    """A vector in the code being written.

    Attributes
    ----------
    builder : llvmlite.ir.IRBuilder
        Where instructions are appended.
    value : llvmlite.ir.Value
        The vector.
    kind : str
        ``mask``, ``i8`` ... ``i64``, ``u8`` ... ``u64``, ``f32`` or ``f64``.
    """

    builder: ir.IRBuilder
    value: ir.Value
    kind: str

    @property
    def count(self) -> int:
        """Number of lanes."""
        return self.value.type.count

    def like(self, value: ir.Value, kind: str | None = None) -> Lanes:
        """Another vector of this code."""
        return Lanes(self.builder, value, kind or self.kind)

    def constant(self, x: float | bool) -> Lanes:
        """Vector of this kind with ``x`` in every lane."""
        return full(self.builder, x, self.kind, self.count)

    def _with(self, other: Lanes | float | bool) -> ir.Value:
        if not isinstance(other, Lanes):
            return self.constant(other).value
        if other.kind != self.kind:
            raise TypeError(f"lanes of {self.kind} and of {other.kind}")
        return other.value

    def _arithmetic(self, other, of_float: str | None, of_integer: str) -> Lanes:
        name = of_float if self.kind[0] == "f" else of_integer
        return self.like(getattr(self.builder, name)(self.value, self._with(other)))

    def _compare(self, other, sign: str) -> Lanes:
        if self.kind[0] == "f":  # `!=` alone is true of a NaN, as in IEEE 754
            compare = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        elif self.kind[0] == "i":
            compare = self.builder.icmp_signed
        else:
            compare = self.builder.icmp_unsigned
        return self.like(compare(sign, self.value, self._with(other)), "mask")

    def __add__(self, other):
        return self._arithmetic(other, "fadd", "add")

    def __sub__(self, other):
        return self._arithmetic(other, "fsub", "sub")

    def __rsub__(self, other):
        return self.constant(other) - self

    def __mul__(self, other):
        return self._arithmetic(other, "fmul", "mul")

    def __and__(self, other):
        return self._arithmetic(other, None, "and_")

    def __or__(self, other):
        return self._arithmetic(other, None, "or_")

    def __xor__(self, other):
        return self._arithmetic(other, None, "xor")

    def __invert__(self):
        return self ^ (self.kind == "mask" or -1)

    def __lshift__(self, other):
        return self._arithmetic(other, None, "shl")

    def __rshift__(self, other):
        return self._arithmetic(other, None, "ashr" if self.kind[0] == "i" else "lshr")

    def __lt__(self, other):
        return self._compare(other, "<")

    def __le__(self, other):
        return self._compare(other, "<=")

    def __gt__(self, other):
        return self._compare(other, ">")

    def __ge__(self, other):
        return self._compare(other, ">=")

    def equals(self, other) -> Lanes:
        """Mask of equal lanes (``==`` is left to Python)."""
        return self._compare(other, "==")

    def differs(self, other) -> Lanes:
        """Mask of different lanes; true of a NaN."""
        return self._compare(other, "!=")

    def to(self, kind: str) -> Lanes:
        """Convert numbers: integers are extended or cut, signed integers rounded to nearest even.

        Floating point goes to integers toward zero; lanes out of range then hold some integer.
        """
        source, target = self.kind, kind
        if source[0] == "f" and target[0] == "f":
            name = "fpext" if target == "f64" else "fptrunc"
        elif source[0] == "f":
            name = "fptosi"
        elif target[0] == "f":
            name = "sitofp"
        else:
            widths = _ELEMENTS[source].width, _ELEMENTS[target].width
            name = "trunc" if widths[0] > widths[1] else "sext" if source[0] == "i" else "zext"
            if widths[0] == widths[1]:
                return self.like(self.value, kind)
        return self.like(
            getattr(self.builder, name)(self.value, vector_type(kind, self.count)), kind
        )

    def bits(self, kind: str) -> Lanes:
        """Give the same bits as another kind of the same width."""
        if _ELEMENTS[kind] == _ELEMENTS[self.kind]:
            return self.like(self.value, kind)
        return self.like(self.builder.bitcast(self.value, vector_type(kind, self.count)), kind)

    def lane_bits(self) -> ir.Value:
        """Give a mask as a 64-bit integer: bit j is lane j."""
        packed = self.builder.bitcast(self.value, ir.IntType(self.count))
        return self.builder.zext(packed, _WORD)


def full(builder: ir.IRBuilder, x: float, kind: str, count: int = LANES) -> Lanes:
    """Vector with ``x`` in every lane."""
    return Lanes(builder, ir.Constant(vector_type(kind, count), [x] * count), kind)


def select(mask: Lanes, x: Lanes | float, y: Lanes | float) -> Lanes:
    """Lanes of ``x`` where the mask is true, of ``y`` elsewhere (at most one a number)."""
    x = x if isinstance(x, Lanes) else y.constant(x)
    return x.like(mask.builder.select(mask.value, x.value, x._with(y)))


def maximum(x: Lanes, y: Lanes | int) -> Lanes:
    """Larger of two integers in each lane."""
    return select(x > y, x, y)


def minimum(x: Lanes, y: Lanes | int) -> Lanes:
    """Smaller of two integers in each lane."""
    return select(x < y, x, y)


def absolute(x: Lanes) -> Lanes:
    """Magnitude of floating-point lanes: the sign bit cleared."""
    integer, mask = ("i32", (1 << 31) - 1) if x.kind == "f32" else ("i64", (1 << 63) - 1)
    return (x.bits(integer) & mask).bits(x.kind)


def _rounding(name: str, x: Lanes) -> Lanes:
    bits = 32 if x.kind == "f32" else 64
    function = cgutils.get_or_insert_function(
        x.builder.module,
        ir.FunctionType(x.value.type, [x.value.type]),
        f"llvm.{name}.v{x.count}f{bits}",
    )
    return x.like(x.builder.call(function, [x.value]))


def floor(x: Lanes) -> Lanes:
    """Largest integer not above each floating-point lane."""
    return _rounding("floor", x)


def truncate(x: Lanes) -> Lanes:
    """Integer part of each floating-point lane."""
    return _rounding("trunc", x)


def nearest(x: Lanes) -> Lanes:
    """Nearest integer to each floating-point lane, ties to even."""
    return _rounding("roundeven", x)


def when(lane_bits: ir.Value, then: Callable[[], Lanes], otherwise: Lanes) -> Lanes:
    """``then()`` if any of the bits is set, decided by a branch that is rarely taken."""
    builder = otherwise.builder
    before = builder.block
    with builder.if_then(builder.icmp_signed("!=", lane_bits, _WORD(0)), likely=False):
        result = then()
        inside = builder.block
    merged = builder.phi(result.value.type)
    merged.add_incoming(otherwise.value, before)
    merged.add_incoming(result.value, inside)
    return otherwise.like(merged)


# --- memory ---------------------------------------------------------------------------------------


def load(
    builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value, kind: str, count: int = LANES
) -> Lanes:
    """Vector from ``pointer[offset]`` on; the pointer's elements are of that kind."""
    where = builder.bitcast(builder.gep(pointer, [offset]), vector_type(kind, count).as_pointer())
    value = builder.load(where)
    value.align = _alignment(kind)
    return Lanes(builder, value, kind)


def spread(builder: ir.IRBuilder, value: ir.Value, kind: str, count: int = LANES) -> Lanes:
    """Vector with a scalar in every lane."""
    i32 = ir.IntType(32)
    undefined = ir.Constant(vector_type(kind, count), ir.Undefined)
    first = builder.insert_element(undefined, value, i32(0))
    zeros = ir.Constant(ir.VectorType(i32, count), [0] * count)
    return Lanes(builder, builder.shuffle_vector(first, undefined, zeros), kind)


def broadcast(
    builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value, kind: str, count: int = LANES
) -> Lanes:
    """Vector with ``pointer[offset]`` in every lane."""
    return spread(builder, builder.load(builder.gep(pointer, [offset])), kind, count)


def store(x: Lanes, pointer: ir.Value, offset: ir.Value) -> None:
    """Write a vector from ``pointer[offset]`` on."""
    builder = x.builder
    where = builder.bitcast(builder.gep(pointer, [offset]), x.value.type.as_pointer())
    builder.store(x.value, where).align = _alignment(x.kind)


def _alignment(kind: str) -> int:
    element = _ELEMENTS[kind]
    return {"f32": 4, "f64": 8}.get(kind) or element.width // 8
