"""Which line is named: real frames, compiled from files of the user, of libraries, of torch."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import site as site_packages
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Final

import pytest
import torch
import wrapt

import collectrace
from collectrace.tracer.record import owners, sites

PACKAGES: Final = Path(sysconfig.get_path("purelib"))
TORCH: Final = Path(torch.__file__).parent

PASS_ON = """\
def caller(function):
    padding = 1
    return function(
        # the line of the call is the one it begins on
    )
"""
CALL_LINE = 3


def module(path: str | Path, source: str = PASS_ON) -> dict[str, Any]:
    """What a file at this path defines, whether or not it is there."""
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    return names


def stack(*paths: str | Path) -> sites.Place:
    """The place that is found from below these files, each calling the next one."""
    call: Callable[[], sites.Place] = _find
    for path in reversed(paths):
        call = functools.partial(module(path)["caller"], call)
    # On a thread of its own, below which there is nothing of the tests, but Python alone.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _find() -> sites.Place:
    return sites.find(sys._getframe(1))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user's."""
    return tmp_path / "train.py"


def named(*paths: str | Path) -> tuple[str | None, str | None]:
    return sites.resolve(stack(*paths))


def at(path: str | Path, line: int = CALL_LINE) -> str:
    return f"{path}:{line}"


# -- which frame ----------------------------------------------------------------------------


def test_the_innermost_line_of_the_user_is_named(mine: Path, tmp_path: Path) -> None:
    helper = tmp_path / "lib" / "metrics.py"
    assert named(mine, helper, TORCH / "distributed" / "distributed_c10d.py") == (at(helper), None)


def test_a_library_between_is_named_as_the_way(mine: Path) -> None:
    outer, inner = PACKAGES / "lightning" / "trainer.py", PACKAGES / "lightning" / "strategy.py"
    below = TORCH / "nn" / "parallel" / "distributed.py"
    assert named(mine, outer, inner, below) == (at(mine), at(inner))


def test_a_library_that_calls_the_user_back_is_not_between(mine: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    assert named(mine, PACKAGES / "lightning" / "trainer.py", hook) == (at(hook), None)


def test_without_a_line_of_the_users_the_innermost_of_a_library_is_named() -> None:
    outer, inner = PACKAGES / "lightning" / "cli.py", PACKAGES / "accelerate" / "loop.py"
    assert named(outer, inner, TORCH / "_tensor.py") == (at(inner), None)


def test_torch_alone_and_python_alone_name_nothing() -> None:
    stdlib = Path(sysconfig.get_path("stdlib"))
    assert stack(stdlib / "threading.py", TORCH / "_tensor.py") == sites.NOWHERE
    assert named(stdlib / "threading.py", TORCH / "_tensor.py") == (None, None)
    assert sites.find(None) == sites.NOWHERE


@pytest.mark.parametrize(
    "path",
    [
        TORCH / "distributed" / "fsdp" / "_runtime_utils.py",
        Path(sysconfig.get_path("stdlib")) / "contextlib.py",
        Path(collectrace.__file__).parent / "tracer" / "patches" / "scoping.py",
        PACKAGES / "wrapt" / "wrappers.py",
        PACKAGES / "typing_extensions.py",
        "<frozen runpy>",
        "<string>",
        "/tmp/torchinductor_ann/ab/cab.py",
    ],
    ids=str,
)
def test_what_nobody_would_open_is_looked_through(path: str | Path, mine: Path) -> None:
    assert named(mine, path) == (at(mine), None)
    assert owners.classify(module(path)["caller"].__code__) == owners.TORCH


@pytest.mark.parametrize("path", ["<stdin>", "<ipython-input-3-0a1b>", "/tmp/ipykernel_7/99.py"])
def test_a_cell_is_the_users_own(path: str, mine: Path) -> None:
    assert named(mine, path) == (at(path), None)


def test_only_installed_packages_are_libraries(tmp_path: Path) -> None:
    """Folders of the user's may have any name, but for those that this Python imports from."""
    for path in (
        tmp_path / "torch" / "train.py",
        tmp_path / "collectrace" / "tracer" / "train.py",
        tmp_path / "old-venv" / "site-packages" / "mine.py",
    ):
        assert owners.classify(module(path)["caller"].__code__) == owners.USER, path
    for folder in (PACKAGES, Path(site_packages.getusersitepackages())):
        code = module(folder / "megatron" / "training.py")["caller"].__code__
        assert owners.classify(code) == owners.LIBRARY, folder
    # A library's own folder of that name is no plumbing.
    nested = PACKAGES / "lightning" / "wrapt" / "x.py"
    assert owners.classify(module(nested)["caller"].__code__) == owners.LIBRARY


def test_this_pythons_own_wrapt_is_looked_through() -> None:
    @wrapt.decorator
    def through(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    @through
    def called() -> tuple[str | None, str | None]:
        return sites.here(0)

    site, via = called()
    assert via is None
    assert site is not None
    assert site.startswith(f"{__file__}:")


# -- which line -----------------------------------------------------------------------------


def test_the_line_is_the_calls_and_not_the_functions(mine: Path) -> None:
    source = "def f(call):\n    a = 1\n\n    for _ in 'x':\n        a = (\n call())\n    return a\n"
    place = module(mine, source)["f"](_find)
    assert sites.resolve(place) == (at(mine, 6), None)


def test_two_calls_on_one_line_of_code_are_two_places_and_one_site(mine: Path) -> None:
    first, second = module(mine, "def f(call):\n    return call(), call()\n")["f"](_find)
    assert first != second
    assert sites.resolve(first) == sites.resolve(second) == (at(mine, 2), None)


def test_one_call_in_a_loop_is_one_place(mine: Path) -> None:
    places = module(mine, "def f(call):\n    return [call() for _ in range(3)]\n")["f"](_find)
    assert len(set(places)) == 1


def test_the_script_itself_has_lines_too(mine: Path) -> None:
    """At the top level of a file, there is no function."""
    found: list[sites.Place] = []
    names: dict[str, Any] = {"found": found, "find": _find}
    exec(compile("x = 1\n\nfound.append(find())\n", str(mine), "exec"), names)
    assert [sites.resolve(place) for place in found] == [(at(mine, 3), None)]


def test_a_relative_path_is_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named("train.py") == (at(tmp_path / "train.py"), None)


def test_a_relative_path_stays_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code = compile("", "train.py", "exec")
    assert sites.line(code, 0).startswith("train.py:")


def test_an_instruction_of_no_line_is_told_by_where_its_code_begins(mine: Path) -> None:
    code = module(mine, "\n\ndef f():\n    pass\n")["f"].__code__
    assert sites.line(code, 10_000) == at(mine, 3)


def test_here_is_the_line_that_calls() -> None:
    def helper(depth: int) -> tuple[str | None, str | None]:
        return sites.here(depth)

    def lines_of(function: Any) -> set[str]:
        return {at(__file__, n) for _, _, n in function.__code__.co_lines() if n}

    def by_default() -> tuple[str | None, str | None]:
        return sites.here()

    inside, outside, default = helper(0)[0], helper(1)[0], by_default()[0]
    line = sys._getframe().f_lineno - 1
    assert inside in lines_of(helper)
    assert outside == default == at(__file__, line)


# -- checkouts ------------------------------------------------------------------------------


@pytest.fixture
def no_libraries() -> Iterator[None]:
    yield
    sites.have_libraries(())


def test_a_folder_may_be_named_as_a_librarys(
    mine: Path, tmp_path: Path, no_libraries: None
) -> None:
    """Also where its lines were seen before, and never one whose name only begins so."""
    inner, near = tmp_path / "framework" / "loop.py", tmp_path / "framework-mine" / "loop.py"
    codes = [module(path)["caller"].__code__ for path in (inner, near)]
    assert [owners.classify(code) for code in codes] == [owners.USER, owners.USER]
    sites.have_libraries([tmp_path / "framework"])
    assert [owners.classify(code) for code in codes] == [owners.LIBRARY, owners.USER]
    assert named(mine, inner) == (at(mine), at(inner))
    sites.have_libraries(())
    assert [owners.classify(code) for code in codes] == [owners.USER, owners.USER]


def test_a_known_framework_is_a_library_in_the_folder_it_was_imported_from(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "Megatron-LM" / "megatron"
    (checkout / "core").mkdir(parents=True)  # without __init__.py, as Megatron's own
    monkeypatch.syspath_prepend(tmp_path / "Megatron-LM")
    inner = checkout / "core" / "parallel_state.py"
    script = tmp_path / "Megatron-LM" / "pretrain_gpt.py"
    own = tmp_path / "work" / "megatron" / "train.py"
    importlib.import_module("megatron.core")
    try:
        for path, owner in ((inner, owners.LIBRARY), (script, owners.USER), (own, owners.USER)):
            assert owners.classify(module(path)["caller"].__code__) == owner, path
        assert named(script, inner) == (at(script), at(inner))
    finally:
        for name in ("megatron.core", "megatron"):
            del sys.modules[name]


# -- what is remembered ---------------------------------------------------------------------


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Code objects, and stacks, are forgotten soon."""
    monkeypatch.setattr(owners, "_MAX_CODES", 8)
    monkeypatch.setattr(sites, "_MOST_WALKED", 50)
    monkeypatch.setattr(sites, "_MOST_NODES", 100)
    sites._seen.forget()
    yield 8
    owners._owners.clear()
    owners.torch_codes.clear()


def nodes(below: Iterable[sites._Node]) -> int:
    return sum(1 + nodes(node.others.values()) for node in below)


def test_programs_that_generate_code_without_end_fill_no_memory(
    mine: Path, small_memory: int
) -> None:
    owners._owners.clear()
    owners.torch_codes.clear()
    for n in range(5 * small_memory):
        generated = mine.with_name(f"generated{n}.py")
        assert named(mine, generated, TORCH / "x.py") == (at(generated), None)
        assert len(owners._owners) <= small_memory
        assert len(owners.torch_codes) <= small_memory
        assert nodes(sites._innermost.values()) <= 100
        assert len(sites._seen._places) <= 100


def test_a_stack_that_was_seen_before_is_only_looked_up(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = module(mine)["caller"]
    library, below = module(PACKAGES / "x.py")["caller"], module(TORCH / "x.py")["caller"]
    call = functools.partial(user, functools.partial(library, functools.partial(below, _find)))
    found = []
    for _ in range(2):
        found.append(call())
        monkeypatch.setattr(owners, "_classify_path", None)
        monkeypatch.setattr(sites._Seen, "learn", None)
    assert found[0] is found[1]


def test_the_code_of_a_place_is_not_another_ones(mine: Path) -> None:
    """Stacks are found by addresses: the code they stand for is kept, or others would get them."""
    place = stack(mine, PACKAGES / "x.py")
    gc.collect()
    via, site = (code for code, _ in place.frames)
    assert isinstance(site, CodeType)
    assert isinstance(via, CodeType)
    assert (site.co_filename, via.co_filename) == (str(mine), str(PACKAGES / "x.py"))
    assert sites.NOWHERE.frames == ()
    gone = weakref.ref(site)
    del site, via, place
    gc.collect()
    assert gone() is not None


def test_nothing_else_of_a_stack_is_kept(mine: Path) -> None:
    class Big:
        """A local of the user's frame."""

    gone: list[weakref.ref[Any]] = []

    def call() -> sites.Place:
        return _find()

    def user() -> sites.Place:
        tensor = Big()
        gone.append(weakref.ref(tensor))
        return call()

    user()
    gc.collect()
    assert gone[0]() is None


# -- torch's public functions ---------------------------------------------------------------

C10D = TORCH / "distributed" / "distributed_c10d.py"
PUBLIC = """\
def gather_object(function):
    return all_gather(function)
def all_gather(function):
    return _inner(function)
def _inner(function):
    return function()
"""


def public() -> str | None:
    return sites.public_function(sys._getframe(1))


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["gather_object"], "gather_object"),
        (["all_gather"], "all_gather"),
        (["_inner"], None),
        ([], None),
        # A function of torch that is public elsewhere is no collective.
        ([TORCH / "distributed" / "checkpoint.py", "all_gather"], "all_gather"),
        # What called the user back is not what the user called.
        (["gather_object", "hook.py", "all_gather"], "all_gather"),
    ],
)
def test_the_outermost_public_function_of_torch_is_named(
    paths: list[str | Path], told: str | None, mine: Path
) -> None:
    c10d, call = module(C10D, PUBLIC), public
    for path in reversed(paths):
        entered = c10d[path] if path in c10d else module(mine.parent / path)["caller"]
        call = functools.partial(entered, call)
    assert module(mine)["caller"](call) == told
    # Nor need there be a user: a thread of torch's own.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(call).result() == told


# -- tracebacks -----------------------------------------------------------------------------


def raised(*paths: str | Path) -> str | None:
    """The site of an exception out of these files, each called by the one before."""
    return sites.of_traceback(traceback_through(*paths))


def traceback_through(*paths: str | Path) -> TracebackType:
    """That of an exception out of these files, each called by the one before."""

    def fail() -> None:
        raise ZeroDivisionError

    call: Callable[[], Any] = fail
    for path in reversed(paths):
        call = functools.partial(module(path)["caller"], call)
    try:
        call()
    except ZeroDivisionError as problem:
        traceback = problem.__traceback__
        # Neither the test, nor what stands for the innermost instruction of torch.
        traceback = entry = traceback.tb_next if traceback is not None else None
        assert traceback is not None
        for _ in paths[1:]:
            assert entry is not None
            entry = entry.tb_next
        assert entry is not None
        entry.tb_next = None
        return traceback
    raise AssertionError


def test_an_exceptions_site_is_the_innermost_line_of_the_user(mine: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.py"
    library = PACKAGES / "lightning" / "trainer.py"
    assert raised(mine, library, data, PACKAGES / "numpy.py", TORCH / "_ops.py") == at(data)


def test_without_one_it_is_the_innermost_outside_torch() -> None:
    outer, inner = PACKAGES / "lightning" / "cli.py", PACKAGES / "lightning" / "loop.py"
    assert raised(outer, inner, TORCH / "_ops.py") == at(inner)


def test_in_torch_alone_it_is_the_innermost() -> None:
    assert raised(TORCH / "run.py", TORCH / "_ops.py") == at(TORCH / "_ops.py")


def test_an_exception_in_a_cell_is_told_as_its_calls_are() -> None:
    assert raised("<stdin>", TORCH / "_ops.py") == at("<stdin>")


def test_no_traceback_has_no_site() -> None:
    assert sites.of_traceback(None) is None
    assert sites.through(None) == []


def test_the_users_lines_around_that_of_an_exception(mine: Path, tmp_path: Path) -> None:
    data, library = tmp_path / "data.py", PACKAGES / "lightning" / "trainer.py"
    torch_own = TORCH / "_ops.py"
    assert sites.through(traceback_through(mine, library, data, torch_own)) == [at(mine)]
    assert sites.through(traceback_through(mine, torch_own)) == []
    assert sites.through(traceback_through(library, torch_own)) == []
    assert sites.through(traceback_through(*[mine] * 5, *[data] * 3)) == [
        at(data), at(data), at(mine), at(mine),
    ]  # fmt: skip


def test_a_relative_path_of_a_traceback_is_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert raised("train.py") == f"{tmp_path}{os.sep}train.py:{CALL_LINE}"
