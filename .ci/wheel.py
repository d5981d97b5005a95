"""Check a wheel with compiled code: `python .ci/wheel.py PYTHON OTHER`.

The environment of the interpreter PYTHON has the wheel and the numba for which its code was
compiled. The environment of OTHER has the wheel and another version of numba.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Largest processor time from the end of the import to the first predictions, in seconds.
MOST_SECONDS = 1.0
ONE = "AdaptiveMondrianForestClassifier"
SMALL = "NearestNeighborDetector"

CLASSES = """
import json
from river_mondrian.__main__ import estimators
print(json.dumps(estimators()))
"""

PROBE = """
import json, os, sys, threading, time
import river_mondrian
from river_mondrian.compiling.first_calls import WATCH
from river_mondrian.rehearsal import call_first

def use():
    call_first(getattr(river_mondrian, sys.argv[1])())

start = time.process_time()
if sys.argv[2] == "threads":
    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif sys.argv[2] == "fork":
    child = os.fork()
    use()
    if not child:
        os._exit(len(WATCH.names))
    assert os.waitpid(child, 0)[1] == 0
else:
    use()
print(json.dumps([time.process_time() - start, WATCH.names]))
"""


def run(python, code, *arguments, **environ):
    """Run code in a process of an interpreter; return the parsed output and the stderr."""
    done = subprocess.run(
        [python, "-P", "-c", code, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return json.loads(done.stdout), done.stderr


def check(is_right, text):
    """Exit with a text if a condition is false."""
    if not is_right:
        raise SystemExit(text)


def check_loaded(python, home, name, how="plain", **environ):
    """Check that first calls of a class compile nothing and log nothing.

    If `how` is "plain", also check that they take at most `MOST_SECONDS`.
    """
    (seconds, compiled), reported = run(python, PROBE, name, how, HOME=str(home), **environ)
    print(f"{name}, {how} {environ or ''}: {seconds:.2f} s", flush=True)
    check(not compiled and not reported, f"compiled: {compiled}; reported: {reported}")
    check(how != "plain" or seconds <= MOST_SECONDS, f"more than {MOST_SECONDS} s")


def check_compiled(python, cache, why):
    """Check that a class is compiled, with one line in the log, if stored code cannot be used."""
    (_, compiled), reported = run(python, PROBE, SMALL, "plain", NUMBA_CACHE_DIR=str(cache))
    print(f"{SMALL}: {reported.strip()}", flush=True)
    check(compiled, "nothing was compiled")
    check(reported.count("\n") == 1 and why in reported, f"reported: {reported}")


def main(python, other):
    """Check the wheel in both environments."""
    place = "import json, river_mondrian; print(json.dumps(river_mondrian.__path__[0]))"
    package = Path(run(python, place)[0])
    code = package / "compiled"
    files = sorted(package.rglob("*"))
    size = sum(path.stat().st_size for path in code.iterdir())
    print(f"{len(list(code.iterdir()))} files of compiled code, {size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        # No folder can be created below a file.
        home = scratch / "file"
        home.write_text("")
        for name in run(python, CLASSES)[0]:
            check_loaded(python, home / "below", name)
        for how in ("threads", "fork"):
            check_loaded(python, home / "below", ONE, how)
        check_loaded(python, home / "below", ONE, NUMBA_CPU_NAME="generic")
        # Simulate a read-only file system with files of another user.
        for path in (code, *code.iterdir()):
            path.chmod(path.stat().st_mode & ~0o222)
            if not os.geteuid():
                os.chown(path, 65534, 65534)
        check_loaded(python, home / "below", ONE)
        check(sorted(package.rglob("*")) == files, "a file was written into the package")

        check_compiled(other, scratch / "other", "it was made for numba")
        for path in code.glob("*.nbc"):
            shutil.copyfile(path, scratch / path.name)
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:-1])
        check_compiled(python, scratch / "damaged", "kernels are compiled")
        for path in code.glob("*.nbc"):
            shutil.copyfile(scratch / path.name, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
