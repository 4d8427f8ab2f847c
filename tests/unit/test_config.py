"""The options: what wins over what, what is refused, and what a child process gets."""

from __future__ import annotations

import inspect
import io
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import collectrace
from collectrace.cli import UNUSABLE, main
from collectrace.commands import run
from collectrace.config import OPTIONS, PREFIX, Config, is_switched_on, mistyped
from collectrace.errors import CollectraceError, OptionError

NUMBERS = ("max_bytes", "heartbeat", "stall_after", "max_failures")

TEXTS = [
    ("log_dir", "/scratch/logs", Path("/scratch/logs")),
    ("max_bytes", "1000", 1000),
    ("max_bytes", "64M", 64 << 20),
    ("max_bytes", "1GiB", 1 << 30),
    ("max_bytes", "1.5 gb", 3 << 29),
    ("max_bytes", "1e9", 10**9),
    ("library", "/opt/Megatron-LM:/b", (Path("/opt/Megatron-LM"), Path("/b"))),
    ("heartbeat", "0.5", 0.5),
    ("stall_after", "120", 120.0),
    ("max_failures", "3", 3),
    ("sources", "0", "off"),
    ("sources", "False", "off"),
    ("sources", "1", "full"),
    ("sources", "Lines", "lines"),
    ("values", "on", "on"),
    ("values", "All", "all"),
    ("values", "off", "off"),
    ("values", "1", "on"),
    ("values", "0", "off"),
    ("values", "no", "off"),
    ("omit", "paths, Arguments", ("arguments", "paths")),
    ("shared", "1", True),
    ("announce", "0", False),
    ("native", "0", False),
    ("report", "0", False),
    ("keep_runs", "0", 0),
    ("keep_runs", "7", 7),
    ("online", "no", False),
    ("online", "1", True),
    ("on_divergence", "Raise", "raise"),
]
"""Options, what each may be given as, and what that means."""

FLAGS = ("shared", "announce", "native", "report", "online")
"""On the command line these have no value."""

WRONG = [
    ("max_bytes", "1X", "a number of bytes above 0, such as 4096, 512M or 1G"),
    ("max_bytes", "1.5", "a number of bytes above 0"),
    ("max_bytes", "-1M", "a number of bytes above 0"),
    ("max_bytes", "9" * 400 + "T", "a number of bytes above 0"),
    ("max_failures", "2.5", "a whole number above 0"),
    ("max_failures", "inf", "a whole number above 0"),
    ("keep_runs", "-1", "a whole number from 0 up"),
    ("heartbeat", "soon", "a number of seconds above 0"),
    ("heartbeat", "nan", "a number of seconds above 0"),
    ("stall_after", "inf", "a number of seconds above 0"),
    ("stall_after", "1e300", "a number of seconds above 0"),
    ("sources", "2", "full, lines or off"),
    ("values", "some", "on, all or off"),
    ("omit", "path", "a list of arguments, paths, source, values"),
    ("shared", "group", "0 or 1"),
    ("announce", "2", "0 or 1"),
    ("online", "maybe", "0 or 1"),
    ("on_divergence", "stop", "report, raise or exit"),
]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPTIONS:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


def test_without_a_word_the_defaults_hold() -> None:
    assert Config.from_environment() == Config(
        log_dir=Path("logs"), max_bytes=1 << 30, heartbeat=5.0, stall_after=60.0, max_failures=20,
        sources="full", values="on", omit=(), shared=False, library=(), announce=True, keep_runs=20,
        report=True, native=True,
    )  # fmt: skip


def command_line(*arguments: str) -> dict[str, Any]:
    parser = ArgumentParser(exit_on_error=False)
    run.add_arguments(parser)
    return vars(parser.parse_args([*arguments, "train.py"]))


def test_every_option_is_an_argument_a_variable_and_an_option_of_run() -> None:
    names = [f.name for f in fields(Config)]
    assert sorted(OPTIONS) == sorted(names)
    assert list(inspect.signature(collectrace.enable).parameters) == names
    assert command_line().keys() > OPTIONS.keys()
    assert {name for name, value in command_line().items() if value is None} == {*OPTIONS}


@pytest.mark.parametrize(("name", "text", "value"), TEXTS)
def test_an_option_takes_the_same_forms_everywhere(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [getattr(Config.from_environment(**{name: text}), name)]
    monkeypatch.setenv(f"COLLECTRACE_{name.upper()}", text)
    found.append(getattr(Config.from_environment(), name))
    if name not in FLAGS:
        found.append(command_line(f"--{name.replace('_', '-')}={text}")[name])
    for one in found:
        assert (one, type(one)) == (value, type(getattr(Config(), name)))


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [("max_bytes", 1e9, 10**9), ("heartbeat", 5, 5.0), ("announce", 0, False),
     ("online", True, True), ("library", ["/a b", Path("/c:d")], (Path("/a b"), Path("/c:d"))),
     ("library", Path("/a:b"), (Path("/a:b"),)), ("values", False, "off"), ("values", True, "on"),
     ("sources", 1, "full"), ("sources", False, "off"),
     ("omit", ["values", "source"], ("source", "values"))],
)  # fmt: skip
def test_an_argument_may_be_a_value(name: str, given: object, value: object) -> None:
    found = getattr(Config.from_environment(**{name: given}), name)
    assert (found, type(found)) == (value, type(getattr(Config(), name)))


def test_what_is_left_out_is_known_however_it_was_asked_for() -> None:
    config = Config.from_environment(omit="source,paths", values="off")
    assert (config.sources, config.values) == ("off", "off")
    assert config.omitted == ("paths", "source", "values")


def test_a_child_leaves_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.from_environment(omit="source,paths", shared=True)
    for name, value in config.to_environment().items():
        monkeypatch.setenv(name, value)
    assert Config.from_environment() == config.absolute()


def test_flags_of_the_command_line() -> None:
    told = command_line("--no-announce", "--online", "--no-sources")
    assert (told["announce"], told["online"], told["sources"]) == (False, True, "off")


@pytest.mark.parametrize(("name", "text", "wanted"), WRONG)
def test_a_wrong_value_is_named_with_what_it_must_be(
    name: str, text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    with pytest.raises(OptionError) as as_argument:
        Config.from_environment(**{name: text})
    monkeypatch.setenv(f"COLLECTRACE_{name.upper()}", text)
    with pytest.raises(OptionError) as as_variable:
        Config.from_environment()
    told = [str(as_argument.value), str(as_variable.value)]
    assert [one.partition("=")[0] for one in told] == [name, f"COLLECTRACE_{name.upper()}"]
    if name not in FLAGS:
        option, stderr = f"--{name.replace('_', '-')}={text}", io.StringIO()
        assert main(["run", option, "train.py"], io.StringIO(), stderr) == UNUSABLE
        told.append(stderr.getvalue().strip())
    assert all(f" is not {wanted}" in one and "\n" not in one for one in told)


@pytest.mark.parametrize(
    ("name", "given"),
    [("heartbeat", True), ("log_dir", 5), ("library", 5), ("library", [5]), ("max_bytes", [1]),
     ("max_bytes", 0), ("max_bytes", -1), ("max_failures", 2.5), ("keep_runs", object()),
     ("sources", 2), ("sources", ""), ("announce", 2)],
)  # fmt: skip
def test_an_argument_of_another_type_is_refused_alike(name: str, given: object) -> None:
    with pytest.raises(OptionError, match=f"^{name}=.* is not {OPTIONS[name].wanted[:8]}"):
        Config.from_environment(**{name: given})


def test_all_that_is_wrong_is_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTRACE_STALL_AFTER", "soon")
    with pytest.raises(OptionError) as refused:
        Config.from_environment(max_bytes="x" * 10_000, hartbeat=1)
    told = str(refused.value)
    assert len(told) < 600
    assert [part.partition("=")[0].partition(" is")[0] for part in told.split("; ")] == [
        f"unknown option hartbeat (the options are {', '.join(OPTIONS)})", "max_bytes",
        "COLLECTRACE_STALL_AFTER",
    ]  # fmt: skip


def test_a_wrong_variable_that_an_argument_replaces_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLLECTRACE_STALL_AFTER", "soon")
    assert Config.from_environment(stall_after=3).stall_after == 3


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTRACE_HEARTBEAT", "3")
    monkeypatch.setenv("COLLECTRACE_LOG_DIR", "theirs")
    assert Config.from_environment(heartbeat=1.0, log_dir="mine") == Config(
        heartbeat=1.0, log_dir=Path("mine")
    )


def test_none_is_an_argument_that_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLECTRACE_HEARTBEAT", "3")
    assert Config.from_environment(heartbeat=None, max_bytes=None) == Config(heartbeat=3.0)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEARTBEAT", "LOG_DIR"):
        monkeypatch.setenv(f"COLLECTRACE_{name}", "")
    assert Config.from_environment() == Config()


def test_an_unknown_option_is_told_with_those_there_are() -> None:
    with pytest.raises(CollectraceError) as refused:
        Config.from_environment(hartbeat=1, logdir="x", heartbeat=2)
    told = str(refused.value)
    assert told.startswith("unknown option hartbeat, logdir (the options are ")
    assert all(name in told for name in ("log_dir", *NUMBERS))


@pytest.mark.parametrize(
    "given",
    [{}, {"log_dir": "/a b/c", "max_bytes": 1, "heartbeat": 0.1, "stall_after": 1e9,
          "max_failures": 1 << 40, "sources": "lines", "values": "all",
          "library": (Path("/a b"), Path("/c"))}],
)  # fmt: skip
def test_a_child_gets_the_same_options(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Config.from_environment(**given)
    for name, text in mine.to_environment().items():
        monkeypatch.setenv(name, text)
    child = Config.from_environment()
    assert child.log_dir == mine.log_dir.absolute()
    names = [name for name in OPTIONS if name != "log_dir"]
    assert [getattr(child, name) for name in names] == [getattr(mine, name) for name in names]


def test_a_child_that_starts_in_another_folder_writes_into_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = Config(library=(Path("here"),)).to_environment()
    assert told["COLLECTRACE_LOG_DIR"] == str(tmp_path / "logs")
    assert told["COLLECTRACE_LIBRARY"] == str(tmp_path / "here")


# -- variables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"COLLECTRACE": ""}, False), ({"COLLECTRACE": "0"}, False),
     ({"COLLECTRACE": "off"}, False), ({"COLLECTRACE": "1"}, True),
     ({"COLLECTRACE": " Yes "}, True)],
)  # fmt: skip
def test_what_switches_it_on(environment: dict[str, str], expected: bool) -> None:
    assert is_switched_on(environment) is expected


def test_what_neither_switches_it_on_nor_off_is_said() -> None:
    with pytest.raises(CollectraceError, match="COLLECTRACE='logs' is not 0 or 1"):
        is_switched_on({"COLLECTRACE": "logs"})


def test_a_mistyped_variable_is_told_with_the_one_that_was_meant() -> None:
    known = Config().to_environment() | {"COLLECTRACE": "1", "COLLECTRACES_X": "", "PATH": "/bin"}
    assert mistyped(known) == []
    near, far = mistyped(known | {"COLLECTRACE_LOGDIR": "x", "COLLECTRACE_QQQ": ""})
    assert near == (
        "COLLECTRACE_LOGDIR is not a known option and is ignored. Did you mean COLLECTRACE_LOG_DIR?"
    )
    assert far.startswith(
        "COLLECTRACE_QQQ is not a known option and is ignored. The options are LOG_DIR"
    )
    assert all(name.removeprefix(PREFIX) in far for name in Config().to_environment())


def test_an_option_that_needs_another_one_is_told() -> None:
    assert Config(on_divergence="raise", online=True).without_effect() == []
    assert Config().without_effect() == []
    assert Config(on_divergence="exit").without_effect() == [
        "on_divergence=exit has no effect without online=1"
    ]
