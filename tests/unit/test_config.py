"""The options: what wins over what, what is refused, and what a child process gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.config import PREFIX, Config, is_switched_on, mistyped
from collectrace.errors import CollectraceError

NUMBERS = ("max_bytes", "heartbeat", "stall_after", "max_failures")


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "log_dir",
        *NUMBERS,
        "sources",
        "values",
        "library",
        "announce",
        "keep_runs",
        "report",
    ):
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


def test_without_a_word_the_defaults_hold() -> None:
    assert Config.from_environment() == Config(
        log_dir=Path("logs"), max_bytes=1 << 30, heartbeat=5.0, stall_after=60.0, max_failures=20,
        sources="full", values="on", library=(), announce=True, keep_runs=20,
        report=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log_dir", "/scratch/logs", Path("/scratch/logs")),
        ("max_bytes", "1000", 1000),
        ("max_bytes", "512M", 512 << 20),
        ("max_bytes", "1GiB", 1 << 30),
        ("max_bytes", "1.5 gb", 3 << 29),
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
        ("announce", "0", False),
        ("report", "0", False),
        ("keep_runs", "0", 0),
        ("keep_runs", "7", 7),
    ],
)
def test_every_option_has_a_variable(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"COLLECTRACE_{name.upper()}", text)
    found = getattr(Config.from_environment(), name)
    assert (found, type(found)) == (value, type(getattr(Config(), name)))


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


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [("max_bytes", "1X", "a whole number, or a size such as 512M or 1G"),
     ("max_bytes", "1.5", "a whole number, or a size"), ("max_failures", "2.5", "a whole number"),
     ("heartbeat", "soon", "a number"), ("sources", "2", "full, lines or off"),
     ("values", "some", "on, all or off")],
)  # fmt: skip
def test_a_variable_that_cannot_be_read_is_named_with_what_it_must_be(
    name: str, text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"COLLECTRACE_{name.upper()}", text)
    with pytest.raises(CollectraceError) as refused:
        Config.from_environment()
    assert f"COLLECTRACE_{name.upper()}='{text}' is not {wanted}" in str(refused.value)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, -1])
def test_nothing_may_be_zero_or_less(name: str, value: int) -> None:
    with pytest.raises(CollectraceError, match=f"^{name} must be greater than zero"):
        Config.from_environment(**{name: value})


@pytest.mark.parametrize("name", ["heartbeat", "stall_after"])
@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_time_that_no_clock_can_wait_for_is_refused(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end the watching thread with a traceback, or stop the record."""
    monkeypatch.setenv(f"COLLECTRACE_{name.upper()}", text)
    with pytest.raises(CollectraceError, match=name):
        Config.from_environment()


def test_an_unknown_option_is_told_with_those_there_are() -> None:
    with pytest.raises(CollectraceError) as refused:
        Config.from_environment(hartbeat=1, logdir="x", heartbeat=2)
    told = str(refused.value)
    assert told.startswith("unknown option hartbeat, logdir; the options are ")
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
    options = (*NUMBERS, "sources", "values", "library")
    assert [getattr(child, name) for name in options] == [getattr(mine, name) for name in options]


@pytest.mark.parametrize(
    ("given", "value"), [(True, "on"), (1, "on"), (False, "off"), (0, "off"), ("all", "all")]
)
def test_which_values_are_recorded_can_be_a_truth_value(given: object, value: str) -> None:
    assert Config.from_environment(values=given).values == value


def test_values_that_are_no_choice_are_refused() -> None:
    with pytest.raises(CollectraceError, match="values='some' is none of on, all, off"):
        Config.from_environment(values="some")


def test_a_child_that_starts_in_another_folder_writes_into_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = Config(library=(Path("here"),)).to_environment()
    assert told["COLLECTRACE_LOG_DIR"] == str(tmp_path / "logs")
    assert told["COLLECTRACE_LIBRARY"] == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("given", "meant"),
    [(True, "full"), (1, "full"), (False, "off"), (0, "off"), ("lines", "lines"), ("0", "off")],
)
def test_sources_by_name_or_by_truth(given: object, meant: str) -> None:
    assert Config.from_environment(sources=given).sources == meant


@pytest.mark.parametrize("given", [2, "all", ""])
def test_other_sources_are_refused(given: object) -> None:
    with pytest.raises(CollectraceError, match="none of full, lines, off"):
        Config.from_environment(sources=given)


def test_one_folder_is_no_list_of_folders() -> None:
    with pytest.raises(CollectraceError, match="library must be a list of folders"):
        Config.from_environment(library="/opt/framework")


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
        "COLLECTRACE_LOGDIR is no option and has no effect; did you mean COLLECTRACE_LOG_DIR?"
    )
    assert far.startswith("COLLECTRACE_QQQ is no option and has no effect; the options are LOG_DIR")
    assert all(name.removeprefix(PREFIX) in far for name in Config().to_environment())
