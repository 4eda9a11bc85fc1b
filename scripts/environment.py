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
LOCK = os.path.join(ROOT, "requirements.lock")
PYTHON = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")
OLDEST = (3, 11)
# What nothing here imports, a third of all modules: not worth compiling ahead.
IDLE = r"[/\\](tests?|pip|setuptools|pkg_resources|sqlalchemy|mypy|mypyc)[/\\]"


def wanted():
    """Describe the environment that is wanted, as the text of the stamp.

    The folder belongs to it: an environment that was moved with its folder does not work. So does
    the Python it is made with, and everything that says what is installed.
    """
    import tomllib  # not at the top: an old Python has to get as far as main

    with open(LOCK, "rb") as file:
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


def alone():
    """Wait until no other process makes this environment; open until this one ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    file = open(os.path.join(ROOT, ".venv.lock"), "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("==> waiting for another process that makes .venv", flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def locked(name):
    """Lines of the lock about one package."""
    lines = []
    with open(LOCK) as file:
        for line in file:
            if line.startswith(name + "==") or (lines and line.startswith(" ")):
                lines.append(line)
            elif lines:
                break
    return "".join(lines)


def install_with_uv(pip):
    """Install the lock with uv, which takes a quarter of pip's time; whether that worked.

    It may not: no uv for this platform, or an index that only pip knows how to reach.
    """
    only_uv = os.path.join(VENV, "uv.lock")
    with open(only_uv, "w") as file:
        file.write(locked("uv"))
    quiet = ["--quiet", "--no-compile", "--require-hashes", "-r", only_uv]
    if subprocess.call(pip + quiet):
        return False
    index = subprocess.run(
        [PYTHON, "-m", "pip", "config", "get", "global.index-url"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True,
    )  # fmt: skip
    environment = dict(os.environ)
    url = os.environ.get("PIP_INDEX_URL") or index.stdout.strip()
    if url:
        environment.setdefault("UV_DEFAULT_INDEX", url)
    command = [PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON, "--require-hashes"]
    return subprocess.call(command + ["-r", LOCK], env=environment) == 0


def make():
    """Make the environment from nothing."""
    started = time.time()
    shutil.rmtree(VENV, ignore_errors=True)
    # Within an active .venv, sys.executable has just been removed.
    python = getattr(sys, "_base_executable", sys.executable)
    run("making a virtual environment in .venv", python, "-m", "venv", VENV)
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    print("==> installing the locked packages (about 800 MB, up to a minute or two)", flush=True)
    if not install_with_uv(pip):
        lock = ["--no-compile", "--require-hashes", "-r", LOCK]
        run("installing them with pip instead", *(pip + lock))
    # pip would do this on one core. What does not compile (a template, say) is not imported either.
    print("==> compiling the modules on all cores", flush=True)
    ours = [os.path.join(ROOT, name) for name in ("mfmamodels", "applications")]
    subprocess.call([PYTHON, "-m", "compileall", "-q", "-q", "-j", "0", "-x", IDLE, VENV] + ours)
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
    if is_complete():
        return
    alone_until_the_end = alone()
    if not is_complete():  # the other process may have made it
        make()
    del alone_until_the_end


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("error: interrupted; the next try starts afresh")
