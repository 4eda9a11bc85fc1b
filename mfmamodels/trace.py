"""One dot product step by step: exponents, aligned significands with what was cut off, roundings.

The steps are those the reference takes (:mod:`mfmamodels.reference`), recorded while it computes;
nothing is computed a second time. Significands are printed in binary, aligned to the step's
exponent, as ``-1.0101|11``: what stands after the bar is cut off or rounded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpmath import mpf

from mfmamodels import reference
from mfmamodels.accumulation import AlignedSum, Arithmetic
from mfmamodels.formats import Format
from mfmamodels.reference.numbers import decode, exponent_of, mp
from mfmamodels.reference.record import Item, Step, recorder

WIDTH = 100
#: Bits after the bar that are printed; further ones are told by an ellipsis.
_CUT_BITS = 14


@dataclass(frozen=True)
class Trace:
    """A dot product and the steps of its computation.

    Attributes
    ----------
    arithmetic : Arithmetic
    a, b : tuple of int
        Codes of the operands.
    c, d : int
        Codes of the addend and of the result.
    steps : tuple of Step
    """

    arithmetic: Arithmetic
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: int
    d: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        core = self.arithmetic
        title = f"{getattr(core, 'name', 'core')}: {core.a} x {core.b} -> {core.out}"
        lines = [title, f"  c = {_code(self.c, core.out)}"]
        block = -1
        for step in self.steps:
            block += step.what == "block"
            if step.what == "block":
                lines += _block_lines(step, core, block, len(self.a))
            else:
                lines += _render(step)
        return "\n".join([*lines, f"  d = {_code(self.d, core.out)}"])


def trace(arithmetic: Arithmetic, a: Sequence[int], b: Sequence[int], c: int = 0) -> Trace:
    """Compute one dot product with the reference and keep its steps.

    Parameters
    ----------
    arithmetic : Arithmetic
    a, b : sequence of int
        K codes of the operand formats.
    c : int
        Code of the output format.

    Returns
    -------
    Trace
    """
    with recorder() as steps:
        d = reference.dot(arithmetic, list(a), list(b), c)
    return Trace(arithmetic, tuple(a), tuple(b), c, d, tuple(steps))


# --- numbers as text --------------------------------------------------------------------------


def _code(code: int, fmt: Format) -> str:
    return f"{_value(decode(code, fmt).value)} (0x{code:0{fmt.width // 4}X})"


def _value(x: mpf) -> str:
    """Hexadecimal significand and binary exponent of an exact number, as float.hex has it."""
    if mp.isnan(x):
        return "NaN"
    if mp.isinf(x):
        return "Inf" if x > 0 else "-Inf"
    if x == 0:
        return "0"
    exponent = exponent_of(x)
    fraction, digits = mp.ldexp(abs(x), -exponent) - 1, ""
    while fraction and len(digits) < 40:
        fraction *= 16
        digits += f"{int(fraction):x}"
        fraction -= int(fraction)
    more = "..." if fraction else ""
    return f"{'-' if x < 0 else ''}0x1{'.' if digits else ''}{digits}{more}p{exponent:+d}"


def fixed_point(x: mpf, exponent: int, quantum: int) -> str:
    """A number in binary, its point at the weight 2**exponent, its kept bits down to 2**quantum.

    Returns
    -------
    str
        ``-1.0101|11``; the bar and what follows only if something lies below the quantum.
    """
    quantum = min(quantum, exponent)
    steps = mp.ldexp(abs(x), -quantum)
    kept = int(steps)
    rest = steps - kept
    fraction = exponent - quantum
    digits = f"{kept:0{fraction + 1}b}"
    whole, bits = digits[: len(digits) - fraction], digits[len(digits) - fraction :]
    text = f"{'-' if x < 0 else '+'}{whole}" + (f".{bits}" if bits else "")
    return f"{text}|{_binary_fraction(rest)}" if rest else text


def _binary_fraction(rest: mpf) -> str:
    bits = ""
    while rest and len(bits) < _CUT_BITS:
        rest *= 2
        bits += str(int(rest))
        rest -= int(rest)
    return bits + ("..." if rest else "")


# --- steps as text ----------------------------------------------------------------------------


def _render(step: Step) -> list[str]:
    simple = _SIMPLE.get(step.what)
    if simple is not None:
        return simple(step)
    if step.what == "products":
        return _product_lines(step)
    return _aligned_lines(step)


def _block_lines(step: Step, core: Arithmetic, block: int, count: int) -> list[str]:
    indices = [k for k in _product_indices(core, block) if k < count]
    if not indices:
        which = "zero products only"
    elif indices == list(range(indices[0], indices[-1] + 1)):
        which = f"k = {indices[0]}" + (f"..{indices[-1]}" if len(indices) > 1 else "")
    else:
        which = "k = " + ",".join(map(str, indices))
    text = f"block {block + 1}, {which}: c = {_value(step.items[0].exact)}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _product_indices(core: Arithmetic, block: int) -> list[int]:
    """Which k the products of a block belong to, counted from 0."""
    kind = core.accumulation
    order = kind.order if isinstance(kind, AlignedSum) else ()
    start = block * kind.n_fma
    if not order:
        return list(range(start, start + kind.n_fma))
    run = start // len(order) * len(order)
    return [run + order[start % len(order) + i] for i in range(kind.n_fma)]


def _product_lines(step: Step) -> list[str]:
    lines = []
    for item in step.items:
        if item.exact == 0:
            continue
        limited = "" if item.exact == item.kept else f" -> {_value(item.kept)}"
        exponent = "" if item.exponent is None else f"e = {item.exponent:5d}  "
        lines.append(f"    {item.label:<5} {exponent}{_value(item.exact)}{limited}")
    return ["  products (zero ones not shown)", *lines] if lines else ["  all products are zero"]


_TITLES = {
    "align": "align to the largest exponent",
    "join": "join the sums of even and odd products",
    "shift c": "shift c under the sum of the products",
    "shift sum": "shift the sum of the products under c",
    "second rounding": "round the sum with c once more",
    "round": "round the result",
}


def _aligned_lines(step: Step) -> list[str]:
    assert step.exponent is not None
    title = f"  {_TITLES[step.what]}, point at 2^{step.exponent}"
    if step.quantum is not None:
        bits = step.exponent - step.quantum
        title += f", {step.rounding.upper()} after {bits} fraction bits"
    lines = [title]
    for item in step.items:
        if item.exact or item.kept:
            lines += _item_lines(item, step)
    return lines


def _item_lines(item: Item, step: Step) -> list[str]:
    assert step.exponent is not None
    quantum = _last_bit(item.exact) if step.quantum is None else step.quantum
    own = "" if item.exponent is None else f"e = {item.exponent}"
    bits = fixed_point(item.exact, step.exponent, max(quantum, step.exponent - 64))
    lines = [f"    {item.label:<5} {own:<9} {bits}"]
    if not mp.isfinite(item.kept):
        lines.append(f"    {'':15} -> {_value(item.kept)}")
    elif item.kept != item.exact:
        kept = fixed_point(item.kept, step.exponent, quantum)
        if kept != bits.partition("|")[0]:
            lines.append(f"    {'':15} {kept}")
    return lines


def _last_bit(x: mpf) -> int:
    """Exponent of the lowest one bit."""
    _, significand, exponent, _ = x._mpf_
    return exponent if significand else 0


def _operation(pattern: str) -> Callable[[Step], list[str]]:
    return lambda step: ["  " + pattern.format(*(_value(item.exact) for item in step.items))]


def _flush_lines(step: Step) -> list[str]:
    return [f"    subnormal {_value(step.items[0].exact)} is flushed to zero"]


def _drop_lines(step: Step) -> list[str]:
    (c,) = step.items
    assert step.exponent is not None
    assert c.exponent is not None
    shift = step.exponent - c.exponent
    return [f"  c = {_value(c.exact)} would be shifted by {shift} bits: it becomes zero"]


_SIMPLE: dict[str, Callable[[Step], list[str]]] = {
    "special": _operation("infinities or NaN decide: {0}"),
    "sum": _operation("sum = {0}"),
    "multiply": _operation("{0} * {1}"),
    "multiply-add": _operation("fused: {0} * {1} + c"),
    "add": _operation("{0} + {1}"),
    "last c": _operation("c is added last: {0} + {1}"),
    "flush": _flush_lines,
    "drop c": _drop_lines,
}
