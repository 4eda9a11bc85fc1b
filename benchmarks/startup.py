"""Timings of fresh processes: import, first call with and without compiled kernels on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

_PROGRAM = """
import json, sys, time
start = time.perf_counter()
import mfmamodels as mm
imported = time.perf_counter()
import numpy as np
for name in sys.argv[1:]:
    core = mm.core(name)
    a = np.ones((4, 16), core.a.dtype)
    core.matmul(a, np.ones((16, 4), core.b.dtype))
    core.dots(a, np.ones((4, 16), core.b.dtype))
done = time.perf_counter()
print(json.dumps({"import_s": imported - start, "first_s": done - imported}))
"""


def _run(names: list[str], cache: str) -> dict:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _PROGRAM, *names]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def startup(names: list[str]) -> dict:
    """Seconds to import, and to the end of a first product and first dot products of all cores.

    ``cold`` starts from an empty cache folder, ``cached`` from the one that the cold start filled.
    """
    with tempfile.TemporaryDirectory() as cache:
        return {"cold": _run(names, cache), "cached": _run(names, cache)}
