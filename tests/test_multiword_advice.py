"""Advice on how many words a core needs for given matrices."""

from pathlib import Path

import numpy as np
import pytest

from applications.__main__ import main
from applications._multiword_advice import advise, table
from applications._multiword_data import independent_matrices


@pytest.fixture(scope="module")
def matrices():
    rng = np.random.default_rng(7)
    return rng.standard_normal((5, 100)), rng.standard_normal((100, 4))


def test_advice_names_the_fewest_words_that_suffice(matrices):
    a, b = matrices
    cores = {"fp16": ["MI300X/fp16"], "e5m2": ["MI300X/e5m2fnuz"]}
    loose, tight = (advise(a, b, t, cores) for t in (1e-3, 2e-7))
    assert [x.words for x in loose] == [1, 2]
    assert all(x.met and x.error <= 1e-3 for x in loose)
    assert [x.words for x in tight] == [2, 5]
    assert [x.products for x in tight] == [3, 15]


def test_advice_admits_what_no_number_of_words_reaches(matrices):
    (advice,) = advise(*matrices, 1e-12, {"bf16": ["B200/bf16"]})
    assert not advice.met and advice.error > 1e-9
    assert "tolerance not met" in table([advice])


def test_componentwise_advice_is_stricter_for_graded_matrices():
    a, b = independent_matrices(1, "advice", 40, 0, 10)
    cores = {"fp16": ["MI300X/fp16"]}
    (norm,), (component,) = (advise(a, b, 1e-4, cores, componentwise=c) for c in (False, True))
    assert norm.met and component.error >= norm.error


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), 1e-3, "inner dimensions differ"),
        (np.array([[1.0, np.inf]]), np.ones((2, 1)), 1e-3, r"A\[0, 1\] is inf"),
        (np.ones((1, 2)), np.array([[np.nan], [1]]), 1e-3, r"B\[0, 0\] is nan"),
        (np.ones((1, 2)) * 1j, np.ones((2, 1)), 1e-3, "a real matrix is needed"),
        (np.ones(2), np.ones((2, 1)), 1e-3, "1-dimensional"),
        (np.ones((1, 2)), np.ones((2, 1)), 0.0, "positive"),
        (np.ones((1, 2)), np.ones((2, 1)), float("nan"), "positive"),
    ],
)
def test_advice_on_unfit_matrices_is_refused(a, b, tolerance, message):
    with pytest.raises(ValueError, match=message):
        advise(a, b, tolerance, {"fp16": ["B200/fp16"]})


def test_the_command_line_prints_a_table(tmp_path, capsys, matrices):
    path = tmp_path / "AB.npz"
    np.savez(path, A=matrices[0], B=matrices[1])
    arguments = ["multiword", "--matrices", str(path), "--cores", "MI300X/fp16", "--tolerance"]
    assert main([*arguments, "1e-6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["core", "words", "products"]
    assert lines[1].split()[:3] == ["MI300X/fp16", "2", "3"]
    assert len(lines) == 2 and list(tmp_path.iterdir()) == [path]  # the study itself did not run
    assert main([*arguments, "1e-15"]) == 1


def test_the_command_line_explains_what_is_missing(tmp_path, capsys):
    half, text, whole = (str(tmp_path / f"{name}.npz") for name in ("half", "text", "whole"))
    np.savez(half, A=np.ones((2, 2)))
    Path(text).write_text("not a zip")
    np.savez(whole, A=np.ones((2, 2)), B=np.ones((2, 2)))
    for arguments, message in [
        (["--tolerance", "1"], "needs --matrices"),
        (["--matrices", whole], "needs --tolerance"),
        (["--matrices", half, "--tolerance", "1"], "holds A; A and B are needed"),
        (["--matrices", text, "--tolerance", "1"], "not a readable npz file"),
        (["--matrices", "x.npz", "--tolerance", "1"], "No such file"),
        (["--matrices", whole, "--tolerance", "1", "--cores", "MI300X/fp32"], "takes fp32"),
    ]:
        assert main(["multiword", *arguments, "--output", str(tmp_path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: multiword: ") and message in error


def test_only_this_study_offers_advice(capsys):
    with pytest.raises(SystemExit):
        main(["multiword", "--help"])
    assert "--matrices" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["lu", "--help"])
    assert "--matrices" not in capsys.readouterr().out
