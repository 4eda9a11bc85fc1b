"""Configuration files, and what is known of a study without running it."""

import pytest

from applications import _config, _published, _registry


def test_a_broken_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("seed: 1\nstudies: {a: [}\n")
    with pytest.raises(_config.ConfigError, match=r"broken\.yaml, line 2: not valid YAML"):
        _config.load(path)


def test_job_names_become_file_names():
    assert _registry.file_stem("MI300X/fp16:rd31") == "MI300X_fp16-rd31"


def test_a_studys_sources_are_the_helpers_that_it_imports(tmp_path, monkeypatch):
    texts = {
        "one": "from applications import _a\ndef f():\n    import applications._b\n",
        "_a": "from applications._c import x\n",
        "_b": "from . import _d\nfrom ._e import y\n",
        **dict.fromkeys(["_c", "_d", "_e", "_unrelated"], "x = y = 1\n"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(_registry, "FOLDER", tmp_path)
    found = [path.stem for path in _registry.source_files("one")]
    assert sorted(found) == ["_a", "_b", "_c", "_d", "_e", "one"]


@pytest.mark.parametrize(
    ("published", "ours", "apart"),
    [
        ("1.234567e-08", "1.234567e-08", 0),
        ("1.234567e-08", "1.234568e-08", 1),
        ("9.999999e-01", "1.000000e+00", 1),
        ("1.234567e-08", "1.234569e-08", 2),
        ("1.234567e-08", "nan", float("inf")),
        ("nan", "nan", float("inf")),
        ("garbled", "1.000000e+00", float("inf")),
    ],
)
def test_units_in_the_last_printed_digit(published, ours, apart):
    assert _published.units_apart(published, ours) == apart
