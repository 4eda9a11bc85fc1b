"""The loop through a device: samples written, results read back, programs and cores compared."""

import sys

import numpy as np
import pytest

import mfmamodels as mm
from mfmamodels.__main__ import main
from mfmamodels.characterise import ensembles, exchange, recorded, sampling, textfiles
from mfmamodels.characterise.ensembles import Sampled

CORES = ["MI300X/fp16", "MI300X/xf32", "MI100/bf16", "MI300X/e4m3fnuz/e5m2fnuz", "A100/fp16:fp16"]


def run(capsys, *arguments):
    status = main([str(x) for x in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def shards_of_20(monkeypatch):
    for module in (ensembles, exchange):
        monkeypatch.setattr(module, "SHARD_ROWS", 20)


@pytest.mark.parametrize("sampler", ["exponent_mantissa", "specials"])
@pytest.mark.parametrize("name", CORES)
def test_rows_come_back_as_they_were(tmp_path, shards_of_20, name, sampler):
    core = mm.core(name)
    ensemble = Sampled(core, sampler, 47, seed=2)
    exchange.write_samples(ensemble, core, tmp_path, "X", with_results=True)
    files = exchange.Files(core, tmp_path)
    assert (files.rows, files.device) == (47, "X")
    for shard in (2, 0, 1):
        wrote, read = ensemble.chunk(shard), files.chunk(shard)
        assert wrote.first == read.first
        for x, y, fmt in zip(wrote[1:4], read[1:4], (core.a, core.b, core.out), strict=True):
            nan = np.isnan(mm.decode(x, fmt))
            np.testing.assert_array_equal(x[~nan], y[~nan])
            assert np.isnan(mm.decode(y[nan], fmt)).all()


def test_the_files_are_the_public_text_format(tmp_path):
    core = mm.core("MI300X/fp16")
    exchange.write_samples(Sampled(core, "bits", 30, 1), core, tmp_path, "X", with_results=True)
    recording = recorded.read_text(tmp_path, "fp16", "fp32")
    a, b, c = sampling.draw(core, "bits", 30, 1)
    for ours, theirs in ((a, recording.a), (b, recording.b), (c, recording.c)):
        np.testing.assert_array_equal(ours, theirs)
    line = (tmp_path / "a_X_fp16.txt").read_text().splitlines()[0].split()
    assert len(line) == 16 and all(len(word) == 8 for word in line)
    assert len((tmp_path / "c_X_fp32.txt").read_text().splitlines()[0]) == 32


def test_samples_then_validate(capsys, tmp_path):
    status, out, _ = run(
        capsys, "samples", "MI300X/fp16", "--sampler", "near_tie", "--rows", 500, "-o", tmp_path,
        "--with-results",
    )  # fmt: skip
    assert status == 0
    names = [line.rsplit("/", 1)[-1] for line in out.splitlines()]
    assert names == ["a_MI300X_fp16.txt", "b_MI300X_fp16.txt", "c_MI300X_fp32.txt",
                     "d_MI300X_fp32.txt", "samples.json"]  # fmt: skip
    good = run(capsys, "validate", "MI300X/fp16", "--recorded", tmp_path)
    assert good == (0, "MI300X_fp16_fp32: 500 rows, 0 mismatches\n", "")
    status, out, _ = run(capsys, "validate", "MI300X/fp16:rd32", "--recorded", tmp_path)
    assert status == 1 and "500 rows, 0 mismatches" not in out


def test_samples_refuses(capsys, tmp_path):
    def refused(*arguments):
        status, _, err = run(capsys, "samples", *arguments)
        assert status == 2
        return err

    assert "unknown sampler 'ties'" in refused("MI100/fp16", "--sampler", "ties", "-o", tmp_path)
    assert "--rows is 0" in refused("MI100/fp16", "--rows", "0", "-o", tmp_path)
    assert "fp64 does not fit" in refused("MI250/fp64", "--rows", "3", "-o", tmp_path / "fp64")
    arguments = ("MI100/fp16", "--rows", "3", "-o", tmp_path / "twice")
    assert run(capsys, "samples", *arguments)[0] == 0
    assert "exists" in refused(*arguments)


@pytest.mark.parametrize(
    ("file", "line", "text", "message"),
    [
        ("a", 45, "3f800000 zz", "line 45"),
        ("b", 3, "3f800000", "line 3: 1 values"),
        ("b", 30, " ".join(["3f800001"] * 16), "line 30: a value does not fit fp16"),
        ("c", 22, "1.5", "line 22: '1.5' is not 32 binary digits"),
        ("d", 41, "2" * 32, "line 41"),
    ],
)
def test_a_bad_line_is_named(tmp_path, shards_of_20, file, line, text, message):
    core = mm.core("MI300X/fp16")
    exchange.write_samples(Sampled(core, "bits", 47, 1), core, tmp_path, "X", with_results=True)
    (path,) = tmp_path.glob(f"{file}_*.txt")
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    files = exchange.Files(core, tmp_path)
    with pytest.raises(ValueError, match=message):
        for shard in ensembles.shards(files):
            files.chunk(shard)


def test_missing_results_are_counted(tmp_path, shards_of_20):
    core = mm.core("MI300X/fp16")
    exchange.write_samples(Sampled(core, "bits", 47, 1), core, tmp_path, "X", with_results=True)
    results = tmp_path / "d_X_fp32.txt"
    results.write_text("\n".join(results.read_text().splitlines()[:44]) + "\n")
    files = exchange.Files(core, tmp_path)
    with pytest.raises(ValueError, match="from line 41 on, 7 rows of a, 7 of b, 7 of c and 4"):
        files.chunk(2)


def test_validate_against_others(capsys):
    arguments = ("validate", "MI300X/fp16", "--sampler", "near_tie", "--samples", 300, "--against")
    status, out, _ = run(capsys, *arguments, "exact_integer")
    assert status == 0 and "300 rows, 0 mismatches\n" in out and "below 0.0449" in out
    status, out, _ = run(capsys, *arguments, "MI300X/fp16:rd32")
    assert status == 1 and "  row " in out


def test_validate_a_program(capsys, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit('no device')")
    command = f"{sys.executable} {program}"
    status, out, err = run(capsys, "validate", "MI300X/fp16", "--samples", 9, "--command", command)
    assert status == 2 and "0 rows, 0 mismatches" in out
    assert "failed with status 1: no device" in " ".join(err.split())
    program.write_text("import shutil, sys; shutil.copy(sys.argv[3], sys.argv[4])")
    saved = tmp_path / "saved.json"
    arguments = ("--samples", 9, "--command", command, "--save", saved)
    status, out, _ = run(capsys, "validate", "MI300X/fp16", *arguments)
    assert status == 1 and "9 rows" in out  # the program returns c as it is
    assert saved.is_file()


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "xf32", "fp32", "e4m3fnuz", "e5m2fnuz", "e4m3fn",
                                 "e5m2"])  # fmt: skip
def test_text_holds_every_code(fmt):
    fmt = mm.get_format(fmt)
    rng = np.random.default_rng(1)
    codes = (
        rng.integers(0, 1 << fmt.width, 20_000) if fmt.width == 32 else np.arange(1 << fmt.width)
    )
    codes = codes.astype(fmt.code_dtype)
    lines = textfiles.as_text(codes, fmt).splitlines()
    again = textfiles.from_lines(lines, fmt, "text")
    nan = np.isnan(mm.decode(codes, fmt))
    np.testing.assert_array_equal(again[~nan], codes[~nan])
    assert np.isnan(mm.decode(again[nan], fmt)).all()
