"""A copy of the project in which tests may write."""

import os
import re
import shutil
import sys
from pathlib import Path

from mfmamodels.kernels.cache import cache_folder

_COPIED = ["mfmamodels", "applications", "config", "rules", "scripts", "profiles", "Snakefile",
           "Makefile", "benchmarks", "environment.yml", "requirements.lock", "pyproject.toml",
           "README.md", "examples"]  # fmt: skip
_BLOCK = re.compile(r"(?:<!-- (file|after): (\S+) -->\n)?```(\w+)\n(.*?)```", re.S)


def copy_tree(root: Path, folder: Path) -> Path:
    """Copy what runs, without what was computed."""
    ignore = shutil.ignore_patterns("__pycache__", ".snakemake")
    for name in _COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        elif source.exists():
            shutil.copy(source, folder / name)
    return folder


def blocks(path: Path) -> list[tuple[str, str, str, str]]:
    """Code blocks of a page: role ("file", "after" or ""), file name, language and text."""
    return _BLOCK.findall(path.read_text(encoding="utf-8"))


def environment(tree: Path) -> dict[str, str]:
    """Variables with which commands run this Python and the tree's packages.

    Kernels are found by a digest of their sources: a copy can use those compiled already.
    """
    bin_folder = os.path.dirname(sys.executable)
    variables = {**os.environ, "PYTHONPATH": str(tree), "PYTHON": sys.executable,
                 "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]])}  # fmt: skip
    compiled = cache_folder()
    return variables if compiled is None else variables | {"NUMBA_CACHE_DIR": str(compiled.parent)}
