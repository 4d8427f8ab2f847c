"""One exception of several ranks, each by itself, for whom others wait in several channels."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectrace.findings import Finding
from tests.support.judging import aligned, errors
from tests.support.synthetic import Run

ABSENT = "<Stage object at 0x7f4b7d5066{}> has no image"


def found(folder: Path, *sites: str, texts: tuple[str, str] = (ABSENT, ABSENT)) -> list[Finding]:
    """Ranks 1 and 3 raise, and ranks 0 and 2 wait for a message of them."""
    run = Run(4)
    for n, site, text in zip((1, 3), sites, texts, strict=True):
        run.rank(n).exit("exception", error="ValueError", message=text.format(f"{n}f"), site=site)
        rank = run.rank(n - 1)
        call = rank.recv(n, site="serve.py:79")
        rank.beat(60, rank.inside(call))
    return errors(aligned(run, folder))


def test_one_exception_at_one_line_is_one_error(tmp_path: Path) -> None:
    cause, effect = found(tmp_path, "serve.py:67", "serve.py:67")
    assert (cause.suspects, effect.caused_by) == ((1, 3), 0)
    assert (cause.code, effect.code) == ("CT704", "CT901")
    assert "ranks 1,3" in cause.fix


@pytest.mark.parametrize(
    ("sites", "texts"),
    [
        (("serve.py:67", "serve.py:70"), (ABSENT, ABSENT)),
        (("serve.py:67", "serve.py:67"), (ABSENT, "no such file")),
    ],
    ids=["at another line", "another text"],
)
def test_two_errors(sites: tuple[str, str], texts: tuple[str, str], tmp_path: Path) -> None:
    told = found(tmp_path, *sites, texts=texts)
    assert [(one.suspects, one.caused_by) for one in told] == [((1,), None), ((3,), None)]


def test_one_that_had_waited_for_another_which_raised_the_same(tmp_path: Path) -> None:
    """Whatever fails is raised as one error, a wait that was given up as well."""
    run = Run(4)
    run.group("left", [0, 1])
    zero, one, *others = run
    call = zero.call("all_reduce", site="train.py:5", group="left")
    zero.done(call.seq, "left", failed=True, error="RuntimeError: Connection closed by peer")
    for rank in (zero, one):
        rank.exit("exception", error="StepFailed", message="failed", site="train.py:9")
    for rank in others:
        rank.stuck_in(rank.call("all_reduce", site="train.py:6"))
    cause, effect = errors(aligned(run, tmp_path))
    assert (cause.suspects, effect.caused_by) == ((1,), 0)
