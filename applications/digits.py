"""A small neural network in inference on matrix cores.

A multilayer perceptron is trained in fp32 to read handwritten digits (the data that come with
scikit-learn) and evaluated with the matrix products of every layer on a core. How often do
predictions and logits differ, from fp32 and between cores? Products in training run on the model
of an fp32 matrix core, so that every machine trains the same network.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

TITLE = "A neural network for handwritten digits in inference"

_FP32 = "MI300X/fp32"  # trains, and is what others are compared with
_CORES = [
    _FP32,
    "MI100/fp16", "MI250/fp16", "MI300X/fp16", "A100/fp16", "H100/fp16", "B200/fp16",
    "MI100/bf16", "MI250/bf16_1k", "MI300X/bf16", "H100/bf16", "B200/bf16",
    "MI300X/e4m3fnuz", "H100/e4m3fn", "B200/e4m3fn",
    "MI300X/e5m2fnuz", "H100/e5m2", "B200/e5m2",
]  # fmt: skip

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "cores": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "uniqueItems": True,
            "default": _CORES,
            "description": "Cores that the network is evaluated on.",
        },
        "hidden": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 4096},
            "default": [128, 64],
            "description": "Widths of the hidden layers.",
        },
        "epochs": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000,
            "default": 20,
            "description": "Passes over the training data.",
        },
        "networks": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "default": 2,
            "description": "Networks trained, each from its own starting weights.",
        },
    },
}

CAPTIONS = {
    "figure_digits": (
        "A multilayer perceptron trained in fp32 on handwritten digits, evaluated with all matrix "
        "products on a core; operands scaled by a power of two per tensor and rounded to nearest. "
        "Left: largest and root-mean-square difference of a logit from the fp32 evaluation, "
        "relative to the largest logit. Right: predictions of the test set that differ from fp32, "
        "all networks together."
    ),
    "figure_digits_pairs": "Share of logits (in percent) whose bits differ between two cores with "
    "operands of one format: equal inputs, equal network, only the arithmetic of the core differs.",
}


def jobs(config: dict) -> list[str]:
    """One job per core; the fp32 evaluation always among them."""
    return list(dict.fromkeys([_FP32, *config["cores"]]))


def figures(config: dict) -> list[str]:
    """Names of the study's figures."""
    return list(CAPTIONS)


@dataclass
class Network:
    """Weights (inputs by outputs) and biases of each layer, float32."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]

    def digest(self) -> str:
        """Digest of all parameters."""
        arrays = [*self.weights, *self.biases]
        return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16]


def run(job: str, config: dict, seed: int, progress: Any = None) -> xr.Dataset:
    """Train the networks (the same for every core) and evaluate them on one core."""
    import numpy as np
    import xarray as xr

    import mfmamodels as mm

    core = mm.core(job)
    train_x, train_y, test_x, test_y = digits()
    logits, trained = [], []
    for draw in range(config["networks"]):
        network = train(train_x, train_y, config, seed, draw)
        logits.append(evaluate(network, test_x, core))
        trained.append(network.digest())
        if progress is not None:
            progress(draw + 1, config["networks"], "networks trained and evaluated")
    stack = np.stack(logits)
    accuracy = (stack.argmax(-1) == test_y).mean(-1)
    dataset = xr.Dataset({
        "logits": (("network", "sample", "digit"), stack,
                   {"units": "1", "long_name": "output of the last layer"}),
        "accuracy": ("network", accuracy,
                     {"units": "1", "long_name": "share of test samples read correctly"}),
    })  # fmt: skip
    dataset.attrs["core"] = job
    dataset.attrs["networks"] = " ".join(trained)
    dataset.attrs["integer_control"] = integer_control(core, seed)
    return dataset


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images as float32 rows in [0, 1], and their digits: two thirds to train, one to test."""
    import numpy as np
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = (data.data / 16).astype(np.float32), data.target
    test = np.arange(len(labels)) % 3 == 2
    return images[~test], labels[~test], images[test], labels[test]


def train(x: np.ndarray, y: np.ndarray, config: dict, seed: int, draw: int) -> Network:
    """Stochastic gradient descent with momentum on the cross entropy, all in fp32."""
    import numpy as np

    import mfmamodels as mm

    multiply = mm.core(_FP32).matmul
    rng = np.random.default_rng([seed, zlib.crc32(b"digits"), draw])
    widths = [x.shape[1], *config["hidden"], 10]
    weights = [
        (rng.standard_normal((m, n)) * np.sqrt(2 / m)).astype(np.float32)
        for m, n in pairwise(widths)
    ]
    network = Network(weights, [np.zeros(n, np.float32) for n in widths[1:]])
    parameters = [*network.weights, *network.biases]
    velocity = [np.zeros_like(p) for p in parameters]
    rate, momentum, batch = np.float32(0.05), np.float32(0.9), 64
    for _ in range(config["epochs"]):
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch):
            chosen = order[start : start + batch]
            gradients = _gradients(network, x[chosen], y[chosen], multiply)
            for p, v, g in zip(parameters, velocity, gradients, strict=True):
                v *= momentum
                v -= rate * g
                p += v
    return network


def _gradients(network: Network, x: np.ndarray, y: np.ndarray, multiply: Any) -> list:
    """Back-propagation: gradients of the weights, then of the biases."""
    import numpy as np

    layers = [x]
    for weight, bias in zip(network.weights, network.biases, strict=True):
        last = weight is network.weights[-1]
        z = multiply(layers[-1], weight, bias)
        layers.append(z if last else np.maximum(z, 0))
    # The exponential in double, then rounded: float32 versions differ between processors.
    scores = np.exp((layers[-1] - layers[-1].max(1, keepdims=True)).astype(np.float64))
    delta = scores / scores.sum(1, keepdims=True)
    delta[np.arange(len(y)), y] -= 1
    delta = (delta / len(y)).astype(np.float32)
    by_weight: list[np.ndarray] = []
    by_bias: list[np.ndarray] = []
    for index in reversed(range(len(network.weights))):
        by_weight.insert(0, multiply(layers[index].T, delta))
        by_bias.insert(0, delta.astype(np.float64).sum(0).astype(np.float32))
        delta = multiply(delta, network.weights[index].T) * (layers[index] > 0)
    return by_weight + by_bias


def evaluate(network: Network, x: np.ndarray, core: Any) -> np.ndarray:
    """Logits with every layer's product on a core, float32.

    Operands are scaled by a power of two per tensor and rounded to nearest; the bias, scaled
    alike, is the product's addend.
    """
    import numpy as np

    for weight, bias in zip(network.weights, network.biases, strict=True):
        last = weight is network.weights[-1]
        scaled_x, shift_x = _scaled(x, core.a)
        scaled_w, shift_w = _scaled(weight, core.b)
        addend = np.ldexp(bias, shift_x + shift_w)
        z = core.matmul(scaled_x, scaled_w, addend.astype(core.out.dtype))
        z = np.ldexp(z.astype(np.float32), -(shift_x + shift_w))
        x = z if last else np.maximum(z, 0)
    return x


def _scaled(x: np.ndarray, fmt: Any) -> tuple[np.ndarray, int]:
    """Scale by the power of two that puts the largest entry below 8, and round to a format.

    Every format holds 8, and the two 8-bit ones then have most of their range below it.
    """
    import numpy as np

    import mfmamodels as mm

    shift = 3 - int(np.frexp(np.abs(x).max(initial=0))[1]) if np.any(x) else 0
    return mm.round_to(np.ldexp(x, shift), fmt, overflow="saturate"), shift


def integer_control(core: Any, seed: int) -> str:
    """Digest of the logits of a network with weights -1, 0 and 1, on which all cores agree."""
    import numpy as np

    from mfmamodels import round_to

    rng = np.random.default_rng([seed, zlib.crc32(b"digits integers")])
    x = rng.integers(0, 2, (40, 64)).astype(np.float32)
    for shape in [(64, 16), (16, 10)]:
        weight = rng.integers(-1, 2, shape)
        # At most 3 after each layer: every format holds these, and every sum is exact.
        x = np.clip(core.matmul(round_to(x, core.a), round_to(weight, core.b)), 0, 3)
    return hashlib.sha256(x.astype(np.float32).tobytes()).hexdigest()[:16]


def differences(dataset: xr.Dataset, reference: xr.Dataset) -> dict[str, float]:
    """How two evaluations of the same networks differ."""
    import numpy as np

    ours, theirs = dataset.logits.values, reference.logits.values
    scale = np.abs(theirs).max()
    apart = np.abs(ours.astype(np.float64) - theirs) / scale
    return {
        "largest": float(apart.max()),
        "rms": float(np.sqrt((apart**2).mean())),
        "predictions": int((ours.argmax(-1) != theirs.argmax(-1)).sum()),
        "bits": float((ours.view(np.uint32) != theirs.view(np.uint32)).mean()),
    }


def claims(results: dict[str, xr.Dataset], config: dict) -> list[dict]:
    """Check what must hold of this study: one network for all cores, one answer on integers."""
    networks = {r.attrs["networks"] for r in results.values()}
    controls = {r.attrs["integer_control"] for r in results.values()}
    accuracy = float(results[_FP32].accuracy.mean())
    checks = [
        ("digits-networks", "all cores evaluate the same trained networks", 1, len(networks),
         "number of different networks, exact", len(networks) == 1),
        ("digits-integers", "on small integers all cores give the same logits, bit for bit", 1,
         len(controls), "number of different results, exact", len(controls) == 1),
        ("digits-accuracy", "the network reads at least 95 % of the test digits in fp32", 0.95,
         accuracy, "at least", accuracy >= 0.95),
    ]  # fmt: skip
    return [
        {
            "id": name,
            "section": "digits study",
            "claim": claim,
            "paper": expected,
            "ours": ours,
            "tolerance": tolerance,
            "verdict": "holds" if holds else "does not hold",
        }
        for name, claim, expected, ours, tolerance, holds in checks
    ]


def plot(results: dict[str, xr.Dataset], config: dict) -> dict[str, Figure]:
    """Differences from fp32, and between cores of one input format."""
    return {
        "figure_digits": _plot_differences(results),
        "figure_digits_pairs": _plot_pairs(results),
    }


def _plot_differences(results: dict[str, xr.Dataset]) -> Figure:
    import matplotlib.pyplot as plt
    import numpy as np

    from mfmamodels.figures import TWO_COLUMNS

    names = [name for name in results if name != _FP32]
    found = [differences(results[name], results[_FP32]) for name in names]
    total = results[_FP32].logits[..., 0].size
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(TWO_COLUMNS, 0.19 * len(names) + 1.1)
    )
    rows = np.arange(len(names))
    left.semilogx([d["largest"] for d in found], rows, "o", color="#0B3C7D", label="largest")
    left.semilogx([d["rms"] for d in found], rows, "s", mfc="white", color="#D55E00", label="rms")
    left.set_yticks(rows, names)
    left.invert_yaxis()
    left.set_xlabel("difference of a logit from fp32, relative")
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    counts = [d["predictions"] for d in found]
    right.barh(rows, counts, height=0.6, color="0.6", edgecolor="0.2", linewidth=0.5)
    for row, count in zip(rows, counts, strict=True):
        right.annotate(str(count), (count, row), (3, 0), textcoords="offset points", va="center")
    right.set_xlim(0, max([*counts, 1]) * 1.15)
    right.set_xlabel(f"predictions that differ from fp32, of {total}")
    return figure


def _plot_pairs(results: dict[str, xr.Dataset]) -> Figure:
    import matplotlib.pyplot as plt
    import numpy as np

    import mfmamodels as mm
    from mfmamodels.figures import TWO_COLUMNS

    families: dict[str, list[str]] = {}
    for name in results:
        families.setdefault(mm.core(name).a.name.removesuffix("uz").removesuffix("fn"), []).append(
            name
        )
    families = {family: names for family, names in families.items() if len(names) > 1}
    figure, axes = plt.subplots(
        1, max(len(families), 1), squeeze=False, figsize=(TWO_COLUMNS, 2.6),
        width_ratios=[len(names) for names in families.values()] or None,
    )  # fmt: skip
    for axis, (family, names) in zip(axes[0], families.items(), strict=False):
        share = np.array([[100 * differences(results[a], results[b])["bits"] for b in names]
                          for a in names])  # fmt: skip
        axis.imshow(share, cmap="Greys", vmin=0, vmax=200)
        for (i, j), value in np.ndenumerate(share):
            axis.text(j, i, f"{value:.0f}" if value >= 1 or value == 0 else f"{value:.1f}",
                      ha="center", va="center", fontsize=6.5)  # fmt: skip
        devices = [name.partition("/")[0] for name in names]
        axis.set_xticks(range(len(names)), devices, rotation=90)
        axis.set_yticks(range(len(names)), devices)
        axis.grid(False)
        axis.set_title(family)
    return figure
