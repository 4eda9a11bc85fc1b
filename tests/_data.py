"""Where tests find recorded and golden data, which are not part of the project."""

from pathlib import Path

import pytest

from mfmamodels.characterise.recorded import data_folder


def need(name: str) -> Path:
    """A sub-folder of the data, or skip the test."""
    folder = data_folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip(f"no data folder with {name!r}: set MFMAMODELS_DATA to the folder of data")
    return folder / name
