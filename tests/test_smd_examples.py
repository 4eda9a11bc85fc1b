"""Matrices to diagonalise: prescribed spectra, scaling, and files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from applications._polynomial import spectrum, symmetrise
from applications._smd_examples import (
    RandomProduct,
    SourceModel,
    load_matrix,
    power_of_two_scale,
)


def random_matrix(m, *, complex_=False):
    return RandomProduct(taps=3, channels=m, complex=complex_).matrix(3)


@pytest.mark.parametrize("largest", [65504.0, 240.0, 57344.0])
def test_power_of_two_scale_leaves_two_guard_bits(largest):
    for factor in (1e-5, 1.0, 7.0, 3e6):
        r = factor * random_matrix(3)
        scale = power_of_two_scale(r, largest)
        assert np.frexp(scale)[0] == 0.5
        assert largest / 8 < scale * np.trace(r[2]) <= largest / 4
    assert power_of_two_scale(np.zeros((1, 2, 2)), largest) == 1.0


def test_source_models_have_the_prescribed_spectra():
    for model in (SourceModel(20.0), SourceModel(20.0, crossing=True)):
        eigenvalues = np.linalg.eigvalsh(spectrum(model.matrix(5), 512))[:, ::-1]
        lags = model.spectra(5)
        sources = np.zeros((5, 8, 8))
        sources[:, range(8), range(8)] = lags
        psd = spectrum(sources, 512)[:, range(8), range(8)].real
        psd *= 8 / lags[2].sum()
        assert (psd > 0).all()
        assert_allclose(eigenvalues, -np.sort(-psd, axis=1), atol=1e-12)
        assert_allclose(lags[2, 0] / lags[2, -1], 100, rtol=1e-12)
        assert (np.diff(psd, axis=1) < 0).all() != model.crossing


def test_a_matrix_from_a_file(tmp_path):
    r = symmetrise(random_matrix(3, complex_=True))
    np.savez(tmp_path / "mine.npz", R=r)
    assert_array_equal(load_matrix(tmp_path / "mine.npz"), r)
    np.savez(tmp_path / "other.npz", X=r)
    with pytest.raises(ValueError, match="holds X, but no array named R"):
        load_matrix(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="no matrix file"):
        load_matrix(tmp_path / "absent.npz")
    np.savez(tmp_path / "broken.npz", R=r[:2])
    with pytest.raises(ValueError, match="odd number"):
        load_matrix(tmp_path / "broken.npz")
