"""The floating-point environment of the thread that runs a kernel.

Every thread has its own: a worker of numba's pool inherits what was set when it was started, and
a library may have switched on flush-to-zero. A chunk of work therefore calls :func:`enter` first
and :func:`leave` last.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_MACHINE = platform.machine().lower()
#: Bits of the control registers in IEEE 754's default state: rounding to nearest, subnormals kept,
#: no traps (x86-64: all exceptions masked).
_MXCSR_DEFAULT = 0x1F80
_FPCR_DEFAULT = 0


def _x86_get(builder: ir.IRBuilder) -> ir.Value:
    i32 = ir.IntType(32)
    slot = cgutils.alloca_once(builder, i32)
    _x86_call(builder, "llvm.x86.sse.stmxcsr", slot)
    return builder.zext(builder.load(slot), ir.IntType(64))


def _x86_set(builder: ir.IRBuilder, state: ir.Value) -> None:
    slot = cgutils.alloca_once(builder, ir.IntType(32))
    builder.store(builder.trunc(state, ir.IntType(32)), slot)
    _x86_call(builder, "llvm.x86.sse.ldmxcsr", slot)


def _x86_call(builder: ir.IRBuilder, name: str, slot: ir.Value) -> None:
    byte_pointer = ir.IntType(8).as_pointer()
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer]), name
    )
    builder.call(function, [builder.bitcast(slot, byte_pointer)])


def _arm_get(builder: ir.IRBuilder) -> ir.Value:
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(64), []), "llvm.aarch64.get.fpcr"
    )
    return builder.call(function, [])


def _arm_set(builder: ir.IRBuilder, state: ir.Value) -> None:
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [ir.IntType(64)]), "llvm.aarch64.set.fpcr"
    )
    builder.call(function, [state])


def _c_get(builder: ir.IRBuilder) -> ir.Value:
    rounding = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(32), []), "fegetround"
    )
    return builder.zext(builder.call(rounding, []), ir.IntType(64))


def _c_set(builder: ir.IRBuilder, state: ir.Value) -> None:
    i32 = ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(i32, [i32]), "fesetround"
    )
    builder.call(function, [builder.trunc(state, i32)])


if _MACHINE in ("x86_64", "amd64"):
    _get, _set, _DEFAULT = _x86_get, _x86_set, _MXCSR_DEFAULT
elif _MACHINE in ("aarch64", "arm64"):
    _get, _set, _DEFAULT = _arm_get, _arm_set, _FPCR_DEFAULT
else:  # no flushing mode is known there; C's rounding direction (0 is to nearest) is all there is
    _get, _set, _DEFAULT = _c_get, _c_set, 0


@intrinsic
def enter(typingctx):
    """Set the default environment; returns the state to give to :func:`leave`."""

    def codegen(context, builder, sig, args):
        before = _get(builder)
        _set(builder, ir.Constant(ir.IntType(64), _DEFAULT))
        return before

    return types.int64(), codegen


@intrinsic
def leave(typingctx, state):
    """Restore the environment that :func:`enter` found."""

    def codegen(context, builder, sig, args):
        _set(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
