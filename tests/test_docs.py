"""Every code block of README and docs/ works as written.

Python blocks are doctests, or the file that a comment above them names; console blocks are run line
by line, in a copy of the tree, so that files a page adds are found by being there. Long commands
(make, snakemake on the whole) are asked for their plan instead of being carried out.
"""

import doctest
import importlib
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from _tree import blocks, copy_tree, environment

PAGES = ["README.md", "docs/first_core.md", "docs/add_a_study.md", "docs/add_a_core.md",
         "docs/cluster.md", "docs/developers.md", "docs/paper.md", "docs/design.md"]  # fmt: skip
# Blocks of one page see the files of those before: one process does them all, on one tree.
pytestmark = pytest.mark.xdist_group("docs")


@pytest.fixture(scope="module")
def tree(root, tmp_path_factory):
    return copy_tree(root, tmp_path_factory.mktemp("tree"))


def _planned(command):
    """What is run in place of a command that would take minutes."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        return ["make", "-n", *words[1:]]
    if words[0] == "snakemake" and "--cores" not in words:
        return ["snakemake", "--cores", "1", "-n", *words[1:]]
    return words


def _run(command, tree):
    words = _planned(command)
    done = subprocess.run(words, cwd=tree, env=environment(tree), capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 0, f"$ {command}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"


def _doctest(text, tree, page):
    """Run examples in a process that sees the copy of the tree."""
    path = tree / "page.txt"
    path.write_text(text, encoding="utf-8")
    program = (
        "import doctest, sys\n"
        "failed, tried = doctest.testfile(sys.argv[1], module_relative=False, encoding='utf-8')\n"
        "sys.exit(bool(failed) or not tried)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=tree, text=True,
                          env=environment(tree), capture_output=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, f"{page}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_work(page, root, tree):
    examples = []
    for role, name, language, text in blocks(root / page):
        if language == "python" and role == "file":
            (tree / name).write_text(text, encoding="utf-8")
        elif language == "python" and role == "after":
            _doctest(text, tree, page)
        elif language == "python":
            examples.append(text)
        elif language == "console":
            for line in text.splitlines():
                if line.startswith("$ "):
                    _run(line[2:], tree)
        elif language == "yaml":
            assert isinstance(yaml.safe_load(text), dict)
        else:
            raise AssertionError(f"{page}: a block of {language}: nothing runs it")
    if examples:
        _doctest("\n".join(examples), tree, page)


def test_pages_are_all_here(root):
    written = {f"docs/{p.name}" for p in (root / "docs").glob("*.md")} | {"README.md"}
    assert written == set(PAGES)


def test_links_between_pages_lead_somewhere(root):
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
            path = (root / page).parent / target.replace("\\_", "_")
            assert path.exists() or target.startswith("figures/"), f"{page} links to {target}"


def test_doctests_of_the_package_hold():
    for name in ("mfmamodels", "mfmamodels.cores"):
        assert doctest.testmod(importlib.import_module(name)).failed == 0
