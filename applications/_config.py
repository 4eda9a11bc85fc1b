"""The configuration: read, laid over the default, checked, and refused in one sentence."""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ROOT / "config" / "config.yaml"
SCHEMA = ROOT / "config" / "schema.yaml"


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is meant for the person who wrote it."""


def read(path: str | Path) -> dict[str, Any]:
    """Read one YAML file that holds a mapping (or nothing).

    Raises
    ------
    ConfigError
        The file is absent, is no YAML, or holds something else than keys and values.
    """
    try:
        value = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise ConfigError(f"{path}{place}: not valid YAML ({problem})") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected keys and values, found a {type(value).__name__}")
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one configuration over another: mappings are merged, anything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def load(path: str | Path | None = None, over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read config/config.yaml with a file and then single values laid over it.

    This is what `snakemake --configfile PATH` does; the studies' sections are checked later, by
    `applications._registry.enabled`.
    """
    config = read(DEFAULT)
    if path is not None and Path(path).resolve() != DEFAULT:
        config = merge(config, read(path))
    return complete(merge(config, over or {}))


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """Check all but the studies' sections against config/schema.yaml, and fill in the defaults."""
    return validated(config, read(SCHEMA), "")


def validated(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a copy with the schema's defaults filled in, or say what is wrong.

    Parameters
    ----------
    value : mapping
        A configuration or a section of it.
    schema : mapping
        JSON schema, draft 2020-12, of an object.
    where : str
        The section's place in the configuration, such as "studies.multiword", for the message.

    Raises
    ------
    ConfigError
        Names the key, what was given and what is allowed.
    """
    from jsonschema import Draft202012Validator

    plain = _plain(value)
    for key, number in _numbers(plain, where):
        if not math.isfinite(number):
            raise ConfigError(f"config: {key} is {number}: give a finite number")
    filled = _with_defaults(plain, schema)
    errors = sorted(Draft202012Validator(schema).iter_errors(filled), key=lambda e: list(e.path))
    if errors:
        raise ConfigError(f"config: {_explain(errors[0], where)}")
    return filled


def _plain(value: Any) -> Any:
    """Ordinary dicts and lists throughout (Snakemake hands over ordered ones)."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    """Every float in a nested value, with the path that leads to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{where}[{index}]")
    elif isinstance(value, float):
        yield where, value


def _with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Fill in the defaults of absent properties, in nested objects too."""
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for key, subschema in schema.get("properties", {}).items():
        if key not in filled and "default" in subschema:
            filled[key] = copy.deepcopy(subschema["default"])
        if key in filled:
            filled[key] = _with_defaults(filled[key], subschema)
    return filled


def _explain(error: Any, where: str) -> str:
    """One sentence on what a schema did not accept."""
    key = where
    for part in error.absolute_path:
        key += f"[{part}]" if isinstance(part, int) else f"{'.' if key else ''}{part}"
    if error.validator == "additionalProperties" and error.schema.get("properties"):
        known = sorted(error.schema["properties"])
        wrong = sorted(set(error.instance) - set(known), key=str)[0]
        place = f" in {key}" if key else ""
        return f"unknown key {wrong!r}{place}; {suggestion(str(wrong), known)}"
    sentence = f"{key or 'the configuration'}: {error.message}"
    if isinstance(error.instance, str) and error.validator == "type" and _is_number(error.instance):
        # YAML takes 1e6 for text, since it has no point.
        sentence += f" (YAML reads {error.instance} as text: write it like 1.0e+6, or as 1000000)"
    return sentence


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def suggestion(wrong: str, known: list[str]) -> str:
    """Name the likely meaning of a misspelt name, or else everything that is known."""
    close = difflib.get_close_matches(wrong, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else "there are none"
