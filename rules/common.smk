# What the rules know of the configuration and of the studies; no rule is defined here.
import os
from dataclasses import asdict

from snakemake.exceptions import WorkflowError

# Scripts run in processes of their own; let them import this copy of the code, wherever it lies,
# and not one that happens to be installed.
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [str(BASE), os.environ.get("PYTHONPATH")]))
)

from applications._config import ConfigError, complete
from applications._published import result_files
from applications._registry import enabled
from applications._steps import source_digest

try:
    CONFIG = complete(config)
    STUDIES = enabled(CONFIG)
except ConfigError as error:
    raise WorkflowError(str(error)) from None

# Snakemake sees edits of the scripts but not of the modules that they import.
SOURCE = {name: source_digest(name) for name in STUDIES}
FIGURE_STUDY = {figure: name for name, study in STUDIES.items() for figure in study.figures}
FIGURE_FILES = expand("figures/{figure}.{suffix}", figure=FIGURE_STUDY, suffix=["png", "pdf"])
CLAIMING = [name for name, study in STUDIES.items() if study.has("claims")]
COMPARING = [name for name, study in STUDIES.items() if study.has("compare_published")]

PUBLISHED_FILES = list(map(str, result_files(CONFIG["published_data"])))


def results_of(name):
    """All result files of a study."""
    return expand("results/{study}/{job}.nc", study=name, job=STUDIES[name].jobs)


def study_results(wildcards):
    return results_of(wildcards.study)


def figure_results(wildcards):
    return results_of(FIGURE_STUDY[wildcards.figure])


def study_files(wildcards):
    return STUDIES[wildcards.study].files


def study_values(wildcards):
    return asdict(STUDIES[wildcards.study])


def study_source(wildcards):
    return SOURCE[wildcards.study]


def study_job(wildcards):
    return STUDIES[wildcards.study].jobs[wildcards.job]


def figure_values(wildcards):
    return asdict(STUDIES[FIGURE_STUDY[wildcards.figure]])


def figure_source(wildcards):
    return SOURCE[FIGURE_STUDY[wildcards.figure]]


def figure_caption(wildcards):
    return STUDIES[FIGURE_STUDY[wildcards.figure]].caption(wildcards.figure)


def comparison_source(wildcards):
    return SOURCE.get(wildcards.comparison, PACKAGE)
