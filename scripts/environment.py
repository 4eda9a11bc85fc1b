"""Make .venv from requirements.lock where it is missing, outdated or was left half made.

Run by the Makefile with any Python that can start; so that an old one gets an answer instead of a
syntax error, this file keeps to what Python 3.6 understands.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "complete")
PYTHON = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")
OLDEST = (3, 11)


def wanted():
    """Describe the environment that is wanted, as the text of the stamp.

    The folder belongs to it: an environment that was moved with its folder does not work. So does
    the Python it is made with, and everything that says what is installed.
    """
    import tomllib  # not at the top: an old Python has to get as far as main

    with open(os.path.join(ROOT, "requirements.lock"), "rb") as file:
        digest = hashlib.sha256(file.read())
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    # Settings of linters are no reason to install anything.
    parts = [project["build-system"], project["project"], project["tool"]["hatch"]]
    digest.update(repr(parts).encode())
    base = getattr(sys, "base_prefix", sys.prefix)
    return "\n".join([digest.hexdigest(), ROOT, base, sys.version]) + "\n"


def is_complete():
    """Whether the stamp, which is written last, is there and says what is wanted."""
    try:
        with open(STAMP) as file:
            return file.read() == wanted() and subprocess.call([PYTHON, "-c", ""]) == 0
    except OSError:
        return False


def run(what, *command):
    """Run one step, saying what it is; end with its status if it fails."""
    print("==> " + what, flush=True)
    status = subprocess.call(command)
    if status:
        sys.exit("error: " + what + " failed (status %d); the next try starts afresh" % status)


def make():
    """Make the environment from nothing."""
    started = time.time()
    shutil.rmtree(VENV, ignore_errors=True)
    # Within an active .venv, sys.executable has just been removed.
    python = getattr(sys, "_base_executable", sys.executable)
    run("making a virtual environment in .venv", python, "-m", "venv", VENV)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    lock = ["--no-compile", "--require-hashes", "-r", os.path.join(ROOT, "requirements.lock")]
    run("installing the locked packages (about 800 MB, a minute or two)", *(pip + lock))
    # pip would do this on one core. What does not compile (a template, say) is not imported either.
    print("==> compiling the modules on all cores", flush=True)
    ours = [os.path.join(ROOT, name) for name in ("mfmamodels", "applications")]
    subprocess.call([PYTHON, "-m", "compileall", "-q", "-q", "-j", "0", VENV] + ours)
    run(
        "installing mfmamodels itself, editable",
        *(pip + ["--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT]),
    )
    with open(STAMP, "w") as file:
        file.write(wanted())
    print("==> the environment is ready after %.0f s" % (time.time() - started), flush=True)


def main():
    """Make the environment if needed."""
    if sys.version_info < OLDEST:
        sys.exit(
            "error: Python 3.11 or newer is needed, and %s is %d.%d; name another with "
            "`make PYTHON=python3.12 ...`" % ((sys.executable,) + sys.version_info[:2])
        )
    if not is_complete():
        make()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("error: interrupted; the next try starts afresh")
