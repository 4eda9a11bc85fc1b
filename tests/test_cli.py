"""The command line: what it prints, what it writes, and how it refuses."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from _data import need

import mfmamodels as mm
from mfmamodels.__main__ import main
from mfmamodels.characterise import recorded, vectors


def run(capsys, *arguments):
    status = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys, *arguments):
    """One message, no traceback, exit status 2."""
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("mfmamodels: error: ")
    assert max(map(len, err.splitlines())) <= 100
    return " ".join(err.split())


# --- list and show ------------------------------------------------------------------------------


def test_list_prints_every_core_with_formats_and_evidence(capsys):
    status, out, _ = run(capsys, "list")
    assert status == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.split()[0] for head in heads] == [core.name for core in mm.cores()]
    assert "MI300X/fp16  (AMD, CDNA3; fp16 x fp16 -> fp32)" in heads
    for level in mm.Level:
        assert f"  {level}" in out


def paragraph(out, name):
    """Evidence of one core as `list` prints it, in one line."""
    text = out[out.index(f"\n{name}  (") + 1 :]
    lines = text.splitlines()[1:]
    end = next((i for i, line in enumerate(lines) if not line.startswith(" ")), len(lines))
    return " ".join(" ".join(lines[:end]).split())


def test_list_counts_rows_and_vectors(capsys):
    out = "\n" + run(capsys, "list")[1]
    assert "recorded words, 4000 rows" in paragraph(out, "A100/fp16")
    assert "not independent" in paragraph(out, "L40S/fp16")
    count = vectors.count(mm.core("MI300X", "bf16"))
    assert f"the paper's vectors, {count}:" in paragraph(out, "MI300X/bf16")
    assert "recorded statistics" in paragraph(out, "MI300X/xf32")
    assert "vendor's text" in paragraph(out, "MI250/fp16")
    assert "MMA-Sim 2.1.1" in paragraph(out, "T4/fp16")
    assert "[e_min]" in paragraph(out, "A100/bf16")


def test_list_of_some_names(capsys):
    assert run(capsys, "list", "mi100/*", "--names")[1].split() == [
        "MI100/fp32",
        "MI100/fp16",
        "MI100/bf16",
    ]
    assert "no core is called 'X*'" in refused(capsys, "list", "X*")


def test_show_prints_table_3_parameters_and_instructions(capsys):
    status, out, _ = run(capsys, "show", "MI300X/fp16")
    assert status == 0
    assert "  align(c, S)   (24, 32, RD)\n" in out
    assert "  c.sum_frac_bits = 32\n" in out
    assert "f32_32x32x8_f16" in out
    assert max(map(len, out.splitlines())) <= 100


def test_show_takes_an_instruction(capsys):
    assert run(capsys, "show", "v_mfma_f32_16x16x16f16", "--arch", "cdna2")[1].startswith("MI250/")
    assert "give arch" in refused(capsys, "show", "v_mfma_f32_16x16x16f16")


# --- trace --------------------------------------------------------------------------------------


def test_trace_takes_decimals_hexadecimal_floats_and_codes(capsys):
    for a in ("1.5,-2", "0x1.8p0,-0x1p1", "0x3E00,0xC000"):
        status, out, _ = run(capsys, "trace", "MI300X/fp16", f"--a={a}", "--b=1,1", "--c=0.5")
        assert status == 0
        assert out.splitlines()[-1] == "  d = 0 (0x00000000)"


def test_trace_takes_codes_of_c_in_the_output_format(capsys):
    arguments = ("--a=inf", "--b=1", "--c", "0xFF800000")
    out = run(capsys, "trace", "MI300X/fp16", *arguments)[1]
    assert out.splitlines()[-1] == "  d = NaN (0xFFC00000)"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("MI300X/fp16", "--a=1,x", "--b=1,1"), "a[1] = 'x' is no number"),
        (("MI300X/fp16", "--a=1e999", "--b=1"), "a[0] = '1e999' is no number"),
        (("MI300X/fp16", "--a=0.1", "--b=1"), "not representable in fp16"),
        (("MI300X/fp16", "--a=0x10000", "--b=1"), "has 16 bits"),
        (("MI300X/fp16", "--a=1,2", "--b=1"), "a has 2 numbers and b 1"),
        (("MI300X/fp16", "--a=1", "--b=1", "--c=1,2"), "c has 2 numbers"),
        (("MI300X/fp8", "--a=1", "--b=1"), "ambiguous"),
        (("MI400/fp16", "--a=1", "--b=1"), "unknown device"),
    ],
)
def test_trace_refuses(capsys, arguments, complaint):
    assert complaint in refused(capsys, "trace", *arguments)


# --- matmul -------------------------------------------------------------------------------------


def saved(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [folder / f"{name}.npy" for name in arrays]


def test_matmul_writes_the_product(capsys, tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 5, 5)).astype(np.float16)
    c = rng.normal(size=(5, 5)).astype(np.float32)
    files = saved(tmp_path, a=a, b=b, c=c)
    output = tmp_path / "d.npy"
    assert run(capsys, "matmul", "MI300X/fp16", *files, "-o", output) == (0, "", "")
    d = np.load(output)
    assert d.dtype == np.float32
    assert d.tobytes() == mm.core("MI300X/fp16").matmul(a, b, c).tobytes()


def test_matmul_without_c_on_codes(capsys, tmp_path):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 4, 4)).astype(ml_dtypes.bfloat16)
    files = saved(tmp_path, a=a.view(np.uint16), b=b.view(np.uint16))
    output = tmp_path / "product"
    status = run(capsys, "matmul", "MI300X/bf16", *files, "-o", output, "--codes")[0]
    assert status == 0
    d = np.load(output)
    assert d.dtype == np.uint32
    assert d.tobytes() == mm.core("MI300X/bf16").matmul(a, b).tobytes()


def test_matmul_overwrites_only_by_force(capsys, tmp_path):
    files = saved(tmp_path, a=np.eye(2), b=np.eye(2))
    output = tmp_path / "d.npy"
    output.write_text("precious")
    arguments = ("matmul", "MI300X/fp16", *files, "-o", output)
    assert "--force overwrites" in refused(capsys, *arguments)
    assert output.read_text() == "precious"
    assert run(capsys, *arguments, "--force")[0] == 0
    assert np.array_equal(np.load(output), np.eye(2))


def test_matmul_refuses(capsys, tmp_path):
    a, b, odd, codes = saved(
        tmp_path,
        a=np.eye(2),
        b=np.eye(3),
        odd=np.full((2, 2), 0.1),
        codes=np.eye(2, dtype=np.int64),
    )
    lost = tmp_path / "lost.npy"
    np.save(lost, np.eye(2).astype(ml_dtypes.bfloat16))
    text = tmp_path / "text.npy"
    text.write_text("1 2 3")
    output = tmp_path / "d.npy"

    def answer(*arguments):
        return refused(capsys, "matmul", "MI300X/bf16", *arguments, "-o", output)

    assert "the last dimension of A" in answer(a, b)
    assert "not representable in bf16" in answer(odd, a)
    assert "is no .npy file" in answer(text, a)
    assert "give --codes" in answer(lost, a)
    assert "codes of bf16 are uint16" in answer(codes, codes, "--codes")
    assert "No such file" in answer(tmp_path / "absent.npy", a)
    assert not output.exists()


# --- validate -----------------------------------------------------------------------------------


def test_validate_a_recording(capsys):
    folder = need("hardware")
    status, out, _ = run(capsys, "validate", "A100/tf32", "--recorded", folder)
    assert (status, out) == (0, "A100_tf32_fp32: 4000 rows, 0 mismatches\n")


def test_validate_shows_the_first_mismatches_and_fails(capsys):
    folder = need("hardware")
    arguments = ("validate", "A100/tf32:rounding=rne", "--recorded", folder, "--rows", 1)
    status, out, _ = run(capsys, *arguments, "--case", "A100_tf32_fp32")
    assert status == 1
    first, row, a, b, result = out.splitlines()
    assert int(first.split()[3]) > 100
    assert row.startswith("  row ")
    assert len(a.split()) == len(b.split()) == 2 + 4
    assert "recorded d = " in result


def test_validate_text_files(capsys, tmp_path):
    core = mm.core("MI300X/fp16")
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 6, 8)).astype(np.float16)
    c = rng.normal(size=6).astype(np.float32)
    d = core.dots(a, b, c)
    codes = [x.view(x.dtype.str.replace("f", "u")) for x in (a, b, c, d)]
    recorded.write_text(recorded.Recording("X", core.a, core.out, *codes), tmp_path, "X")
    arguments = ("validate", "MI300X/fp16", "--recorded", tmp_path)
    assert run(capsys, *arguments) == (0, "X_fp16_fp32: 6 rows, 0 mismatches\n", "")
    codes[3][2] ^= 1
    recorded.write_text(recorded.Recording("X", core.a, core.out, *codes), tmp_path, "X")
    status, out, _ = run(capsys, *arguments)
    assert status == 1
    assert "6 rows, 1 mismatches" in out
    assert "  row 2\n" in out


def test_validate_refuses(capsys, tmp_path):
    arguments = ("validate", "MI300X/fp16", "--recorded")
    assert "is not a folder" in refused(capsys, *arguments, tmp_path / "absent")
    assert "one file a_*.txt is needed" in refused(capsys, *arguments, tmp_path)
    (tmp_path / "index.json").write_text('{"A100_fp16_fp32": {}}')
    assert "it has: A100_fp16_fp32" in refused(capsys, *arguments, tmp_path)


# --- as a process -------------------------------------------------------------------------------


def process(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mfmamodels", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_exit_status_of_the_process():
    good = process("show", "MI100/bf16")
    assert good.returncode == 0
    assert good.stdout.startswith("MI100/bf16 (AMD, CDNA1)")
    bad = process("show", "MI100/bf17")
    assert bad.returncode == 2
    assert "Traceback" not in bad.stderr
    assert bad.stderr.count("\n") == 1


def test_help_loads_neither_compiler_nor_plots():
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from mfmamodels.__main__ import build_parser; build_parser(); "
            "unwanted = {'numba', 'matplotlib', 'scipy', 'mpmath', 'ml_dtypes'}; "
            "print(*sorted(unwanted & set(sys.modules)))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == ""
