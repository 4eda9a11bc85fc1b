"""The study of a network in inference."""

import numpy as np
import pytest

import mfmamodels as mm
from applications import digits

# One process computes what these tests share.
pytestmark = pytest.mark.xdist_group("digits")


def _config(**changes):
    config = {name: spec["default"] for name, spec in digits.SCHEMA["properties"].items()}
    return {**config, "hidden": [16], "epochs": 4, "networks": 1, **changes}


@pytest.fixture(scope="module")
def results():
    names = ["MI300X/fp32", "MI250/fp16", "MI300X/e5m2fnuz", "H100/e5m2"]
    return {name: digits.run(name, _config(), 1) for name in names}


def test_training_and_test_samples_are_apart_and_complete():
    train_x, train_y, test_x, test_y = digits.digits()
    assert len(train_x) + len(test_x) == len(train_y) + len(test_y) == 1797
    assert train_x.dtype == np.float32
    assert 0 <= train_x.min() < train_x.max() <= 1


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    network = digits.Network(
        [rng.standard_normal((5, 4)).astype(np.float32), rng.standard_normal((4, 10)).astype("f4")],
        [np.zeros(4, np.float32), np.zeros(10, np.float32)],
    )
    x, y = rng.standard_normal((6, 5)).astype(np.float32), rng.integers(0, 10, 6)

    def loss():
        hidden = np.maximum(x.astype(float) @ network.weights[0] + network.biases[0], 0)
        z = hidden @ network.weights[1] + network.biases[1]
        return (np.log(np.exp(z).sum(1)) - z[np.arange(6), y]).mean()

    gradients = digits._gradients(network, x, y, mm.core("MI300X/fp32").matmul)
    step = np.float32(2.0**-8)
    for parameter, gradient in zip([*network.weights, *network.biases], gradients, strict=True):
        index = tuple(n // 2 for n in parameter.shape)
        before = parameter[index]
        parameter[index] = before + step
        up = loss()
        parameter[index] = before - step
        down = loss()
        parameter[index] = before
        assert (up - down) / (2 * step) == pytest.approx(gradient[index], rel=0.02, abs=1e-4)


def test_the_network_learns_and_is_the_same_for_every_core(results):
    assert float(results["MI300X/fp32"].accuracy.mean()) > 0.85
    assert len({r.attrs["networks"] for r in results.values()}) == 1


def test_cores_agree_on_integers_and_differ_on_the_network(results):
    assert len({r.attrs["integer_control"] for r in results.values()}) == 1
    found = {n: digits.differences(r, results["MI300X/fp32"]) for n, r in results.items()}
    assert found["MI300X/fp32"]["bits"] == 0
    assert found["MI300X/fp32"]["predictions"] == 0
    assert 0 < found["MI250/fp16"]["largest"] < found["MI300X/e5m2fnuz"]["largest"]
    between = digits.differences(results["H100/e5m2"], results["MI300X/e5m2fnuz"])
    assert between["bits"] > 0.5


def test_claims_notice_a_different_network(results):
    verdicts = {c["id"]: c["verdict"] for c in digits.claims(results, _config())}
    assert verdicts["digits-networks"] == verdicts["digits-integers"] == "holds"
    other = results["MI250/fp16"].assign_attrs(networks="other", integer_control="other")
    verdicts = {c["id"]: c["verdict"] for c in digits.claims({**results, "x": other}, _config())}
    assert verdicts["digits-networks"] == verdicts["digits-integers"] == "does not hold"


def test_scaling_puts_the_largest_entry_below_eight():
    fmt = mm.FORMATS["e4m3fn"]
    for largest in (1e-30, 0.3, 4.0, 7.9, 1e20):
        scaled, shift = digits._scaled(np.float32([largest, -largest / 3]), fmt)
        assert 4 <= float(scaled[0]) <= 8
        assert float(scaled[0]) == pytest.approx(np.ldexp(largest, shift), rel=0.07)
    zero, shift = digits._scaled(np.zeros(3, np.float32), fmt)
    assert shift == 0
    assert not zero.astype(np.float32).any()


def test_figures_have_their_names(results):
    import matplotlib as mpl

    mpl.use("Agg")
    assert set(digits.plot(results, _config())) == set(digits.figures(_config()))
