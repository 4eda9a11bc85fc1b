"""Result files and figures: whole or absent, explained, and the same bytes every time."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from mfmamodels import figures, results


def _dataset(values=(1.0, 2.0)):
    described = {"units": "1", "long_name": "numbers"}
    return xr.Dataset({"y": ("x", np.array(values), described)}, {"x": list("ab")[: len(values)]})


def _attributes(**changes):
    given = {"title": "t", "history": "h", "seed": 1, "config": {"n": 1}, "source": "s"}
    return results.provenance(**{**given, **changes})


def test_equal_results_have_equal_bytes(tmp_path):
    one, two = (
        results.save(_dataset(), tmp_path / name / "r.nc", _attributes()) for name in ("a", "b")
    )
    assert one.read_bytes() == two.read_bytes()


def test_attributes_explain_the_result(tmp_path):
    path = results.save(_dataset(), tmp_path / "r.nc", _attributes())
    attrs = results.load(path).attrs
    wanted = ["title", "source_digest", "history", "references", "Conventions", "package_version"]
    assert {*wanted, "config_digest", "config", "seed", "platform"} == set(attrs)


def test_bits_survive(tmp_path):
    """NaN payloads, the sign of NaN and of zero, subnormals; float16 as well."""
    words = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001], np.uint32)
    halves = np.array([0x7E01, 0xFE00, 0x8000, 0x0001], np.uint16)
    described = {"units": "1", "long_name": "bits"}
    dataset = xr.Dataset(
        {
            "single": ("x", words.view(np.float32), described),
            "half": ("x", halves.view(np.float16), described),
        }
    )
    back = results.load(results.save(dataset, tmp_path / "r.nc"))
    np.testing.assert_array_equal(back.single.values.view(np.uint32), words)
    np.testing.assert_array_equal(back.half.values.view(np.uint16), halves)


def test_seconds_stay_numbers(tmp_path):
    dataset = xr.Dataset({"t": ("x", [1.5, 2.0], {"units": "s", "long_name": "time"})})
    back = results.load(results.save(dataset, tmp_path / "r.nc"))
    np.testing.assert_array_equal(back.t.values, [1.5, 2.0])


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.txt"
    path.write_text("old")
    code = (
        "import os, signal, sys; from mfmamodels.results import write_atomically\n"
        "def half(p): p.write_text('ha'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], half)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_a_failed_writer_leaves_nothing(tmp_path):
    def fail(path):
        path.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        results.write_atomically(tmp_path / "r.txt", fail)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("missing", ["units", "long_name"])
def test_a_variable_without_explanation_is_refused(tmp_path, missing):
    dataset = _dataset()
    del dataset.y.attrs[missing]
    with pytest.raises(ValueError, match=f"'y' lacks {missing}"):
        results.save(dataset, tmp_path / "r.nc")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [None, True, {"a": 1}, np.array([1, 2])], ids=str)
def test_attributes_that_netcdf_lacks_are_refused(tmp_path, value):
    dataset = _dataset()
    dataset.attrs["odd"] = value
    with pytest.raises(TypeError, match="attribute 'odd' of the dataset"):
        results.save(dataset, tmp_path / "r.nc")


def test_narrow_formats_are_refused_with_the_way_out(tmp_path):
    import ml_dtypes

    array = np.array([1.0], ml_dtypes.bfloat16)
    dataset = xr.Dataset({"y": ("x", array, {"units": "1", "long_name": "n"})})
    with pytest.raises(TypeError, match="store its bits"):
        results.save(dataset, tmp_path / "r.nc")


def test_an_absent_result_says_how_to_make_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="make figures"):
        results.load(tmp_path / "r.nc")


def test_digest_of_a_configuration_ignores_the_order_of_keys():
    assert results.value_digest({"a": 1, "b": [2]}) == results.value_digest({"b": [2], "a": 1})
    assert results.value_digest({"a": 1}) != results.value_digest({"a": 2})


def test_source_digest_sees_content_and_not_time(tmp_path):
    extra = tmp_path / "study.py"
    extra.write_text("x = 1\n")
    before = results.source_digest([extra])
    os.utime(extra, (1, 1))
    assert results.source_digest([extra]) == before
    extra.write_text("x = 2\n")
    assert results.source_digest([extra]) != before


def _figure():
    with figures.style():
        figure = Figure(figsize=(figures.ONE_COLUMN, 2.4))
        axes = figure.subplots()
        for device in figures.DEVICES:
            axes.plot([1, 2], [3, 4], label=device, **figures.appearance(device).line())
        axes.set_xlabel(r"$n$")
        axes.legend()
    return figure


def test_equal_figures_have_equal_bytes(tmp_path):
    written = [figures.save(_figure(), tmp_path / name / "figure_1") for name in ("a", "b")]
    for one, two in zip(*written, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert [path.name for path in written[0]] == ["figure_1.png", "figure_1.pdf"]


def test_no_two_devices_look_alike_without_colour():
    looks = {(a.marker, str(a.linestyle)) for a in figures.DEVICES.values()}
    markers = {a.marker for a in figures.DEVICES.values()}
    assert len(looks) == len(markers) == len(figures.DEVICES)


def test_a_core_looks_like_its_device():
    assert figures.appearance("MI300X/fp16") == figures.DEVICES["MI300X"]
    assert figures.appearance("NEW1/fp16") == figures.appearance("NEW1/bf16")
