"""The pipeline's steps as functions: the Snakemake scripts and the command line both call them.

Nothing here is imported before a step runs that would fix the number of threads (numba, BLAS).
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from applications._registry import Study, source_files

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int, str], None]

# Someone who watches wants to see that it moves; a log of a thousand lines helps nobody.
_SECONDS_BETWEEN_LINES = 5.0


def limit_threads(threads: int) -> None:
    """Fix the number of threads of this process; call it before numba or numpy are imported.

    The kernels give the same bits for any number. BLAS does not (it splits sums differently), so it
    always gets one thread, and results do not depend on where they were computed.
    """
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


@contextmanager
def logged(path: str | Path, label: str) -> Iterator[Progress]:
    """Run a step with a log file; yield a progress function that writes there and to the terminal.

    An exception ends the process with status 1 and one line on the terminal; its traceback is in
    the log.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", buffering=1) as log:
        try:
            yield _reporter(label, log)
        except Exception as error:
            traceback.print_exc(file=log)
            print(f"error: {label}: {error} (details: {path})", file=sys.stderr)
            sys.exit(1)


def terminal_progress(label: str) -> Progress:
    """Progress on the terminal only, for use without Snakemake."""
    return _reporter(label, None)


def compute(study: Study, job: str, path: str | Path, progress: Progress | None = None) -> Path:
    """Run one job of a study and write its result file.

    Parameters
    ----------
    study : Study
        With its configuration and the root seed.
    job : str
        One of the study's jobs.
    path : path
        The NetCDF file to write.
    progress : callable, optional
        Called with (done, total, text).
    """
    from mfmamodels import results

    dataset = study.module.run(job, study.config, study.seed, progress)
    attributes = results.provenance(
        title=f"{study.title}: {job}",
        history=f"python -m applications {study.name} --job {job}",
        seed=study.seed,
        config=study.config,
        source=source_digest(study.name),
    )
    return results.save(dataset, path, {**attributes, "study": study.name, "job": job})


def source_digest(study: str) -> str:
    """Digest of everything of ours that decides a study's results."""
    from mfmamodels import results

    return results.source_digest(source_files(study))


def read_results(study: Study, folder: str | Path) -> dict[str, xr.Dataset]:
    """Read all results of a study, by job, from the folder that holds the studies' folders."""
    from mfmamodels import results

    return {
        job: results.load(Path(folder) / study.name / f"{stem}.nc")
        for stem, job in study.jobs.items()
    }


def draw(study: Study, data: Mapping[str, xr.Dataset], stems: Mapping[str, str | Path]) -> None:
    """Draw a study's figures and write some of them.

    Parameters
    ----------
    study : Study
        Its `plot` is called once.
    data : mapping
        From `read_results`.
    stems : mapping
        For each figure to write, the path without suffix.

    Raises
    ------
    ValueError
        `plot` did not draw exactly the figures that `figures` had announced.
    """
    from mfmamodels import figures

    with figures.style():
        drawn = study.module.plot(dict(data), study.config)
        if set(drawn) != set(study.figures):
            raise ValueError(
                f"plot drew {sorted(drawn)}, but figures announced {sorted(study.figures)}"
            )
        for name, stem in stems.items():
            figure = drawn[name]
            figures.save(figure() if callable(figure) else figure, stem)


def _reporter(label: str, log: IO[str] | None) -> Progress:
    """Build a progress function that prints now and then, and the last step always."""
    started = time.monotonic()
    printed = float("-inf")

    def report(done: int, total: int, text: str = "") -> None:
        nonlocal printed
        now = time.monotonic()
        line = f"{label}: {done}/{total} after {now - started:.0f} s  {text}".rstrip()
        if log is not None:
            print(line, file=log)
        if now - printed >= _SECONDS_BETWEEN_LINES or done == total:
            printed = now
            print(line, file=sys.stderr, flush=True)

    return report
