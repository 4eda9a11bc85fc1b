"""The multi-word study: published rows to the last digit, results, figures, claims, advice."""

import numpy as np
import pytest
import xarray as xr

import mfmamodels as mm
from applications import _multiword_claims, _multiword_figures, _registry, multiword
from applications._config import ConfigError
from applications._multiword_published import (
    FIRST_IN_SESSION,
    MODELS,
    SECOND_IN_STREAM,
    SIZES,
    WORDS,
    compare,
)
from applications._multiword_runs import bounds, run_published
from applications._published import printed, units_apart
from mfmamodels import results
from mfmamodels.formats import get_format

# One process computes what these tests share.
pytestmark = pytest.mark.xdist_group("multiword_study")

PUBLISHED_FILES = {
    "fp16": "matmul_test_binary16_binary32_words_{}_model_{}.dat",
    "bf16": "matmul_test_bfloat16_binary32_words_{}_model_{}.dat",
    "e5m2": "matmul_test_fp8-e5m2_binary32_words_{}_model_{}.dat",
}


def section(**changes):
    """The study's section of a configuration, checked and filled in."""
    config = {"studies": {"multiword": changes}, "seed": 1}
    return _registry.make("multiword", config).config


SMALL = {
    "sizes": [10, 18, 61],
    "draws": 2,
    "slices": [2, 3],
    "formats": {
        "fp16": {"cores": ["MI100/fp16", "MI300X/fp16", "B200/fp16"], "words": [1, 2, 3]},
        "bf16": {"cores": ["MI250/bf16_1k", "B200/bf16", "B200/bf16:rne"]},
        "e5m2": {"cores": ["MI300X/e5m2fnuz", "H100/e5m2"], "words": [1, 2]},
    },
}


@pytest.fixture(scope="module")
def config():
    return section(**SMALL)


@pytest.fixture(scope="module")
def small_results(config, tmp_path_factory):
    """Results of all jobs, written and read again."""
    folder = tmp_path_factory.mktemp("results")
    found = {}
    for job in multiword.jobs(config):
        path = folder / f"{_registry.file_stem(job)}.nc"
        results.save(multiword.run(job, config, 1), path)
        found[job] = results.load(path)
    return found


# --- published rows ---


def published_folder(data_folder):
    folder = data_folder / "published"
    if not folder.is_dir():
        pytest.skip(f"no published result files in {folder}")
    return folder


def assert_rows_agree(rows):
    apart = [(units_apart(p, printed(o)), f, n, p, printed(o)) for f, n, p, o in rows]
    assert max(apart)[0] == 0, [row for row in apart if row[0]][:10]


@pytest.fixture(scope="module")
def small_published():
    """The published way up to n = 379, for all cores."""
    sizes = [n for n in SIZES if n <= 379]
    return {
        name: run_published(name, sizes, list(models.values()), None)
        for name, models in MODELS.items()
    }


def test_published_rows_of_small_sizes_agree_to_the_last_digit(data_folder, small_published):
    folder = published_folder(data_folder)
    rows = compare(small_published, folder)
    files = {row[0] for row in rows}
    expected = {
        file.format(p, model)
        for name, file in PUBLISHED_FILES.items()
        for model in MODELS[name]
        for p in WORDS[name]
    }
    assert files == {path.name for path in folder.glob("*.dat")} & expected
    assert len(rows) == 7 * len(files)
    assert_rows_agree(rows)


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_all_published_rows_agree_to_the_last_digit(data_folder, name):
    folder = published_folder(data_folder)
    data = run_published(name, SIZES, list(MODELS[name].values()), None)
    rows = compare({name: data}, folder)
    assert len(rows) == 20 * len({row[0] for row in rows}) > 0
    assert_rows_agree(rows)


def test_published_bounds_agree_to_the_last_digit(data_folder):
    folder = published_folder(data_folder)
    for name, file in PUBLISHED_FILES.items():
        for path in folder.glob(file.format("*", "*")):
            for line in path.read_text().splitlines()[1:]:
                n, _, bound = line.split()
                assert printed(bounds(get_format(name), int(n), 1)[0]) == bound


@pytest.mark.parametrize(
    "accident", ["truncated words", "first cell to nearest", "second in stream"]
)
def test_published_rows_need_each_accident(data_folder, monkeypatch, accident):
    """Without any one of the things that happened, rows differ: the comparison can fail."""
    from applications import _multiword_published, _multiword_runs

    folder = published_folder(data_folder)
    name, sizes, cores = "e5m2", SIZES[:2], list(MODELS["e5m2"].values())
    monkeypatch.setitem(WORDS, name, (1,))  # enough to see it, and no random numbers to skip
    if accident == "truncated words":
        split_pair = _multiword_runs.split_pair
        monkeypatch.setattr(
            _multiword_runs,
            "split_pair",
            lambda a, b, fmt, p, rounding, e: split_pair(a, b, fmt, p, "rne", e),
        )
    elif accident == "first cell to nearest":
        monkeypatch.setattr(_multiword_published, "FIRST_IN_SESSION", frozenset())
    else:
        monkeypatch.setattr(_multiword_published, "SECOND_IN_STREAM", frozenset())
    rows = compare({name: run_published(name, sizes, cores, None)}, folder)
    assert any(units_apart(p, printed(o)) > 1 for _, _, p, o in rows)


@pytest.mark.full
def test_one_published_row_tells_the_released_model_of_cdna3_from_the_final_one(
    data_folder, monkeypatch
):
    folder = published_folder(data_folder)
    monkeypatch.setitem(MODELS["e5m2"], "mi300x", "MI300X/e5m2fnuz")
    rows = compare({"e5m2": run_published("e5m2", [14384], ["MI300X/e5m2fnuz"], None)}, folder)
    apart = {f: (p, printed(o)) for f, _, p, o in rows if units_apart(p, printed(o)) > 1}
    assert apart == {
        "matmul_test_fp8-e5m2_binary32_words_6_model_mi300x.dat": ("6.740115e-08", "6.749575e-08")
    }


def test_special_cases_of_the_published_runs_are_cores_that_were_run():
    known = {core for models in MODELS.values() for core in models.values()}
    assert known >= FIRST_IN_SESSION | SECOND_IN_STREAM
    for name in known:
        mm.core(name)


def test_stale_and_foreign_files_are_passed_over(tmp_path, small_published):
    for name in (
        "matmul_test_fp8-e5m2_binary32_words_2_model_mi300x.dat",
        "matmul_test_fp8-e4m3_binary32_words_1_model_mi300x.dat",
        "matmul_test_binary16_binary32_words_1_model_tpu.dat",
        "matmul_test_notes.dat",
    ):
        (tmp_path / name).write_text("n error bound \n10 1.0e-03 1.0e+00 \n")
    assert compare(small_published, tmp_path) == []


# --- the study ---


def test_jobs_share_data_between_cores(config):
    assert multiword.jobs(config) == [
        "e5m2:published",
        "e5m2",
        "fp16:published",
        "fp16",
        "bf16:published",
        "bf16",
        "int8",
    ]
    assert multiword.jobs(section(ways=["published"])) == [
        "e5m2:published",
        "fp16:published",
        "bf16:published",
    ]
    assert "fp16:published" not in multiword.jobs(section(sizes=[12]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formats": {"fp16": {"cores": ["MI300X/bf16"]}}}, "takes bf16"),
        ({"formats": {"fp16": {"cores": ["MI300/fp16"]}}}, "unknown device 'MI300'"),
        ({"formats": {"fp16": {"cores": ["V100/fp16:fp16"]}}}, "with fp32 results"),
        ({"sizes": []}, "sizes"),
        ({"order": "any"}, "order"),
        ({"word": [1]}, "unknown key 'word'"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        section(**changes)


def test_results_hold_every_point(config, small_results):
    for job, data in small_results.items():
        assert data.n.values.tolist() == SMALL["sizes"]
        if "core" in data.coords:  # the sibling without rounding down is for long sums only
            data = data.sel(core=[c for c in data.core.values if "=" not in str(c)])
        for name, values in data.data_vars.items():
            assert np.isfinite(values).all(), (job, name)
    for name in MODELS:
        data = small_results[name]
        assert data.core.values.tolist() == SMALL["formats"][name]["cores"]
        assert (data.error > 0).all() and data.sizes["draw"] == 2
        assert (abs(data.bias) <= 1).all() and (abs(data.shrinkage) <= 1).all()


def test_errors_of_split_and_accumulation_make_the_whole(small_results):
    for name in MODELS:
        data = small_results[name]
        assert (data.error <= (data.floor + data.accumulation) * (1 + 1e-9)).all()
        assert (data.error >= abs(data.floor - data.accumulation) * (1 - 1e-9)).all()


def test_errors_respect_the_bound_for_their_words(small_results):
    for name in MODELS:
        data = small_results[name]
        assert (data.error <= data.bound_words).all()
        assert (data.error.sel(words=1) <= data.bound).all()


def test_rounding_toward_zero_shrinks_and_rounding_to_nearest_does_not(small_results):
    shrinkage = small_results["bf16"].shrinkage.sel(words=3).mean(["draw", "n"])
    assert shrinkage.sel(core="B200/bf16") < -0.8
    assert abs(shrinkage.sel(core="B200/bf16:rne")) < 0.5


def test_the_same_point_gives_the_same_bits_alone(config, small_results):
    alone = multiword.run("fp16", {**config, "sizes": [18]}, 1)
    assert np.array_equal(alone.error.values, small_results["fp16"].error.sel(n=[18]).values)
    other = multiword.run("fp16", {**config, "sizes": [18]}, 2)
    assert not np.array_equal(alone.error.values, other.error.values)


def test_large_sizes_get_fewer_draws(config, monkeypatch):
    from applications import _multiword_runs

    monkeypatch.setattr(_multiword_runs, "LARGE", 15)
    data = multiword.run("int8", {**config, "draws_large": 1}, 1)
    counts = np.isfinite(data.ozaki.sel(slices=2)).sum("draw")
    assert dict(zip(data.n.values.tolist(), counts.values.tolist(), strict=True)) == {
        10: 2,
        18: 1,
        61: 1,
    }


@pytest.mark.parametrize(
    "way", [{"order": "smallest first"}, {"order": "separate"}, {"promotion": 16}]
)
def test_order_and_promotion_change_the_sums_but_not_the_split(config, small_results, way):
    data = multiword.run("fp16", {**config, **way}, 1)
    usual = small_results["fp16"]
    assert np.allclose(data.floor, usual.floor, rtol=1e-5)
    assert not np.array_equal(data.error.values, usual.error.values)


def test_progress_reaches_its_total(config):
    seen = []
    multiword.run("int8", config, 1, lambda done, total, text: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == sum(SMALL["sizes"]) * 2


def test_all_announced_figures_are_drawn(config, small_results):
    drawn = {name: draw() for name, draw in multiword.plot(small_results, config).items()}
    assert sorted(drawn) == sorted(multiword.figures(config))
    assert set(drawn) == set(multiword.CAPTIONS)
    for name, figure in drawn.items():
        assert any(axes.lines for axes in figure.axes), name
    panels = drawn["figure_5"].axes
    assert [axes.get_title() for axes in panels] == ["1 word", "2 words", "3 words"]
    curve = panels[2].lines[0].get_ydata()
    data = small_results["fp16:published"]
    assert np.array_equal(curve, data.error.sel(core="MI100/fp16", words=3, draw=0))


# --- claims ---


def synthetic(**slopes):
    """Results in which errors are powers of n: exponents by device; a pair: default, published."""
    found = {}
    for name, models in MODELS.items():
        for suffix in ("", ":published"):
            cores = list(models.values()) + ["MI300X/e5m2fnuz:c.rounding=rtz"] * (name == "e5m2")
            cores = cores if suffix else [c.removesuffix(":rd31") for c in cores]
            shape = (len(cores), len(WORDS[name]), len(SIZES), 1)
            error = np.full(shape, 1e-8)
            for i, core in enumerate(cores):
                device = "RNE" if core.endswith("rne") else core.partition("/")[0]
                exponent = slopes.get(device, 0.0)
                exponent = (
                    exponent[suffix == ":published"] if isinstance(exponent, tuple) else exponent
                )
                if "=" not in core:
                    error[i] *= np.power(np.array(SIZES, float), exponent)[None, :, None]
            found[name + suffix] = xr.Dataset(
                {
                    "error": (("core", "words", "n", "draw"), error),
                    "bias": (("core", "words", "n", "draw"), np.full(shape, -0.5)),
                },
                {"core": cores, "words": list(WORDS[name]), "n": list(SIZES)},
            )
    return found


def verdicts(data):
    return {c["id"].removeprefix("multiword-"): c["verdict"] for c in multiword.claims(data, {})}


def test_claims_follow_the_numbers():
    found = verdicts(synthetic(B200=0.4))
    assert found["cdna-alike"] == "holds"
    assert found["b200-grows"] == "holds"
    assert found["b200-gap"] == "holds"
    assert found["rtz-is-the-cause"] == "holds"
    assert found["b200-one-word"] == "holds"  # here it grows with one word as well
    assert found["fp8-large-n-or-six-words"] == "does not hold"  # not equal with one word
    assert found["rd-8-bit"] == "holds"


def test_claims_that_fail_are_said_to_fail():
    found = verdicts(synthetic(MI300X=0.3, RNE=0.4))
    assert found["cdna-alike"] == "does not hold"
    assert found["b200-grows"] == "does not hold"
    assert found["b200-gap"] == "does not hold"
    assert found["rtz-is-the-cause"] == "does not hold"
    assert found["b200-one-word"] == "does not hold"
    assert found["rd-16-bit"] == "does not hold"
    assert found["rd-8-bit"] == "does not hold"


def test_claims_that_hold_for_the_published_split_only_say_so():
    assert (
        verdicts(synthetic(B200=(0.0, 0.4)))["b200-grows"] == "holds only for the published split"
    )


def test_claims_without_the_sizes_they_need_are_not_comparable(config, small_results):
    claims = multiword.claims(small_results, config)
    found = {c["id"]: c["verdict"] for c in claims}
    assert found["multiword-b200-gap"] == "not comparable"
    assert {c["section"] for c in claims} == {"8.1"}
    assert len(found) == len(_multiword_claims.CLAIMS)


def test_slopes_are_those_of_power_laws():
    n = np.array(SIZES)
    error = xr.DataArray(3e-9 * n**0.35, {"n": n}, ["n"])
    assert _multiword_claims.slope(error) == 0.35
    with pytest.raises(LookupError):
        _multiword_claims.slope(error.sel(n=slice(None, 1300)))


def test_printed_cores_are_the_papers_devices(small_results):
    chosen = _multiword_figures.printed_cores(small_results["fp16:published"])
    assert chosen == {
        "MI100": "MI100/fp16",
        "MI300X": "MI300X/fp16:rd31",
        "B200": "B200/fp16",
    }
