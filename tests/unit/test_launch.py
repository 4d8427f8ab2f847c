"""A script run by ``launch`` cannot tell that python did not run it itself."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROBE = '''"""What a script can see."""
from __future__ import annotations
import multiprocessing, os, pickle, sys
import __main__

class Mine:
    """Pickled by name: its module must be the one in sys.modules."""

def child(queue):
    queue.put((__name__, os.path.basename(__file__)))

def main():
    print(__name__, __doc__, __file__, __package__, globals().get("__annotations__"), __cached__)
    print(type(__loader__).__name__, getattr(__spec__, "name", None), __builtins__.__name__)
    print(sys.argv, sys.path[0], __main__.Mine is Mine)
    print(type(pickle.loads(pickle.dumps(Mine()))) is Mine)
    if "child" in sys.argv:
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(queue.get(timeout=300))
        process.join()
    if "raise" in sys.argv:
        try:
            {}["missing"]
        except KeyError as problem:
            raise ValueError("told") from problem
    if "exit" in sys.argv:
        sys.exit(7)
    if "words" in sys.argv:
        sys.exit("last words")
    if "interrupt" in sys.argv:
        raise KeyboardInterrupt
    if "hook" in sys.argv:
        sys.excepthook = lambda *_: print("my own hook")
        raise ValueError

if __name__ == "__main__":
    main()
'''

LAUNCH = """
import os, sys
sys.path[0] = os.getcwd()
from collectrace.launch import find
module = sys.argv[1] == "-m"
del sys.argv[1:1 + module]
sys.exit(find(sys.argv[1], sys.argv[2:], module=module).run())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "probe.py").write_text(PROBE)
    (tmp_path / "link.py").symlink_to(tmp_path / "scripts" / "probe.py")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\nprint(ascii('\xe9'))\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("import sys; print('import', sys.argv)")
    (package / "probe.py").write_text(PROBE)
    (package / "__main__.py").write_text(PROBE)
    (tmp_path / "hollow").mkdir()
    (tmp_path / "hollow" / "__init__.py").write_text("")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", PROBE.replace("os.path.basename(__file__)", "0"))
    return tmp_path


def outcome(home: Path, *command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "scripts/probe.py",
        "scripts/probe.py --lr 0.1 -m -- x",
        "./scripts/../scripts/probe.py",
        "link.py",
        "scripts/probe.py child",
        "scripts/probe.py raise",
        "scripts/probe.py exit",
        "scripts/probe.py words",
        "scripts/probe.py interrupt",
        "scripts/probe.py hook",
        "broken.py",
        "latin.py",
        "package",
        "archive.zip",
        "-m package.probe x",
        "-m package.probe child",
        "-m package.probe raise",
    ],
)
def test_it_is_as_if_python_ran_it(home: Path, command: str) -> None:
    alone = outcome(home, *command.split())
    launched = outcome(home, "-c", LAUNCH, *command.split())
    # python -m looks its module up through runpy, and shows those frames; scripts have none.
    frames = [line for line in alone[2].splitlines(keepends=True) if "<frozen runpy>" not in line]
    assert launched == (*alone[:2], "".join(frames))


def test_a_module_that_is_not_there(home: Path) -> None:
    status, _, err = outcome(home, "-c", LAUNCH, "-m", "package.nowhere")
    assert status == 1
    assert err.splitlines()[-1] == "ModuleNotFoundError: No module named package.nowhere"
    status, _, err = outcome(home, "-c", LAUNCH, "-m", "hollow")
    assert status == 1
    assert err.splitlines()[-1] == "ModuleNotFoundError: No module named hollow"


def test_nothing_is_written_beside_a_script(home: Path) -> None:
    outcome(home, "-c", LAUNCH, "scripts/probe.py")
    assert [file.name for file in (home / "scripts").iterdir()] == ["probe.py"]
