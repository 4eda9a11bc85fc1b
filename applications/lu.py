"""Mixed-precision LU with iterative refinement on matrix cores (in the manner of HPL-MxP).

How far can a factorisation whose trailing updates run on a core be refined to double precision?
Theory (Carson and Higham, SIAM J. Sci. Comput. 40(2), 2018) has refinement converge while
``kappa(A) * u`` is below one, ``u`` being the precision of the factors, and GMRES-based refinement
well beyond. The updates' operands are rounded to the core's format, so ``u`` is that of the format;
accumulation differs between cores, and this study shows how much that matters.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

TITLE = "Mixed-precision LU with iterative refinement"

_CORES = [
    "MI100/fp16", "MI250/fp16", "MI300X/fp16", "B200/fp16", "A100/fp16",
    "MI300X/bf16", "B200/bf16", "MI300X/xf32", "A100/tf32",
    "MI300X/e4m3fnuz", "H100/e4m3fn", "MI300X/e5m2fnuz", "H100/e5m2",
]  # fmt: skip
_SINGLE = "single"  # the same algorithm with numpy's float32 product

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
            "description": "Cores that the trailing updates run on.",
        },
        "order": {
            "type": "integer",
            "minimum": 2,
            "maximum": 4096,
            "default": 128,
            "description": "Order n of the matrices.",
        },
        "block": {
            "type": "integer",
            "minimum": 1,
            "maximum": 512,
            "default": 32,
            "description": "Columns per panel, and K of the products.",
        },
        "log10_conditions": {
            "type": "array",
            "items": {"type": "number", "minimum": 0, "maximum": 16},
            "minItems": 1,
            "default": [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12],
            "description": "Decimal logarithms of the 2-norm condition numbers.",
        },
        "draws": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 3,
            "description": "Random matrices per condition number.",
        },
    },
}

# Corrections allowed, and the relative residual and dimension of GMRES within one of them.
_LIMIT = 60
_GMRES_OUTER, _GMRES_TOLERANCE = 10, 1e-6


def jobs(config: dict) -> list[str]:
    """One job per core, and one with numpy's float32 product."""
    return [_SINGLE, *config["cores"]]


def figures(config: dict) -> list[str]:
    """Names of the study's figures."""
    return ["figure_lu_refinement"]


CAPTIONS = {
    "figure_lu_refinement": "LU factorisation with trailing updates on a matrix core, refined in "
    "binary64, over the condition number of random matrices with geometrically spaced singular "
    "values (medians over the draws). Top: backward error of the factorisation; "
    "middle: corrections until the backward error of the solution is at the level of binary64; "
    "bottom: total GMRES steps where each correction is solved by preconditioned GMRES. A curve "
    "ends where half of the draws no longer converge.",
}


def run(job: str, config: dict, seed: int, progress: Any = None) -> xr.Dataset:
    """Factorise and refine every matrix of the study on one core."""
    import numpy as np

    from applications import _lu_solver as solver

    multiply = _multiplier(job)
    conditions, draws = config["log10_conditions"], config["draws"]
    rows: dict[str, list] = {name: [] for name in _VARIABLES}
    for i, exponent in enumerate(conditions):
        for draw in range(draws):
            matrix, b = _problem(config["order"], exponent, seed, draw)
            _add_row(rows, matrix, b, multiply, config["block"], solver)
        if progress is not None:
            progress(i + 1, len(conditions), f"condition 1e{exponent:g}")
    shape = (len(conditions), draws)
    dataset = _dataset({k: np.reshape(v, shape) for k, v in rows.items()}, conditions, draws)
    dataset.attrs["core"] = job
    dataset.attrs["unit_roundoff"] = _unit_roundoff(job)
    dataset.attrs["integer_control"] = _integer_control(multiply, config["block"], seed, solver)
    return dataset


_VARIABLES = {
    "factor_error": ("1", "backward error of the factorisation, max|PA-LU|/max|A|"),
    "status": ("1", "outcome of refinement: 0 converged, 1 limit, 2 stagnated, 3 not finite"),
    "iterations": ("1", "corrections of refinement"),
    "solution_error": ("1", "normwise backward error after refinement"),
    "gmres_status": ("1", "outcome of GMRES-based refinement, coded as status"),
    "gmres_iterations": ("1", "corrections of GMRES-based refinement"),
    "gmres_steps": ("1", "GMRES steps in all corrections together"),
    "gmres_solution_error": ("1", "normwise backward error after GMRES-based refinement"),
}


def _dataset(values: dict, conditions: list[float], draws: int) -> xr.Dataset:
    import numpy as np
    import xarray as xr

    data = {
        name: (("condition", "draw"), values[name], {"units": units, "long_name": long_name})
        for name, (units, long_name) in _VARIABLES.items()
    }
    coordinates = {
        "condition": ("condition", 10.0 ** np.asarray(conditions, float),
                      {"units": "1", "long_name": "2-norm condition number"}),
        "draw": np.arange(draws),
    }  # fmt: skip
    return xr.Dataset(data, coordinates)


def _multiplier(job: str) -> Any:
    """Product with addend for the trailing updates, ``(A, B, C) -> A @ B + C``."""
    import mfmamodels as mm

    if job == _SINGLE:
        return lambda a, b, c: c + a @ b
    core = mm.core(job)

    def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        a = mm.round_to(a, core.a, overflow="nan")
        b = mm.round_to(b, core.b, overflow="nan")
        return core.matmul(a, b, c)

    return multiply


def _unit_roundoff(job: str) -> float:
    """Half the spacing of the update's operands at one; twice that where the core truncates."""
    import mfmamodels as mm

    if job == _SINGLE:
        return 2.0**-24
    return 2.0 ** -mm.core(job).a.precision


def _problem(order: int, exponent: float, seed: int, draw: int) -> tuple[Any, Any]:
    """Random matrix with singular values from 1 to 10**-exponent, and a right-hand side.

    Both depend on the root seed, the condition number and the draw, but not on the core.
    """
    import numpy as np

    stream = zlib.crc32(f"lu {order} {exponent:g}".encode())
    rng = np.random.default_rng([seed, stream, draw])
    left, right = (np.linalg.qr(rng.standard_normal((order, order)))[0] for _ in range(2))
    singular = 10.0 ** (-exponent * np.linspace(0, 1, order))
    matrix = (left * singular) @ right
    # A power of two brings the largest entry to [1, 2): 8-bit formats then lose little to
    # their smallest value, and pivots can grow a hundredfold before they overflow.
    matrix = np.ldexp(matrix, 1 - np.frexp(np.abs(matrix).max())[1])
    return matrix, rng.uniform(-1, 1, order)


def _add_row(rows: dict, matrix: Any, b: Any, multiply: Any, block: int, solver: Any) -> None:
    import numpy as np

    tolerance = 2.0**-53 * np.sqrt(len(b))
    factors = solver.factorise(matrix.astype(np.float32), multiply, block)
    plain = solver.refine(matrix, b, factors, tolerance=tolerance, limit=_LIMIT)
    correct = solver.gmres_correction(
        matrix, factors, tolerance=_GMRES_TOLERANCE, limit=len(b) // 2 or 1
    )
    krylov = solver.refine(
        matrix, b, factors, tolerance=tolerance, limit=_GMRES_OUTER, correct=correct
    )
    rows["factor_error"].append(factors.backward_error(matrix) if factors.finite else np.inf)
    rows["status"].append(plain.status)
    rows["iterations"].append(plain.iterations)
    rows["solution_error"].append(plain.history[-1] if plain.history else np.nan)
    rows["gmres_status"].append(krylov.status)
    rows["gmres_iterations"].append(krylov.iterations)
    rows["gmres_steps"].append(krylov.inner_iterations)
    rows["gmres_solution_error"].append(krylov.history[-1] if krylov.history else np.nan)


def _integer_control(multiply: Any, block: int, seed: int, solver: Any) -> str:
    """Digest of the factors of a matrix of small integers, on which all cores must agree.

    The factors have entries -1, 0 and 1 (with unit diagonals), so that elimination divides by
    one only, and all sums are integers that every format and accumulator holds.
    """
    import hashlib

    import numpy as np

    rng = np.random.default_rng([seed, zlib.crc32(b"lu integers")])
    n = 2 * block + block // 2 + 1
    lower = np.tril(rng.integers(-1, 2, (n, n)) * (rng.random((n, n)) < 4 / n), -1) + np.eye(n)
    upper = np.triu(rng.integers(-1, 2, (n, n)) * (rng.random((n, n)) < 4 / n), 1) + np.eye(n)
    lu = solver.factorise((lower @ upper).astype(np.float32), multiply, block)
    return hashlib.sha256(lu.lu.tobytes() + lu.permutation.tobytes()).hexdigest()[:16]


def convergent_limit(dataset: xr.Dataset, status: str = "status") -> float:
    """Largest condition number up to which at least half of the draws converge, 0 if none."""
    import numpy as np

    converged = (dataset[status] == 0).mean("draw").values >= 0.5
    reached = int(np.argmin(converged)) if not converged.all() else len(converged)
    return float(dataset.condition.values[reached - 1]) if reached else 0.0


def claims(results: dict[str, xr.Dataset], config: dict) -> list[dict]:
    """Check theory and the control on integers: this study is ours, so `paper` is theory's word."""
    digests = {r.attrs["integer_control"] for r in results.values()}
    integers = {
        "id": "lu-integers",
        "section": "LU study",
        "claim": "on small integers all cores give the same factors, bit for bit",
        "paper": 1,
        "ours": len(digests),
        "tolerance": "number of different results, exact",
        "verdict": "holds" if len(digests) == 1 else "does not hold",
    }
    return [integers] + [
        _convergence_claim(job, dataset, status, name)
        for job, dataset in results.items()
        for status, name in (("status", "refinement"), ("gmres_status", "GMRES-based refinement"))
    ]


def _convergence_claim(job: str, dataset: xr.Dataset, status: str, name: str) -> dict:
    """Theory promises convergence below a modest constant times 1/u; a tenth allows for it."""
    conditions = dataset.condition.values
    promised = 0.1 / dataset.attrs["unit_roundoff"]
    tested = float(conditions[conditions <= promised].max(initial=0))
    limit = convergent_limit(dataset, status)
    return {
        "id": f"lu-{job}-{status}",
        "section": "LU study",
        "claim": f"{name} on {job} converges up to a condition number of 0.1/u",
        "paper": min(promised, float(conditions[-1])),
        "ours": limit,
        "tolerance": "at least, on the grid of the study",
        "verdict": "holds" if limit >= tested else "does not hold",
    }


def plot(results: dict[str, xr.Dataset], config: dict) -> dict[str, Figure]:
    """Factorisation error, corrections and GMRES steps over the condition number."""
    import matplotlib.pyplot as plt

    from mfmamodels.figures import TWO_COLUMNS

    families = _families(results)
    figure, axes = plt.subplots(
        3, len(families), sharex=True, sharey="row", squeeze=False,
        figsize=(TWO_COLUMNS, 6.4),
    )  # fmt: skip
    panels = [
        ("factor_error", None, "factorisation error"),
        ("iterations", "status", "corrections"),
        ("gmres_steps", "gmres_status", "GMRES steps"),
    ]
    for column, (family, members) in enumerate(families.items()):
        for row, (variable, status, label) in enumerate(panels):
            _panel(axes[row, column], members, results, variable, status)
            if column == 0:
                axes[row, 0].set_ylabel(label)
        axes[0, column].set_title(family)
        axes[0, column].legend(loc="upper left", fontsize=6.5, handlelength=2.2)
        axes[2, column].set_xlabel(r"condition number $\kappa_2(A)$")
    axes[0, 0].set_yscale("log")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low, high * 30)  # room for the legends
    for row in (1, 2):
        _count_axis(axes[row, 0])
    return {"figure_lu_refinement": figure}


def _count_axis(axis: Any) -> None:
    """Small counts on a logarithmic axis, labelled 1, 2, 5, 10, ..."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _families(results: dict) -> dict[str, list[str]]:
    """Cores by the precision of their operands; the float32 run is drawn with the most precise."""
    titles = {11: "fp16, xf32, tf32", 8: "bf16", 4: "e4m3", 3: "e5m2"}
    families: dict[str, list[str]] = {}
    for job in results:
        if job != _SINGLE:
            import mfmamodels as mm

            bits = mm.core(job).a.precision
            families.setdefault(titles.get(bits, f"{bits} bits"), []).append(job)
    if _SINGLE in results:
        families.setdefault(next(iter(families), _SINGLE), []).append(_SINGLE)
    return families


def _panel(axis: Any, jobs: list[str], results: dict, variable: str, status: str | None) -> None:
    """Medians over the draws, where at least half of them converge."""
    from mfmamodels.figures import appearance

    for job in jobs:
        dataset = results[job]
        values = dataset[variable].median("draw")
        if status is not None:
            values = values.where((dataset[status] == 0).mean("draw") >= 0.5)
        look = appearance("double" if job == _SINGLE else job.partition("/")[0]).line()
        axis.plot(dataset.condition, values, label=job, **look)
    axis.set_xscale("log")
