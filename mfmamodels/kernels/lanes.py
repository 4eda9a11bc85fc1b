"""Vectors of lanes for numba: the only SIMD vocabulary of the fast kernels.

A kernel computes :data:`LANES` results at once. Numba's loops leave it to LLVM's optimiser whether
and how a loop becomes SIMD code; here the vectors are spelled out, so that the code is the same
on every processor and for every loop length. LLVM splits a vector into whatever registers the
host has (two AVX2 registers, four NEON ones).

Operators ``+ - * & | ^ << >> < <= > >= == !=`` work between vectors of one type, and between a
vector and a scalar, which is converted to the vector's element type. Integers wrap; ``>>`` is
arithmetic on signed elements. A shift count must lie in ``0..bits-1``. Floating-point operations
are single IEEE operations: nothing here permits contraction or reassociation.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16


class Vec(types.Type):
    """Numba type of a vector of ``count`` elements of the scalar type ``dtype``."""

    def __init__(self, dtype: types.Type, count: int = LANES) -> None:
        self.dtype = dtype
        self.count = count
        super().__init__(name=f"Vec({dtype}, {count})")

    @property
    def key(self) -> tuple:
        """Identity of the type."""
        return self.dtype, self.count


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, ir.VectorType(_element(fe_type.dtype), fe_type.count))


def _element(dtype: types.Type) -> ir.Type:
    if dtype == types.boolean:
        return ir.IntType(1)
    if isinstance(dtype, types.Integer):
        return ir.IntType(dtype.bitwidth)
    return ir.FloatType() if dtype == types.float32 else ir.DoubleType()


def _llvm(vec: Vec) -> ir.Type:
    return ir.VectorType(_element(vec.dtype), vec.count)


def _broadcast(builder: ir.IRBuilder, value: ir.Value, vec: Vec) -> ir.Value:
    """Vector with ``value`` in every lane."""
    if vec.dtype == types.boolean and value.type != ir.IntType(1):
        value = builder.trunc(value, ir.IntType(1))
    i32 = ir.IntType(32)
    undefined = ir.Constant(_llvm(vec), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(i32, 0))
    zeros = ir.Constant(ir.VectorType(i32, vec.count), [0] * vec.count)
    return builder.shuffle_vector(first, undefined, zeros)


# --- operators ---------------------------------------------------------------------------------

_FLOAT = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul"}
_INTEGER = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.and_: "and_",
    operator.or_: "or_",
    operator.xor: "xor",
    operator.lshift: "shl",
}
_COMPARE = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}


def _emit(builder: ir.IRBuilder, op, vec: Vec, x: ir.Value, y: ir.Value) -> ir.Value:
    dtype = vec.dtype
    real = isinstance(dtype, types.Float)
    if op in _COMPARE:
        if real:  # `!=` alone is true of a NaN, as in IEEE 754
            compare = builder.fcmp_unordered if op is operator.ne else builder.fcmp_ordered
        else:
            compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
        return compare(_COMPARE[op], x, y)
    if op is operator.rshift:
        return (builder.ashr if dtype.signed else builder.lshr)(x, y)
    return getattr(builder, (_FLOAT if real else _INTEGER)[op])(x, y)


def _register(op) -> None:
    result = (lambda vec: Vec(types.boolean, vec.count)) if op in _COMPARE else (lambda vec: vec)

    class Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) != 2 or kws:
                return None
            x, y = args
            if isinstance(x, Vec) and x == y:
                return signature(result(x), x, x)
            if isinstance(x, Vec) and isinstance(y, types.Number):
                return signature(result(x), x, x.dtype)
            if isinstance(y, Vec) and isinstance(x, types.Number):
                return signature(result(y), y.dtype, y)
            return None

    infer_global(op)(Template)

    def vectors(context, builder, sig, args):
        return _emit(builder, op, sig.args[0], *args)

    def with_scalar(context, builder, sig, args):
        vec = sig.args[0]
        return _emit(builder, op, vec, args[0], _broadcast(builder, args[1], vec))

    def from_scalar(context, builder, sig, args):
        vec = sig.args[1]
        return _emit(builder, op, vec, _broadcast(builder, args[0], vec), args[1])

    lower_builtin(op, Vec, Vec)(vectors)
    lower_builtin(op, Vec, types.Number)(with_scalar)
    lower_builtin(op, types.Number, Vec)(from_scalar)


for _op in (*_INTEGER, *_COMPARE, operator.rshift):
    _register(_op)


# --- making, loading and storing ----------------------------------------------------------------


@intrinsic
def splat(typingctx, x):
    """Vector with the scalar ``x`` in every lane."""
    if not isinstance(x, types.Number | types.Boolean):
        return None
    vec = Vec(x)

    def codegen(context, builder, sig, args):
        return _broadcast(builder, args[0], vec)

    return vec(x), codegen


def _gep(builder, pointer, offset):
    return builder.gep(pointer, [offset])


@intrinsic
def load(typingctx, pointer, offset):
    """Vector of the elements ``pointer[offset : offset + LANES]``; no alignment is needed."""
    vec = Vec(pointer.dtype)

    def codegen(context, builder, sig, args):
        where = builder.bitcast(_gep(builder, *args), _llvm(vec).as_pointer())
        value = builder.load(where)
        value.align = context.get_abi_sizeof(_element(vec.dtype))
        return value

    return vec(pointer, types.intp), codegen


@intrinsic
def store(typingctx, pointer, offset, x):
    """Write a vector to ``pointer[offset : offset + LANES]``."""

    def codegen(context, builder, sig, args):
        where = builder.bitcast(_gep(builder, args[0], args[1]), _llvm(x).as_pointer())
        builder.store(args[2], where).align = context.get_abi_sizeof(_element(x.dtype))
        return context.get_dummy_value()

    return types.void(pointer, types.intp, Vec(pointer.dtype, x.count)), codegen


@intrinsic
def shifted(typingctx, pointer, offset):
    """Pointer moved by ``offset`` elements."""
    return pointer(pointer, types.intp), lambda context, builder, sig, args: _gep(builder, *args)


@intrinsic
def pointer_to(typingctx, address, dtype):
    """Pointer to elements of ``dtype`` (a numpy scalar class) at an integer address."""
    pointer = types.CPointer(dtype.dtype)

    def codegen(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(types.intp, dtype), codegen


# --- conversions --------------------------------------------------------------------------------


def _conversion(target: types.Type, choose):
    """Intrinsic that converts each lane to ``target`` by the builder method ``choose(source)``."""

    @intrinsic
    def convert(typingctx, x):
        vec = Vec(target, x.count)

        def codegen(context, builder, sig, args):
            if _element(x.dtype) == _element(target):
                return args[0]
            return getattr(builder, choose(x.dtype))(args[0], _llvm(vec))

        return vec(x), codegen

    return convert


def _widening(source: types.Type) -> str:
    return "sext" if getattr(source, "signed", False) else "zext"


def _resizing(bits: int):
    return lambda source: "trunc" if _element(source).width > bits else _widening(source)


#: Integers of another width: sign- or zero-extended by the source's signedness, or cut.
to_i8 = _conversion(types.int8, _resizing(8))
to_i16 = _conversion(types.int16, _resizing(16))
to_i32 = _conversion(types.int32, _resizing(32))
to_i64 = _conversion(types.int64, _resizing(64))
to_u8 = _conversion(types.uint8, _resizing(8))
to_u16 = _conversion(types.uint16, _resizing(16))
to_u32 = _conversion(types.uint32, _resizing(32))
#: Signed integers to floating point, rounded to nearest even where they do not fit.
i_to_f32 = _conversion(types.float32, lambda source: "sitofp")
i_to_f64 = _conversion(types.float64, lambda source: "sitofp")
#: Floating point to int32 toward zero. Lanes out of range hold an unspecified integer.
f_to_i32 = _conversion(types.int32, lambda source: "fptosi")
f32_to_f64 = _conversion(types.float64, lambda source: "fpext")
#: To float32, rounded to nearest even.
f64_to_f32 = _conversion(types.float32, lambda source: "fptrunc")
#: The same bits seen as another type of the same width.
bits_f32 = _conversion(types.float32, lambda source: "bitcast")
bits_f64 = _conversion(types.float64, lambda source: "bitcast")
bits_i32 = _conversion(types.int32, lambda source: "bitcast")
bits_i64 = _conversion(types.int64, lambda source: "bitcast")
bits_u32 = _conversion(types.uint32, lambda source: "bitcast")


# --- selections and reductions --------------------------------------------------------------------


@intrinsic
def select(typingctx, mask, x, y):
    """Lanes of ``x`` where the mask is true, of ``y`` elsewhere."""

    def codegen(context, builder, sig, args):
        return builder.select(*args)

    return x(mask, x, x), codegen


def _extremum(sign: str):
    @intrinsic
    def choose(typingctx, x, y):
        def codegen(context, builder, sig, args):
            a = args[0]
            b = args[1] if isinstance(y, Vec) else _broadcast(builder, args[1], x)
            compare = builder.icmp_signed if x.dtype.signed else builder.icmp_unsigned
            return builder.select(compare(sign, a, b), a, b)

        return x(x, x if isinstance(y, Vec) else x.dtype), codegen

    return choose


#: Larger and smaller of two integer vectors, or of a vector and a scalar.
maximum = _extremum(">")
minimum = _extremum("<")


@intrinsic
def lane_bits(typingctx, mask):
    """Mask as an integer: bit j is lane j."""

    def codegen(context, builder, sig, args):
        packed = builder.bitcast(args[0], ir.IntType(mask.count))
        return builder.zext(packed, ir.IntType(64))

    return types.int64(mask), codegen


@intrinsic
def absolute(typingctx, x):
    """Magnitude of each lane of a float vector (the sign bit cleared)."""

    def codegen(context, builder, sig, args):
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_llvm(x), [_llvm(x)]),
            f"llvm.fabs.v{x.count}f{x.dtype.bitwidth}",
        )
        return builder.call(function, args)

    return x(x), codegen
