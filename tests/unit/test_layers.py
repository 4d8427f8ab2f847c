"""The house: which module may know which, and what is not imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import collectrace

ROOT = Path(collectrace.__file__).parent

# Top to bottom; a module may import from floors below its own, and within its own wing. The doors
# (cli, its commands, testing, both __main__) are the only places where wings meet.
FLOORS = (
    {"__main__", "align.__main__"},
    {"cli"},
    {"commands", "testing", "autoload", "debug"},
    {"", "launch", "gather", "redact", "schema", "tracer", "align", "report", "doctor"},
    {"foreign"},
    {"ras"},
    {"words", "chain", "views", "internal"},
    {"signature", "findings", "privacy"},
    {"overview"},
    {"records", "roles", "config", "exceptions", "exchange"},
    {"tabular"},
    {
        "ops",
        "archives",
        "errors",
        "members",
        "dumps",
        "version",
        "quiet",
        "log_folder",
        "printable",
        "job_store",
        "source_text",
        "file_modes",
    },
)

# The rooms of a wing in the order of the data: a room imports only rooms before it, and what stands
# on top of all of them imports any. Files of the wing itself have a place of their own.
ROOMS = {
    "align": (
        {"align.reading"},
        {"align.matching"},
        {"align.ranks"},
        {"align.code"},
        {"align.judging", "align.deciding"},  # blame weighs what decided between the sides
        {"align.causes"},
        {"align.excerpts"},
        {"align.observations"},
        {"align.overview"},
        {"align.alignment"},
        {"align.browsing"},
        {"align.follow"},
        {"align"},
        {"align.__main__"},
    ),
    "tracer": (
        {
            "tracer",
            "tracer.guard",
            "tracer.user_objects",
            "tracer.user_text",
            "tracer.dynamo",
            "tracer.torch_api",
        },
        {"tracer.tap"},
        {"tracer.record"},
        {"tracer.values"},
        {"tracer.life"},
        {"tracer.online"},
        {"tracer.session"},
        {"tracer.patches"},
        {"tracer.switch"},
    ),
}
WITHOUT_TORCH = (
    "align", "foreign", "ras", "report", "doctor", "", "autoload", "cli", "commands", "testing",
    "launch", "gather", "schema", "exchange", "job_store",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Dotted name below the package to file; the package itself is the empty name."""
    found = {}
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = file
    return found


MODULES = modules()


@cache
def imports(file: Path, *, eager: bool = False) -> tuple[str, ...]:
    """Every module that a file imports, its lazy imports included unless ``eager``."""
    return tuple(_imports(file, eager=eager))


def _imports(file: Path, *, eager: bool) -> Iterator[str]:
    tree = ast.parse(file.read_text())
    nodes = _at_import(tree) if eager else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            assert node.module is not None
            for alias in node.names:
                inside = f"{node.module}.{alias.name}".removeprefix("collectrace.")
                is_module = node.module.startswith("collectrace") and inside in MODULES
                yield f"{node.module}.{alias.name}" if is_module else node.module


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: no function bodies, nothing for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_import(child)


def inner(name: str) -> str | None:
    """A module's name below the package; None for what is not ours."""
    if name == "collectrace":
        return ""
    return name.removeprefix("collectrace.") if name.startswith("collectrace.") else None


def place(module: str) -> tuple[int, str]:
    """Floor, and wing (or module) on it."""
    for floor, names in enumerate(FLOORS):
        for name in (module, module.partition(".")[0]):
            if name in names:
                return floor, name
    raise AssertionError(f"collectrace/{module} has no place in the house: give it one in FLOORS")


def targets(module: str) -> set[str]:
    """What of ours a module imports. Not the package itself: it imports nothing but config."""
    return {target for name in imports(MODULES[module]) if (target := inner(name))}


def points_down(module: str, target: str) -> bool:
    floor, wing = place(module)
    their_floor, their_wing = place(target)
    # `enable` is the package's own front: it reaches into the tracer, and only when called.
    return their_floor > floor or their_wing == wing or (module == "" and their_wing == "tracer")


def test_arrows_only_point_down() -> None:
    pairs = ((module, target) for module in MODULES for target in {module, *targets(module)})
    assert [pair for pair in pairs if not points_down(*pair)] == []


def room(module: str) -> int:
    """The place of a module's room in its wing, from the first that the data come to."""
    wing = module.partition(".")[0]
    for number, names in enumerate(ROOMS[wing]):
        if module in names or module.rpartition(".")[0] in names - {wing}:
            return number
    raise AssertionError(f"collectrace/{module} is in no room: give it one in ROOMS")


def test_rooms_follow_the_way_of_the_data() -> None:
    pairs = (
        (module, target)
        for module in MODULES
        if module.partition(".")[0] in ROOMS
        for target in {module, *targets(module)}
        if target.partition(".")[0] == module.partition(".")[0]
    )
    assert [(one, other) for one, other in pairs if room(other) > room(one)] == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports for type checkers and imports inside functions counted."""
    graph = {
        module: {target for name in imports(file) if (target := inner(name)) in MODULES} - {module}
        for module, file in MODULES.items()
    }
    # What imports nothing that is left, or is imported by nothing that is left, is in no circle.
    while True:
        wanted = set().union(*graph.values())
        kept = {
            m: targets & graph.keys() for m, targets in graph.items() if targets and m in wanted
        }
        if kept == graph:
            break
        graph = kept
    assert not graph, "\n".join(f"{m} imports {sorted(targets)}" for m, targets in graph.items())


def test_only_the_tracer_imports_torch() -> None:
    for module in MODULES:
        if module.partition(".")[0] in WITHOUT_TORCH or module in WITHOUT_TORCH:
            # The ranks that `testing` starts are processes of torch, and their functions import it.
            file = MODULES[module]
            names = imports(file, eager=True) if module == "testing" else imports(file)
            assert "torch" not in {name.partition(".")[0] for name in names}, module


def imported_by(*command: str) -> set[str]:
    """The packages a fresh process has imported at its end."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        + "\n".join(command)
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    return {line.strip() for line in done.stderr.splitlines()}


MAIN = "import runpy; sys.argv[1:] = {}; runpy.run_module({!r}, run_name='__main__')"


@pytest.mark.parametrize(
    "command",
    [
        "import collectrace",
        "import collectrace.align",
        "import collectrace.testing",
        MAIN.format(["--help"], "collectrace.align"),
        MAIN.format(["--help"], "collectrace"),
        MAIN.format(["--version"], "collectrace"),
        MAIN.format(["schema"], "collectrace"),
        MAIN.format(["schema", "--findings"], "collectrace"),
    ],
)
def test_a_fresh_process_imports_nothing_heavy(command: str) -> None:
    loaded = imported_by(command)
    assert "collectrace" in loaded
    assert not loaded & {"torch", "numpy", "wrapt", "networkx", "jinja2", "fsspec"}


@pytest.mark.parametrize("module", ["collectrace", "collectrace.align"])
def test_help_imports_no_rich(module: str) -> None:
    assert "rich" not in imported_by(MAIN.format(["--help"], module))
