"""The pipeline and its command line, on a small study in a copy of the tree."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import xarray as xr
import yaml

from applications import _claims, _config, _registry, _steps
from applications.__main__ import main

# The tests share one tree, and most start Snakemake: one worker does them all.
pytestmark = pytest.mark.xdist_group("pipeline")

STUDY = '''
"""Counts, so that the pipeline has something to carry."""

import time

TITLE = "Counting"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "cores": {
            "type": "array",
            "items": {"type": "string"},
            "default": ["MI100/fp16", "double"],
            "description": "Cores that count.",
        },
        "pause": {"type": "number", "default": 0, "description": "Seconds to wait before."},
        "scale": {"type": "number", "default": 1.0, "description": "A factor."},
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "default": {},
            "description": "Limits.",
            "properties": {"n": {"type": "integer", "default": 4, "description": "How far."}},
        },
    },
}
CAPTIONS = {"figure_count": "Counting, *drawn*."}


def jobs(config):
    return config["cores"]


def run(job, config, seed, progress=None):
    import numpy as np
    import xarray as xr

    from applications._counting import start

    time.sleep(config["pause"])
    if config["scale"] < 0:
        raise ValueError("cannot count down")
    progress(1, 1, "counted")
    values = config["scale"] * (start(seed) + np.arange(config["limits"]["n"]))
    return xr.Dataset({"y": ("x", values, {"units": "1", "long_name": "count"})})


def figures(config):
    return ["figure_count"]


def plot(results, config):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    for job, result in results.items():
        axes.plot(result.y, label=job)
    return {"figure_count": figure}


def claims(results, config):
    ours = float(results["double"].y[0])
    return [
        {
            "id": "starts-with-the-seed",
            "section": "1",
            "claim": "counting starts with the seed",
            "paper": 1,
            "ours": ours,
            "tolerance": "exact",
            "verdict": "holds" if ours == 1 else "does not hold",
        }
    ]


def compare_published(results, folder, config):
    rows = []
    for path in sorted(folder.glob("*.dat")):
        for line in path.read_text().splitlines():
            n, published = line.split()
            rows.append((path.name, int(n), published, float(results["double"].y[int(n)])))
    return rows
'''


class Tree:
    """A copy of the project with one study, and its commands."""

    def __init__(self, folder: Path, root: Path):
        self.folder = folder
        for name in ("Snakefile", "rules", "scripts", "profiles", "config", "mfmamodels"):
            copy = shutil.copytree if (root / name).is_dir() else shutil.copy
            copy(root / name, folder / name)
        shutil.copy(root / "environment.yml", folder)
        (folder / "applications").mkdir()
        for path in (root / "applications").glob("_*.py"):
            shutil.copy(path, folder / "applications")
        (folder / "applications" / "counting.py").write_text(STUDY)
        (folder / "applications" / "_counting.py").write_text("def start(seed):\n    return seed\n")
        (folder / "config" / "config.yaml").write_text("seed: 1\npublished_data: published\n")

    def run(self, module, *arguments):
        """Run a module in the tree, as a person would from its root."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def snakemake(self, *arguments):
        return self.run("snakemake", "--cores", "2", *arguments)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def bytes_of(self, *names):
        return [(self.folder / name).read_bytes() for name in names]


# All that concerns studies; the tables of the paper have tests of their own.
TARGETS = ["figure_count", "claims", "published"]
OUTPUTS = [
    "results/counting/MI100_fp16.nc",
    "results/counting/double.nc",
    "results/counting/claims.json",
    "figures/figure_count.png",
    "figures/figure_count.pdf",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory, root):
    return Tree(tmp_path_factory.mktemp("tree"), root)


@pytest.fixture(scope="module")
def finished(tree):
    """The tree after one complete run."""
    done = tree.snakemake(*TARGETS)
    assert done.returncode == 0, done.stderr
    return tree


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The small study in this process, in place of the real ones."""
    path = tmp_path / "counting.py"
    path.write_text(STUDY)
    spec = importlib.util.spec_from_file_location("counting", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def load(name):
        if name != "counting":
            raise _config.ConfigError(f"there is no study {name!r}; known: counting")
        return module

    helper = types.ModuleType("applications._counting")
    helper.start = lambda seed: seed
    monkeypatch.setitem(sys.modules, "applications._counting", helper)
    monkeypatch.setattr(_registry, "names", lambda: ["counting"])
    monkeypatch.setattr(_registry, "load", load)
    return module


def _only_line(text, start):
    lines = [line for line in text.splitlines() if line.startswith(start)]
    assert len(lines) == 1, text
    return lines[0]


def test_one_run_makes_results_figures_and_claims(finished):
    for name in OUTPUTS:
        assert (finished.folder / name).stat().st_size > 0
    with xr.open_dataset(finished.folder / OUTPUTS[1]) as result:
        assert result.y.values.tolist() == [1, 2, 3, 4]
        assert result.attrs["study"] == "counting"
        assert result.attrs["job"] == "double"
        assert json.loads(result.attrs["config"])["limits"] == {"n": 4}
    claims = json.loads((finished.folder / "results" / "claims.json").read_text())
    assert [(c["study"], c["verdict"]) for c in claims] == [("counting", "holds")]
    assert "counting starts with the seed" in (finished.folder / "results/claims.html").read_text()


def test_a_second_run_has_nothing_to_do_until_the_content_of_the_source_changes(finished):
    package = finished.folder / "mfmamodels" / "formats.py"
    os.utime(package)
    assert "Nothing to be done" in finished.snakemake(*TARGETS).stderr
    source = package.read_text()
    package.write_text(source + "\n# touched\n")
    planned = finished.snakemake("--dry-run", *TARGETS).stdout
    package.write_text(source)
    counts = dict(line.split()[:2] for line in planned.splitlines() if line[:5] == "study")
    assert counts == {"study": "2", "study_claims": "1"}, planned


def test_the_command_line_computes_the_same_bytes(finished):
    done = finished.run("applications", "counting", "--output", "by-hand")
    assert done.returncode == 0, done.stderr
    by_hand = [f"by-hand/{name}" for name in OUTPUTS]
    assert finished.bytes_of(*by_hand) == finished.bytes_of(*OUTPUTS)


def test_another_folder_keeps_its_own_results(finished):
    before = finished.bytes_of(*OUTPUTS)
    finished.write("small.yaml", "studies: {counting: {limits: {n: 2}}}\n")
    (finished.folder / "work").mkdir()
    done = finished.snakemake("--configfile", "small.yaml", "--directory", "work", OUTPUTS[1])
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(finished.folder / "work" / OUTPUTS[1]) as result:
        assert result.sizes["x"] == 2
    assert finished.bytes_of(*OUTPUTS) == before


def test_published_rows_are_compared_to_the_last_digit(finished):
    """One unit in the last printed digit passes, two fail, and the rows stay to be looked at."""
    finished.write("published/a.dat", "0 1.000000e+00\n1 2.000001e+00\n")
    finished.write("published/b.dat", "2 3.000002e+00\n")
    done = finished.snakemake("published")
    assert done.returncode != 0
    line = _only_line(done.stderr, "error:")
    assert "1 of 3 published rows differ: b.dat n = 2" in line
    rows = (finished.folder / "results" / "published.csv").read_text().splitlines()
    assert rows[0] == "file,n,published,ours"
    assert rows[1:3] == ["a.dat,0,1.000000e+00,1.000000e+00", "a.dat,1,2.000001e+00,2.000000e+00"]
    assert rows[3] == "b.dat,2,3.000002e+00,3.000000e+00"
    shutil.rmtree(finished.folder / "published")
    done = finished.snakemake("published")
    assert done.returncode == 0, done.stderr
    assert "skipped: no published result files" in done.stderr
    assert finished.bytes_of("results/published.csv") == [b"file,n,published,ours\n"]


def test_a_failing_job_says_so_in_one_line_and_leaves_no_result(tree):
    tree.write("down.yaml", "studies: {counting: {scale: -1, cores: [double]}}\n")
    (tree.folder / "down").mkdir()
    done = tree.snakemake("--configfile", "down.yaml", "--directory", "down", "figure_count")
    assert done.returncode != 0
    assert "counting double: cannot count down" in _only_line(done.stderr, "error:")
    assert not list((tree.folder / "down" / "results").rglob("*.nc"))


@pytest.mark.full
def test_a_killed_run_leaves_whole_results_and_the_next_one_goes_on(tree):
    tree.write("slow.yaml", "studies: {counting: {pause: 3}}\n")
    folder = tree.folder / "slow"
    folder.mkdir()
    options = ["--configfile", "slow.yaml", "--directory", "slow", "figure_count"]
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *options]
    with open(folder / "output", "w") as output:
        run = subprocess.Popen(
            command, cwd=tree.folder, stdout=output, stderr=output, start_new_session=True
        )
        deadline = time.monotonic() + 300
        while "Finished" not in (folder / "output").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    (kept,) = folder.glob("results/counting/[!.]*")
    with xr.open_dataset(kept) as result:
        assert result.y.values.tolist() == [1, 2, 3, 4]
    before = kept.stat().st_mtime_ns
    done = tree.snakemake(*options)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("results/counting/[!.]*.nc"))) == 2
    assert kept.stat().st_mtime_ns == before
    assert (folder / "figures" / "figure_count.png").is_file()


WRONG = {
    "nan": ("studies: {counting: {scale: .nan}}", "studies.counting.scale is nan"),
    "misspelt key": ("sede: 2", "unknown key 'sede'; did you mean 'seed'?"),
    "misspelt option": ("studies: {counting: {scael: 2}}", "did you mean 'scale'?"),
    "unknown core": ("studies: {counting: {cores: [MI999/fp16]}}", "MI999"),
    "unknown study": ("studies: {countin: {}}", "did you mean 'counting'?"),
    "nested": (
        "studies: {counting: {limits: {m: 1}}}",
        "unknown key 'm' in studies.counting.limit",
    ),
    "text": ("studies: {counting: {scale: 1e6}}", "YAML reads 1e6 as text"),
    "wrong type": ("seed: -1", "seed: -1 is less than the minimum of 0"),
    "two jobs alike": ("studies: {counting: {cores: [double, double]}}", "same name or file"),
    "no jobs": ("studies: {counting: {cores: []}}", "leaves no job"),
}


@pytest.mark.parametrize("case", ["nan", "unknown core"])
def test_snakemake_refuses_a_wrong_configuration_in_one_message(tree, case):
    text, message = WRONG[case]
    tree.write("wrong.yaml", text)
    done = tree.snakemake("--configfile", "wrong.yaml", "--dry-run")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert message in printed
    assert printed.count("Error") == 1
    assert "Traceback" not in printed


@pytest.mark.parametrize("case", ["misspelt key"])
def test_command_line_refuses_a_wrong_configuration_in_one_line(tree, case):
    text, message = WRONG[case]
    tree.write("wrong.yaml", text)
    done = tree.run("applications", "counting", "--config", "wrong.yaml")
    assert done.returncode == 2
    assert message in _only_line(done.stderr, "error:")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("case", WRONG)
def test_every_wrong_configuration_has_its_message(study, case):
    text, message = WRONG[case]
    config = _config.merge({"seed": 1, "studies": {}}, yaml.safe_load(text))
    with pytest.raises(_config.ConfigError) as caught:
        _registry.enabled(_config.complete(config))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_line_takes_jobs_options_and_files(study, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_steps, "limit_threads", lambda threads: None)
    Path("mine.yaml").write_text("studies: {counting: {scale: 3}}\n")
    wanted = ["--core", "double", "--config", "mine.yaml", "--seed", "5"]
    assert main(["counting", *wanted, "--set", "limits.n=2", "--output", "some"]) == 0
    assert capsys.readouterr().out.split() == ["some/results/counting/double.nc"]
    with xr.open_dataset("some/results/counting/double.nc") as result:
        assert result.y.values.tolist() == [15, 18]
    assert main(["counting", *wanted, "--set", "scale=-1"]) == 1
    assert capsys.readouterr().err == "error: counting: cannot count down\n"


def test_the_command_line_lists_and_describes(study, capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "counting  Counting\n"
    assert main(["describe", "counting"]) == 0
    described = capsys.readouterr().out
    for part in ("# A factor.", "# Jobs: MI100/fp16, double", "figure_count"):
        assert part in described
    section = yaml.safe_load(described)["studies"]["counting"]
    assert section == _registry.make("counting", _config.complete({})).config


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no study 'nothing'"),
        (["counting", "--job", "duoble"], "did you mean 'double'?"),
        (["counting", "--set", "scale"], "expected KEY=VALUE"),
        (["counting", "--config", "absent.yaml"], "cannot read absent.yaml"),
        (["counting", "--threads", "0"], "give a positive number"),
        (["describe"], "needs the name of a study"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_command_line_explains_a_wrong_request(study, monkeypatch, capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_study_can_be_left_out_or_asked_for_by_name_alone(study):
    for section, found in [(False, []), (None, ["counting"]), (True, ["counting"])]:
        config = _config.complete({"studies": {"counting": section}})
        assert list(_registry.enabled(config)) == found


def test_two_studies_may_not_draw_the_same_figure(study, monkeypatch):
    monkeypatch.setattr(_registry, "names", lambda: ["counting", "numbering"])
    monkeypatch.setattr(_registry, "load", lambda name: study)
    with pytest.raises(_config.ConfigError, match="counting and numbering both draw"):
        _registry.enabled(_config.complete({}))


def test_claims_are_refused_unless_complete_and_judged(study, tmp_path, monkeypatch):
    made = _registry.make("counting", _config.complete({}))
    good = dict.fromkeys(_claims.KEYS, "x") | {"verdict": "does not hold"}
    for change, message in [({"verdict": "maybe"}, "maybe"), ({"extra": 1}, "extra")]:
        monkeypatch.setattr(study, "claims", lambda r, c, change=change: [good | change])
        with pytest.raises(ValueError, match=message):
            _claims.write(made, {}, tmp_path / "claims.json")
    for name in ("one", "two"):
        (tmp_path / name).write_text(json.dumps([good]))
    with pytest.raises(ValueError, match="two claims have the id 'x'"):
        _claims.gather(["a", "b"], [tmp_path / "one", tmp_path / "two"], tmp_path / "all.json")


def test_a_plot_that_breaks_its_announcement_is_refused(study, tmp_path, monkeypatch):
    made = _registry.make("counting", _config.complete({}))
    monkeypatch.setattr(study, "plot", lambda results, config: {"other": None})
    with pytest.raises(ValueError, match=r"plot drew \['other'\]"):
        _steps.draw(made, {}, {"figure_count": tmp_path / "figure_count"})
