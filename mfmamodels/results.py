"""Result files: NetCDF datasets that say where they come from and are never half written.

A result is written under a temporary name and moved into place, so a killed run leaves either the
old file or the new one. Nothing in a file depends on the clock or on the machine's paths: the same
inputs on the same platform give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfmamodels import __version__

if TYPE_CHECKING:  # xarray takes half a second to import: only those who need it wait for it
    import xarray as xr

CONVENTIONS = "CF-1.11"
PAPER = "Accurate Models of AMD Matrix Cores (the paper whose experiments this package reproduces)"

_PACKAGE = Path(__file__).resolve().parent
_SOURCE_SUFFIXES = {".py", ".json", ".yaml", ".csv", ".npz", ".npy", ".txt"}


def source_digest(extra: Iterable[Path] = ()) -> str:
    """Digest of the package's source, and of further files, by content.

    Parameters
    ----------
    extra : iterable of path, optional
        Files that also decide the result, such as the module of a study.

    Returns
    -------
    str
        The first 16 hexadecimal digits of a SHA-256. Names and contents count; times, paths outside
        the package and byte-compiled files do not.
    """
    digest = hashlib.sha256()
    own = (p for p in _PACKAGE.rglob("*") if p.suffix in _SOURCE_SUFFIXES and p.is_file())
    named = [(p.relative_to(_PACKAGE).as_posix(), p) for p in own]
    named += [(f"+{Path(p).name}", Path(p)) for p in extra]
    for name, path in sorted(named):
        content = path.read_bytes()
        # The length keeps the boundary between two files from being ambiguous.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def value_digest(value: Any) -> str:
    """Digest of a JSON-like value (a configuration), independent of the order of its keys."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no spaces, NaN refused with ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def provenance(
    *, title: str, history: str, seed: int, config: Mapping[str, Any], source: str
) -> dict[str, str | int]:
    """Attributes that say how a result came about.

    Parameters
    ----------
    title : str
        What the file holds, in one line.
    history : str
        What made it, as a command that makes it again. No time stamp: it would make equal results
        differ.
    seed : int
        Root seed.
    config : mapping
        Everything configurable that the result depends on; stored as JSON beside its digest.
    source : str
        From `source_digest`.

    Returns
    -------
    dict
        Strings and integers only, as NetCDF wants them.
    """
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "numba", "scipy"))
    python = ".".join(map(str, sys.version_info[:3]))
    return {
        "title": title,
        "history": history,
        "references": PAPER,
        "Conventions": CONVENTIONS,
        "package_version": f"mfmamodels {__version__}",
        "source_digest": source,
        "config_digest": value_digest(config),
        "config": canonical_json(config),
        "seed": seed,
        "platform": f"{platform.system()} {platform.machine()}, Python {python}, {versions}",
    }


def save(
    dataset: xr.Dataset, path: str | Path, attributes: Mapping[str, str | int] | None = None
) -> Path:
    """Write a dataset as NetCDF (HDF5), whole or not at all.

    Parameters
    ----------
    dataset : xarray.Dataset
        Every data variable needs `units` ("1" for a pure number) and `long_name`. NaN payloads,
        signed zeros and float16 are kept as they are.
    path : path
        Where to; missing folders are made.
    attributes : mapping, optional
        Added to the dataset's own, usually from `provenance`; the dataset's own win.

    Returns
    -------
    pathlib.Path
        The path written.

    Raises
    ------
    ValueError
        A variable without `units` or `long_name`.
    TypeError
        An attribute that is neither text nor number, or an array of a type that NetCDF lacks
        (bfloat16, 8-bit floats): store its bits as unsigned integers, and the format's name in an
        attribute.
    """
    checked = dataset.copy()
    checked.attrs = {**(attributes or {}), **dataset.attrs}
    _check(checked)
    # xarray would add a fill value of NaN to every float variable, and mask what equals it.
    encoding = {name: {"_FillValue": None} for name in checked.variables}
    return write_atomically(
        path,
        lambda temporary: checked.to_netcdf(temporary, engine="h5netcdf", encoding=encoding),
    )


def load(path: str | Path) -> xr.Dataset:
    """Read a result into memory and close the file.

    Times are left as numbers: a variable in seconds stays a variable in seconds.

    Raises
    ------
    FileNotFoundError
        No such file; the message says how results come about.
    """
    import xarray as xr

    if not Path(path).is_file():
        raise FileNotFoundError(
            f"no result at {path}: run `make figures` or `python -m applications` to compute it"
        )
    return xr.load_dataset(path, engine="h5netcdf", decode_times=False, decode_timedelta=False)


def write_atomically(path: str | Path, write: Callable[[Path], Any]) -> Path:
    """Have `write` fill a temporary file beside `path`, then move it into place.

    Parameters
    ----------
    path : path
        The file to appear, at once and complete. Missing folders are made.
    write : callable
        Called with the temporary path, which has the same suffix (some writers go by it). If it
        raises, nothing appears at `path`, and what was there stays.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        write(temporary)
        # Without this a power cut could leave the new name on an empty file.
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file (UTF-8, newlines as given), whole or not at all."""
    return write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def _check(dataset: xr.Dataset) -> None:
    """Refuse what NetCDF cannot hold and what a reader could not interpret."""
    for name, variable in dataset.variables.items():
        if variable.dtype.isbuiltin == 2:  # a type registered by a package, such as bfloat16
            raise TypeError(
                f"variable {name!r} is of type {variable.dtype}, which NetCDF cannot hold: store "
                "its bits (array.view of an unsigned integer) and name the format in an attribute"
            )
    for name, array in dataset.data_vars.items():
        missing = [key for key in ("units", "long_name") if not array.attrs.get(key)]
        if missing:
            raise ValueError(
                f"variable {name!r} lacks {' and '.join(missing)}: set "
                f'dataset[{name!r}].attrs["units"] ("1" for a pure number) and ["long_name"]'
            )
    holders = [("the dataset", dataset.attrs)]
    holders += [(f"variable {name!r}", v.attrs) for name, v in dataset.variables.items()]
    for holder, attributes in holders:
        for key, value in attributes.items():
            if isinstance(value, bool) or not isinstance(value, str | numbers.Real):
                raise TypeError(
                    f"attribute {key!r} of {holder} is {value!r}: NetCDF attributes here are text "
                    "or numbers; write anything else as JSON text"
                )
