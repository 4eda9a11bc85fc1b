"""The catalogue: every core by name."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache

from mfmamodels import catalogue
from mfmamodels.core import Core
from mfmamodels.formats import get_format
from mfmamodels.instructions import instruction, is_instruction
from mfmamodels.siblings import change

#: Other names of devices.
_ALIASES = {"ada": "RTX-1000-Ada"}


@cache
def _catalogue() -> dict[str, Core]:
    """All cores by name, from every module of :mod:`mfmamodels.catalogue`."""
    found: dict[str, Core] = {}
    names = sorted(m.name for m in pkgutil.iter_modules(catalogue.__path__))
    for module in (name for name in names if not name.startswith("_")):
        for record in importlib.import_module(f"{catalogue.__name__}.{module}").CORES:
            if record.name in found:
                raise ValueError(f"two cores are called {record.name!r}")
            found[record.name] = record
    return found


def cores() -> list[Core]:
    """All cores of the catalogue, variants included, in catalogue order."""
    return list(_catalogue().values())


def core(
    device: str,
    inputs: str | None = None,
    *,
    out: str | None = None,
    path: str | None = None,
    variant: str | None = None,
    arch: str | None = None,
) -> Core:
    """Look a core up.

    Parameters
    ----------
    device : str
        "MI300X", or a whole name as :attr:`Core.name` gives it: "MI300X/fp16:rd31".
        Upper and lower case, blanks and hyphens do not matter. Or an AMD instruction,
        "v_mfma_f32_32x32x8_f16": its core, with N_FMA no larger than the instruction's k.
    inputs : str, optional
        Input format ("fp16", "bf16_1k") or two 8-bit formats ("e4m3fnuz/e5m2fnuz").
    out : str, optional
        Output format where the core has more than one ("fp16").
    path : str, optional
        Instruction path ("mma.sync"); the default is the native one.
    variant : str, optional
        "rd31", "rd32", "rd32-blind", "rd32-norm" (CDNA3) or "rne" (B200); or one changed feature,
        "rounding=rtz", "c.sum_frac_bits=31" (:mod:`mfmamodels.siblings`).
    arch : str, optional
        "CDNA1", "CDNA2" or "CDNA3", for an instruction that more than one of them has.

    Returns
    -------
    Core

    Raises
    ------
    ValueError
        If there is no such core; the message lists what there is.

    Examples
    --------
    >>> core("MI300X", "fp16").accumulation.n_fma
    8
    >>> core("H100", "e4m3fn", out="fp16", path="mma.sync").name
    'H100/e4m3fn:fp16:mma.sync'
    """
    if is_instruction(device):
        if inputs or out or path:
            raise ValueError(f"the instruction {device!r} names its formats: give no others")
        return _of_instruction(device, arch, variant)
    if arch is not None:
        raise ValueError(f"arch goes with the name of an instruction, which {device!r} is not")
    name, *qualifiers = device.split(":")
    if "/" in name:
        if inputs is not None:
            raise ValueError(f"{device!r} already names its inputs; {inputs!r} was given as well")
        name, _, inputs = name.partition("/")
    qualifiers += [q for given in (out, path, variant) if given for q in given.split(":")]
    changes = [q for q in qualifiers if "=" in q]
    wanted = set(qualifiers) - set(changes)
    wanted_device = _key(_ALIASES.get(_key(name), name))
    of_device = [c for c in cores() if _key(c.device) == wanted_device]
    if not of_device:
        devices = ", ".join(dict.fromkeys(c.device for c in cores()))
        raise ValueError(f"unknown device {name!r}; known: {devices}")
    of_inputs = [c for c in of_device if c.inputs == inputs]
    if not of_inputs:
        raise ValueError(_no_inputs(inputs, of_device))
    for record in of_inputs:
        reached = wanted - {record.out.name, "native"} == {record.path, record.variant} - {""}
        if reached and (record.default_out or record.out.name in wanted):
            return _changed(record, changes)
    names = ", ".join(c.name for c in of_inputs)
    raise ValueError(f"no core {device!r} with {', '.join(sorted(wanted))}; known: {names}")


def _of_instruction(name: str, arch: str | None, variant: str | None) -> Core:
    """The core that runs an instruction: one of few products cannot fill a larger addition."""
    found = instruction(name, arch)
    record = core(found.device, found.inputs, variant=variant)
    if record.accumulation.n_fma <= found.k:
        return record
    return change(record, "n_fma", str(found.k))


def _changed(record: Core, changes: list[str]) -> Core:
    """A sibling with features changed, each given as "field=value"."""
    for text in changes:
        field, _, value = text.partition("=")
        record = change(record, field, value)
    return record


def _key(device: str) -> str:
    return re.sub(r"[\s_-]", "", device).casefold()


def _no_inputs(inputs: str | None, of_device: list[Core]) -> str:
    known = ", ".join(dict.fromkeys(c.inputs for c in of_device))
    device = of_device[0].device
    if inputs is None:
        return f"{device} needs an input format; known: {known}"
    if inputs in ("fp8", "bf8"):
        try:
            get_format(inputs)
        except ValueError as error:
            return f"{error}; {device} has {known}"
    return f"{device} has no core for {inputs!r}; known: {known}"
