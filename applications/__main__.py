"""`python -m applications`: the studies without Snakemake."""

from __future__ import annotations

import argparse
import math
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from applications import _config, _registry, _steps
from applications._config import ConfigError
from applications._registry import Study

DESCRIPTION = """\
Run a study without Snakemake: the same computations, results and figures as the pipeline's rules.

  python -m applications list                     the studies and what they do
  python -m applications describe STUDY           a study's options, jobs and figures
  python -m applications STUDY                    all jobs, then the figures and claims
  python -m applications STUDY --job MI300X/fp16  only some jobs, and no figures
  python -m applications STUDY --help             also what only this study can do
"""


def parser(study: str | None = None) -> argparse.ArgumentParser:
    """Build the command line's parser, with the options that only this study has."""
    result = argparse.ArgumentParser(
        prog="python -m applications",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("study", metavar="STUDY", help="a study's name, or list, or describe")
    result.add_argument("name", nargs="?", help="the study to describe")
    result.add_argument(
        "--job",
        "--core",
        action="append",
        metavar="JOB",
        help="compute only this job, usually a core such as MI300X/fp16; may be repeated",
    )
    result.add_argument("--config", metavar="FILE", help="YAML file laid over config/config.yaml")
    result.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one option of the study (a.b=1 for nested ones); may be repeated",
    )
    result.add_argument("--seed", type=int, help="root seed, instead of the configuration's")
    result.add_argument(
        "--output",
        metavar="DIR",
        default=".",
        help="write DIR/results and DIR/figures (default: the current folder)",
    )
    result.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="default: all cores"
    )
    module = _registry.load(study) if study else None
    if hasattr(module, "add_arguments"):
        module.add_arguments(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0; 1 when a computation failed; 2 when the request made no sense; 130 when interrupted.
        Every failure prints one line that starts with "error:".
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    named = next((word for word in arguments if word in _registry.names()), None)
    options = parser(named).parse_args(arguments)
    try:
        return _dispatch(options)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted; finished results are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone: not worth a word, and nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError) as error:
        print(f"error: {options.study}: {error or type(error).__name__}", file=sys.stderr)
        return 1


def _dispatch(options: argparse.Namespace) -> int:
    if options.threads < 1:
        raise ConfigError(f"--threads {options.threads}: give a positive number")
    if options.study == "list":
        return _list()
    if options.study == "describe":
        if options.name is None:
            raise ConfigError("describe needs the name of a study; `list` shows them")
        return _describe(_study(options.name, options))
    if options.name is not None:
        raise ConfigError(f"unexpected {options.name!r} after the study's name")
    _steps.limit_threads(options.threads)
    study = _study(options.study, options)
    status = study.module.main(options, study.config) if study.has("main") else None
    return _run(study, options) if status is None else status


def _list() -> int:
    width = max(map(len, _registry.names()), default=0)
    for name in _registry.names():
        print(f"{name:{width}}  {_registry.load(name).TITLE}")
    return 0


def _describe(study: Study) -> int:
    """Print a study's options as a section that can be pasted into a configuration file."""
    print(f"# {study.title}")
    print(f"# Jobs: {', '.join(study.jobs.values())}")
    print(f"# Figures: {', '.join(study.figures)}")
    print(f"studies:\n  {study.name}:")
    for line in _option_lines(study.config, study.module.SCHEMA):
        print(f"    {line}")
    return 0


def _option_lines(values: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """YAML of a section, each option under its description."""
    for key, option in schema["properties"].items():
        yield from textwrap.wrap(
            option["description"], 88, initial_indent="# ", subsequent_indent="# "
        )
        if "properties" in option and isinstance(values[key], dict):
            yield f"{key}:"
            yield from (f"  {line}" for line in _option_lines(values[key], option))
        else:
            # YAML marks the end of a document that is a single value with a line of its own.
            text = yaml.safe_dump(values[key], default_flow_style=True, width=math.inf)
            yield f"{key}: " + text.removesuffix("...\n").strip()


def _study(name: str, options: argparse.Namespace) -> Study:
    """Build the study that the options ask for."""
    _registry.load(name)  # the name first: its misspelling would show as an odd error later
    over: dict[str, Any] = {"studies": {name: _settings(options.set)}}
    if options.seed is not None:
        over["seed"] = options.seed
    return _registry.make(name, _config.load(options.config, over))


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Turn ["a.b=1"] into {"a": {"b": 1}}; values are read as YAML."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--set {pair}: expected KEY=VALUE")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {pair}: {text!r} is not a valid YAML value") from None
        for part in reversed(key.split(".")):
            value = {part: value}
        settings = _config.merge(settings, value)
    return settings


def _run(study: Study, options: argparse.Namespace) -> int:
    """Compute, and draw where all results are there."""
    known = set(study.jobs.values())
    for job in options.job or []:
        if job not in known:
            raise ConfigError(
                f"study {study.name} has no job {job!r}; "
                + _config.suggestion(job, list(study.jobs.values()))
            )
    folder = Path(options.output)
    for stem, job in study.jobs.items():
        if options.job is None or job in options.job:
            path = folder / "results" / study.name / f"{stem}.nc"
            progress = _steps.terminal_progress(f"{study.name} {job}")
            print(_steps.compute(study, job, path, progress))
    if options.job is None:
        _finish(study, folder)
    return 0


def _finish(study: Study, folder: Path) -> None:
    """Draw the figures and write the claims, from the files of the results."""
    from applications import _claims

    data = _steps.read_results(study, folder / "results")
    stems = {name: folder / "figures" / name for name in study.figures}
    _steps.draw(study, data, stems)
    for stem in stems.values():
        print(f"{stem}.png\n{stem}.pdf")
    if study.has("claims"):
        print(_claims.write(study, data, folder / "results" / study.name / "claims.json"))


if __name__ == "__main__":
    sys.exit(main())
