"""Compiled kernels on disk: shared, never stale, never an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mfmamodels.kernels import cache

_PROGRAM = (
    "from mfmamodels.formats import get_format\n"
    "from mfmamodels.kernels import cache, operands\n"
    "assert operands.encoder(get_format('fp32'))\n"
    "print(cache.cache_folder())\n"
)


def start(program=_PROGRAM, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


@pytest.fixture
def fresh():
    """Functions that remember the folder and the digest, made to look again."""
    functions = (cache.cache_folder, cache.source_digest)
    for function in functions:
        function.cache_clear()
    yield
    for function in functions:
        function.cache_clear()


def test_processes_that_start_at_once_share_a_folder(tmp_path):
    both = [start(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    folders = [finish(process) for process in both]
    assert folders[0] == folders[1] and folders[0].startswith(str(tmp_path))
    assert list(Path(folders[0]).glob("*.nbc"))


def test_damaged_files_are_compiled_again(tmp_path):
    folder = Path(finish(start(NUMBA_CACHE_DIR=str(tmp_path))))
    compiled = sorted(folder.glob("*.nb[ci]"))
    assert compiled
    for i, path in enumerate(compiled):
        path.write_bytes(path.read_bytes()[: 40 if i % 2 else 0])
    assert finish(start(NUMBA_CACHE_DIR=str(tmp_path))) == str(folder)
    assert all(path.stat().st_size > 100 for path in folder.glob("*.nbc"))


def test_a_folder_that_cannot_be_written_is_passed_over(fresh, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way of a folder")
    monkeypatch.setattr(cache, "_PACKAGE", blocked)
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(cache, "source_digest", lambda: "0123")
    assert cache.cache_folder() == tmp_path / "user" / "mfmamodels-0123"
    cache.cache_folder.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert cache.cache_folder() is None


def test_without_any_folder_kernels_still_run(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way of a folder")
    assert finish(start(NUMBA_CACHE_DIR=str(blocked))) == "None"


def test_an_edit_of_any_source_changes_the_folder(fresh, monkeypatch, tmp_path):
    package = tmp_path / "kernels"
    package.mkdir()
    for path in (package / "lanes.py", tmp_path / "formats.py", tmp_path / "accumulation.py"):
        path.write_text("x = 1\n")
    monkeypatch.setattr(cache, "_PACKAGE", package)
    found = [cache.source_digest()]
    for path in (package / "lanes.py", tmp_path / "accumulation.py", package / "new.py"):
        path.write_text("x = 2\n")
        cache.source_digest.cache_clear()
        found.append(cache.source_digest())
    assert len(set(found)) == len(found)


_COMPARE = """
import sys
import numpy as np
import mfmamodels as mm
from mfmamodels import kernels, reference
from mfmamodels.characterise import sampling

for core in map(mm.core, sys.argv[1:]):
    drawn = sampling.draw(core, "specials", 300, 1)
    got, expected = np.empty((2, 300), core.out.code_dtype)
    kernels.dots(core, *drawn, got)
    reference.dots(core, *drawn, expected)
    assert np.array_equal(expected, got), f"{core.name}: {(expected != got).sum()} rows differ"
"""


def test_kernels_of_different_processes_do_not_share_functions(tmp_path):
    """Nested functions of one name, numbered alike by two processes, must stay apart."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_NUM_THREADS": "1"}
    one, other = "MI300X/fp16", "MI300X/bf16"
    for cores in ([one], [other], [one, other], [other, one]):
        done = subprocess.run(
            [sys.executable, "-c", _COMPARE, *cores],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
