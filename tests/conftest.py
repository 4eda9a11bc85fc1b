"""Fixtures that several test modules share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the project's tree."""
    return ROOT


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of recorded and published data, which is not part of the project."""
    folder = Path(os.environ.get("MFMAMODELS_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder}; set MFMAMODELS_DATA to their folder")
    return folder
