"""The study of SMD: cores, options, figures and claims."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mfmamodels
from applications import smd as study
from applications._config import ConfigError, validated
from applications._smd_algorithm import Options, smd
from applications._smd_examples import FAMILIES
from applications._smd_measures import largest_difference
from applications._smd_record import PER_MATRIX, STATUSES
from applications._smd_runs import Arithmetic, first_difference, on_core, to_input

# One process computes what these tests share.
pytestmark = pytest.mark.xdist_group("smd_study")

xr = pytest.importorskip("xarray")

SMALL = {"families": ["random"], "matrices": 2, "bins": 32, "max_iterations": 3}


def config(**changed):
    return validated(SMALL | changed, study.SCHEMA, "studies.smd")


# --- products on a core ---


@pytest.mark.parametrize("name", ["fp16", "bf16", "e4m3fnuz", "e5m2fnuz", "xf32"])
def test_inputs_are_rounded_once_to_nearest_even(name):
    fmt = mfmamodels.get_format(name)
    rng = np.random.default_rng(0)
    grid = np.ldexp(rng.integers(-300, 300, 400) / 16, rng.integers(fmt.emin - 4, 6, 400))
    halfway = np.concatenate([grid, grid * (1 + 2.0**-40), grid * (1 - 2.0**-40)])
    expected = mfmamodels.round_to(halfway, fmt, overflow="nan")
    assert_array_equal(to_input(fmt)(halfway).view(fmt.code_dtype), expected.view(fmt.code_dtype))


def test_a_complex_product_is_one_dot_product_of_twice_the_length():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((3, 4), (4, 5)))
    core = mfmamodels.core("MI300X/fp16")
    product = on_core(core)(a, b)
    half = [x.astype(np.float16) for x in (a.real, a.imag, b.real, b.imag)]
    ar, ai, br, bi = half
    for i in range(3):
        for j in range(5):
            real = core.dot(np.concatenate([ar[i], -ai[i]]), np.concatenate([br[:, j], bi[:, j]]))
            imag = core.dot(np.concatenate([ai[i], ar[i]]), np.concatenate([br[:, j], bi[:, j]]))
            assert product[i, j] == float(real) + 1j * float(imag)


def test_scaling_is_undone_and_uses_the_range_of_the_format():
    r = FAMILIES["random"].matrix(0)
    run = Arithmetic.of("MI300X/fp16", config()).run(r, Options(max_iterations=1))
    assert run.scale == 1024  # trace 8 -> 8192 <= 65504 / 4
    assert Arithmetic.of("MI300X/e4m3fnuz", config()).run(r, Options(max_iterations=0)).scale == 4
    double = Arithmetic.of("double", config()).run(r, Options(max_iterations=1))
    assert_allclose(run.eigenvalue(64).max(), double.eigenvalue(64).max(), rtol=5e-3)
    unscaled = Arithmetic.of("MI300X/fp16", config(scaling="none"))
    assert unscaled.run(r, Options(max_iterations=1)).scale == 1


def test_bf16_does_not_depend_on_the_scaling():
    r = FAMILIES["sources-20dB"].matrix(0)
    one, other = (
        Arithmetic.of("MI300X/bf16", config(scaling=s)).run(r, Options()) for s in ("auto", "none")
    )
    assert one.result.path == other.result.path
    assert_array_equal(one.eigenvalue(64), other.eigenvalue(64))


def test_options_reach_the_runs():
    r = FAMILIES["random"].matrix(0)
    options = Options(max_iterations=4)
    plain = Arithmetic.of("MI300X/fp16", config()).run(r, options)
    assert_array_equal(plain.result.q, plain.result.q.astype(np.float32))
    state = Arithmetic.of("MI300X/fp16", config(state="input")).run(r, options)
    assert_array_equal(state.result.d, state.result.d.astype(np.float16))
    initial = Arithmetic.of("MI300X/fp16", config(initial_evd="double")).run(r, options)
    assert not np.array_equal(initial.result.d, plain.result.d)
    # Before any iteration, the product in double is the rounded state of the double run.
    at_once = Arithmetic.of("MI300X/fp16", config(initial_evd="double")).run(
        r, Options(max_iterations=0)
    )
    double = smd(1024 * r, options=Options(max_iterations=0))
    assert_array_equal(at_once.result.d, double.d.astype(np.float32))


@pytest.mark.parametrize("definition", ["first", "largest", "spectral"])
def test_definitions_of_the_dominant_eigenvalue(definition):
    r = FAMILIES["random"].matrix(0)
    run = Arithmetic.of("double", config()).run(r, Options(max_iterations=30))
    from applications._polynomial import spectrum

    values = spectrum(run.result.d, 64)
    expected = {
        "first": values[:, 0, 0].real,
        "largest": values[:, range(8), range(8)].real.max(axis=1),
        "spectral": np.linalg.eigvalsh(values)[:, -1],
    }[definition]
    assert_array_equal(run.eigenvalue(64, definition), expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([(1, 0), (2, 1)], [(1, 0), (2, 1)], 0),
        ([(1, 0), (2, 1)], [(1, 0), (2, 2)], 2),
        ([(1, 0)], [(1, 0), (2, 2)], 2),
        ([], [], 0),
        ([(0, 0)], [(1, 0)], 1),
    ],
)
def test_first_difference_of_two_paths(one, other, expected):
    assert first_difference(one, other) == expected


# --- orders of magnitude on the real cores ---


def test_errors_have_the_expected_scale_and_order():
    settings = config(
        cores=["MI300X/fp16", "MI300X/bf16", "MI300X/e4m3fnuz"], max_iterations=250, bins=256
    )
    results = {job: study.run(job, settings, 0) for job in study.jobs(settings)}
    errors = {
        job: float(np.median(largest_difference(results, job, "double", "random")))
        for job in settings["cores"]
    }
    assert 1e-3 < errors["MI300X/fp16"] < 3e-2
    assert errors["MI300X/fp16"] < errors["MI300X/bf16"] < 8e-2
    assert errors["MI300X/e4m3fnuz"] > 5e-2
    # Decisions repeated, only rounding is left, and it explains most of the error in bf16.
    replayed = largest_difference(results, "MI300X/bf16", "double", "random", replayed=True)
    assert 5e-3 < np.median(replayed) < 4e-2


# --- the study ---


def test_every_option_is_described_and_the_defaults_are_the_papers():
    for name, schema in study.SCHEMA["properties"].items():
        assert schema["description"], name
        assert "default" in schema, name
    default = validated({}, study.SCHEMA, "studies.smd")
    assert (default["epsilon"], default["mu"], default["max_iterations"]) == (1e-4, 1e-4, 250)
    assert default["matrices"] >= 24
    for job in study.jobs(default)[1:]:
        assert mfmamodels.core(job).name == job
    with pytest.raises(ConfigError, match="matrices"):
        config(matricse=3)


@pytest.mark.parametrize("job", ["double", *study.CORES])
def test_every_job_runs_and_describes_itself(job):
    settings = config()
    calls = []
    dataset = study.run(job, settings, 5, lambda *call: calls.append(call))
    assert calls[-1][:2] == (3, 3)
    for name, variable in dataset.data_vars.items():
        assert variable.attrs["units"], name
        assert variable.attrs["long_name"], name
    assert set(PER_MATRIX) <= set(dataset.data_vars)
    assert dataset["eigenvalue"].dims == ("family", "matrix", "frequency")
    assert list(dataset["matrix"].values) == [5, 6]
    assert dataset.attrs["statuses"] == ", ".join(STATUSES)
    assert (dataset["iterations"] == 3).all()
    assert (dataset["status"] == STATUSES.index("iteration limit")).all()
    assert np.isfinite(dataset["eigenvalue"]).all()
    again = study.run(job, settings, 5)
    assert dataset.identical(again)
    assert not dataset.equals(study.run(job, settings, 6))


def test_double_agrees_with_itself_and_knows_the_truth():
    dataset = study.run("double", config(max_iterations=250), 0)
    assert dataset["eigenvalue"].equals(dataset["eigenvalue_replayed"])
    assert (dataset["first_difference"] == 0).all()
    assert (dataset["true_smallest"] > 0).all()
    error = np.abs(dataset["eigenvalue"] - dataset["true_largest"]).max()
    assert 1e-3 < error < 0.3  # what trimming costs
    history = dataset["history_off_diagonal"].values
    last = int(dataset["example_iterations"])
    assert history[last] == dataset["example_off_diagonal"] < 1e-4
    assert (history[: last + 1] > 0).all()
    assert not history[last + 1 :].any()


@pytest.fixture(scope="module")
def small_results():
    settings = config(cores=["MI100/fp16", "MI300X/fp16", "MI300X/bf16", "MI300X/e4m3fnuz"])
    return {job: study.run(job, settings, 0) for job in study.jobs(settings)}, settings


def test_plot_draws_exactly_the_promised_figures(small_results, tmp_path):
    from mfmamodels.figures import save

    results, settings = small_results
    drawn = {name: draw() for name, draw in study.plot(results, settings).items()}
    assert list(drawn) == study.figures(settings)
    assert set(study.CAPTIONS) == set(drawn)
    for name in ("figure_7", "figure_smd_replay"):
        png, _ = save(drawn[name], tmp_path / name)
        assert png.stat().st_size > 10_000
    texts = [text.get_text() for text in drawn["figure_8"].findobj() if hasattr(text, "get_text")]
    assert any("unpublished" in text for text in texts)


def test_figures_show_the_numbers_of_the_results(small_results):
    results, settings = small_results
    lines = study.plot(results, settings)["figure_8"]().axes[0].get_lines()
    job = "MI300X/fp16"
    line = next(line for line in lines if line.get_label() == "MI300X")
    expected = np.abs(results[job]["example_eigenvalue"] - results["double"]["example_eigenvalue"])
    drawn = np.asarray(line.get_ydata())
    assert_array_equal(drawn, np.where(expected > 0, expected, np.nan)[: len(drawn)])


def test_a_matrix_of_ones_own_and_a_run_that_overflows(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, R=2.0**24 * FAMILIES["random-complex"].matrix(0))
    settings = config(matrix_file=str(path), scaling="none", cores=["MI300X/fp16"], matrices=1)
    results = {job: study.run(job, settings, 0) for job in study.jobs(settings)}
    own = results["MI300X/fp16"]
    assert own.attrs["example"].endswith("mine.npz")
    assert own.attrs["example_is_complex"] == 1
    assert STATUSES[int(own["example_status"])] == "non-finite"
    assert int(own["example_iterations"]) == 0
    assert np.isnan(own["example_eigenvalue"]).all()
    assert results["double"]["example_eigenvalue"].max() > 2**24
    drawn = {name: draw() for name, draw in study.plot(results, settings).items()}
    assert list(drawn) == study.figures(settings)
    with pytest.raises(ValueError, match="no matrix file"):
        study.run("double", config(matrix_file=str(tmp_path / "absent.npz")), 0)


# --- claims ---

DEVICES = ["MI100", "MI210", "MI300X", "B200"]


def synthetic(offsets, matrices=3):
    """Results whose eigenvalue is 1 for double and 1 + offset for each job, at all frequencies."""
    results = {}
    for job, offset in {"double": 0.0, **offsets}.items():
        values = np.full((1, matrices, 4), 1.0 + offset)
        dims = ("family", "matrix", "frequency")
        inputs = "fp64" if job == "double" else job.split("/")[1]
        results[job] = xr.Dataset(
            {
                "eigenvalue": (dims, values),
                "eigenvalue_replayed": (dims, values),
                "status": (dims[:2], np.zeros((1, matrices), int)),
            },
            {"family": ["random"], "matrix": range(matrices)},
            {"input_format": inputs},
        )
    return results


def verdicts(offsets):
    found = study.claims(synthetic(offsets), config())
    return {claim["id"]: claim["verdict"] for claim in found}


AS_IN_THE_PAPER = {
    "MI100/fp16": 1e-3,
    "MI210/fp16": 2e-3,
    "MI300X/fp16": 1.2e-3,
    "B200/fp16": 1.1e-3,
    "MI100/bf16": 1e-2,
    "MI300X/bf16": 1e-2 + 1e-9,
    "MI300X/e4m3fnuz": 0.1,
}


def test_claims_hold_for_results_as_in_the_paper():
    found = verdicts(AS_IN_THE_PAPER)
    assert found.pop("smd-curves") == "not comparable"
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize(
    ("changed", "claim", "verdict"),
    [
        ({"MI210/fp16": 1.05e-3}, "mi210-farthest", "does not hold"),
        ({"MI300X/fp16": 1.01e-3}, "b200-nearest", "does not hold"),
        ({"MI300X/bf16": 2e-2}, "bf16-almost-identical", "does not hold"),
        ({"MI300X/bf16": 1e-2}, "bf16-almost-identical", "does not hold"),
        ({"MI300X/e4m3fnuz": 1e-2}, "fp8-unsuitable", "does not hold"),
        ({"MI300X/e4m3fnuz": np.nan}, "fp8-unsuitable", "holds"),
        ({"MI100/fp16": 0.2}, "invisible", "does not hold"),
        ({"MI100/fp16": -2.0}, "invisible", "does not hold"),
        ({"MI100/fp16": 0.0}, "nonzero", "does not hold"),
        ({"MI210/fp16": None}, "mi210-farthest", "not comparable"),
        ({"B200/fp16": None}, "b200-nearest", "not comparable"),
        ({"MI100/bf16": None}, "bf16-almost-identical", "not comparable"),
        ({"MI300X/e4m3fnuz": None}, "fp8-unsuitable", "not comparable"),
    ],
)
def test_claims_fail_where_the_results_say_otherwise(changed, claim, verdict):
    offsets = {k: v for k, v in (AS_IN_THE_PAPER | changed).items() if v is not None}
    assert verdicts(offsets)[f"smd-{claim}"] == verdict
