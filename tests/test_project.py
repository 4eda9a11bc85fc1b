"""What is said in several places is said alike, and studies keep to their interface."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import mfmamodels
from applications import _config, _registry

# Names that differ on conda; the extra of snakemake is part of its conda package.
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def requirements(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    texts = project["dependencies"] + project["optional-dependencies"]["dev"]
    return [Requirement(text) for text in texts]


def _canonical(name):
    return re.sub("[-_.]+", "-", name).lower()


def test_the_lock_satisfies_every_requirement(root, requirements):
    locked = {}
    for line in (root / "requirements.lock").read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)(\[.*\])?==([^ ;]+)", line):
            locked.setdefault(_canonical(match[1]), []).append(Version(match[3]))
    for requirement in requirements:
        versions = locked.get(_canonical(requirement.name))
        assert versions, f"{requirement.name} is not locked; run `make lock`"
        for version in versions:
            assert version in requirement.specifier, f"{requirement} but {version} is locked"


def test_everything_locked_has_hashes(root):
    text = (root / "requirements.lock").read_text()
    packages = re.split(r"\n(?=[A-Za-z0-9])", text)
    without = [p.splitlines()[0] for p in packages if "==" in p and "--hash=sha256:" not in p]
    assert not without


def test_conda_environment_states_the_same_requirements(root, requirements):
    listed = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    found = {str(Requirement(t)) for t in [e for e in listed if isinstance(e, str)] + pip}
    wanted = {f"{CONDA_NAMES.get(r.name, r.name)}{r.specifier}" for r in requirements}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert found == wanted | {"pip", f"python{project['requires-python']}"}


def test_one_version_everywhere(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert str(citation["version"]) == mfmamodels.__version__


def test_setup_script_can_tell_an_old_python_what_is_wrong(root):
    source = (root / "scripts" / "environment.py").read_text()
    ast.parse(source, feature_version=(3, 6))
    code = (
        "import sys; sys.version_info = (3, 8, 1); import runpy; "
        "runpy.run_path('{}', run_name='__main__')"
    )
    script = root / "scripts" / "environment.py"
    done = subprocess.run(
        [sys.executable, "-c", code.format(script)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "Traceback" not in done.stderr


def test_configuration_file_states_the_defaults(root):
    """The default configuration hides nothing and adds nothing."""
    written = _config.read(_config.DEFAULT)
    top = {key: value for key, value in _config.complete({}).items() if key != "studies"}
    assert {key: value for key, value in written.items() if key != "studies"} == top
    for name, section in written["studies"].items():
        schema = _registry.load(name).SCHEMA
        assert section == _config.validated({}, schema, name), f"section {name} of config.yaml"


@pytest.mark.parametrize("file", ["config.yaml", "test.yaml"])
def test_configurations_are_accepted(root, file):
    config = _config.load(root / "config" / file)
    assert set(_registry.enabled(config)) == set(_registry.names())


@pytest.mark.parametrize("name", _registry.names())
def test_study_declares_its_options_completely(name):
    schema = _registry.load(name).SCHEMA
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for key, option in schema["properties"].items():
        assert "default" in option, f"{key} has no default"
        assert option.get("description"), f"{key} has no description"


@pytest.mark.parametrize("name", _registry.names())
def test_study_captions_its_figures(name):
    study = _registry.make(name, _config.load())
    assert set(study.figures) <= set(getattr(study.module, "CAPTIONS", {}))


def test_studies_import_quickly():
    """All studies are imported whenever the pipeline starts; drawing and files can wait."""
    code = (
        "import sys; from applications import _registry as r; [r.load(n) for n in r.names()]; "
        "print(sorted({'matplotlib', 'xarray', 'scipy.stats', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
