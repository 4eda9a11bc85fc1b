"""Studies found by being in this folder, each with its own checked section of the configuration."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from applications._config import ConfigError, suggestion, validated

FOLDER = Path(__file__).resolve().parent
REQUIRED = ("TITLE", "SCHEMA", "jobs", "run", "figures", "plot")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Study:
    """A study with everything that decides its results.

    `config` is its section with the defaults filled in, `seed` the root seed; `jobs` maps the stem
    of each result's file name to the job's name, in the study's order.
    """

    name: str
    config: dict[str, Any]
    seed: int
    jobs: dict[str, str]
    figures: tuple[str, ...]

    @property
    def module(self) -> ModuleType:
        """The module applications/<name>.py."""
        return load(self.name)

    @property
    def title(self) -> str:
        """One line for people."""
        return str(self.module.TITLE)

    def caption(self, figure: str) -> str:
        """Caption of a figure; the study's title where it has none."""
        return getattr(self.module, "CAPTIONS", {}).get(figure, self.title)

    @property
    def files(self) -> list[str]:
        """Files that its options name (those that end in _file): their content counts too."""
        return [value for key, value in self.config.items() if key.endswith("_file") and value]

    def has(self, function: str) -> bool:
        """Whether the study defines one of the optional functions."""
        return hasattr(self.module, function)


def names() -> list[str]:
    """Names of all studies, sorted."""
    return sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


@cache
def load(name: str) -> ModuleType:
    """Import a study and check that it has what a study needs.

    Raises
    ------
    ConfigError
        No such study, or its module lacks a part; the message says which.
    """
    if name not in names():
        raise ConfigError(f"there is no study {name!r}; {suggestion(name, names())}")
    module = importlib.import_module(f"applications.{name}")
    missing = [part for part in REQUIRED if not hasattr(module, part)]
    if missing:
        raise ConfigError(f"applications/{name}.py does not define {', '.join(missing)}")
    return module


def make(name: str, config: Mapping[str, Any]) -> Study:
    """Build a study from a whole configuration, checking the study's section.

    Parameters
    ----------
    name : str
        Its file's name without the suffix.
    config : mapping
        The whole configuration, as `applications._config.load` returns it.

    Raises
    ------
    ConfigError
        Unknown study, a section that its schema rejects, or a core that does not exist.
    """
    where = f"studies.{name}"
    section = config["studies"].get(name)
    # `name:` with nothing after it, and `name: true`, both ask for the defaults.
    section = {} if section is None or isinstance(section, bool) else section
    module = load(name)
    section = validated(section, module.SCHEMA, where)
    try:
        jobs = _by_file_name(name, module.jobs(section))
        figures = tuple(module.figures(section))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"config: {where}: {error}") from error
    return Study(name, section, config["seed"], jobs, figures)


def enabled(config: Mapping[str, Any]) -> dict[str, Study]:
    """All studies that the configuration does not switch off, by name.

    Raises
    ------
    ConfigError
        As `make`; also a section for a study that does not exist, and two studies that draw figures
        of the same name.
    """
    for name in config["studies"]:
        if name not in names():
            raise ConfigError(
                f"config: studies.{name}: there is no such study; {suggestion(name, names())}"
            )
    chosen = [name for name in names() if config["studies"].get(name) is not False]
    studies = {name: make(name, config) for name in chosen}
    drawn_by: dict[str, str] = {}
    for study in studies.values():
        for figure in study.figures:
            other = drawn_by.setdefault(figure, study.name)
            if other != study.name:
                raise ConfigError(f"studies {other} and {study.name} both draw {figure!r}")
    return studies


def file_stem(job: str) -> str:
    """Name of a job's result file, without suffix: MI300X/fp16:rd31 -> MI300X_fp16-rd31."""
    return job.replace("/", "_").replace(":", "-")


def source_files(name: str) -> list[Path]:
    """List the modules of this folder that a study is made of: its own and the helpers it imports.

    Read from the import statements, wherever in the module they are.
    """
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        path = FOLDER / f"{module}.py"
        if module in found or module == "__init__" or not path.is_file():
            continue
        found[module] = path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            waiting += _imported_here(node)
    return sorted(found.values())


def _imported_here(node: ast.AST) -> list[str]:
    """Modules of this package that an import statement may mean."""
    if isinstance(node, ast.Import):
        dotted = [alias.name.split(".") for alias in node.names]
        return [parts[1] for parts in dotted if parts[0] == "applications" and len(parts) > 1]
    if isinstance(node, ast.ImportFrom):
        parts = (node.module or "").split(".")
        if node.level:
            parts = ["applications", *filter(None, parts)]
        if parts[0] == "applications":
            return [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
    return []


def _by_file_name(study: str, jobs: list[str]) -> dict[str, str]:
    """Map file names to jobs, refusing what cannot be a file, a core, or told from another."""
    if not jobs:
        raise ConfigError(f"config: studies.{study} leaves no job to do")
    found: dict[str, str] = {}
    for job in jobs:
        stem = file_stem(job)
        if not _FILE_NAME.fullmatch(stem):
            raise ConfigError(f"study {study}: the job name {job!r} cannot be a file name")
        if stem in found:
            raise ConfigError(
                f"study {study}: the jobs {found[stem]!r} and {job!r} have the same name or file"
            )
        if "/" in job:
            _check_core(job.partition(":")[0])
        found[stem] = job
    return found


def _check_core(name: str) -> None:
    """Raise ValueError for a core that the catalogue does not have, before anything runs."""
    from mfmamodels import core

    core(name)
