"""What may lead past a line, by the tree of the source."""

from __future__ import annotations

import ast
import textwrap

import pytest

from collectrace.align.reading.ways import Ways, described


def past(source: str) -> list[str]:
    """The ways past the line that is marked HERE, with its number in front of them taken away."""
    text = textwrap.dedent(source)
    lines = text.splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "HERE" in line)
    found = []
    for way in Ways(ast.parse(text)).past(number):
        head, _, rest = described(way, lines, 200).partition(" ")
        assert lines[int(head) - 1].strip() == rest.partition(" ")[2]
        found.append(rest)
    return found


def test_an_early_return() -> None:
    assert past("""
        def load():
            if not found:
                return None
            HERE
    """) == ["return if not found:"]


def test_a_function_may_begin_in_the_first_line_of_its_file() -> None:
    source = "def load():\n    if not found:\n        return None\n    HERE\nload()\n"
    assert past(source) == ["return if not found:"]


def test_a_guard_behind_the_line_leads_past_nothing_without_a_loop() -> None:
    assert (
        past("""
        def load():
            HERE
            if not found:
                return None
            other()
    """)
        == []
    )


def test_in_a_loop_what_leaves_it_behind_the_line_leads_past_its_next_round() -> None:
    assert past("""
        def train():
            for batch in loader:
                HERE
                if bad(batch):
                    continue
                if done:
                    break
                if broken:
                    return
    """) == ["break if done:", "return if broken:"]


def test_what_leaves_another_loop_leads_past_nothing() -> None:
    assert (
        past("""
        for one in some:
            if one:
                break
            if two:
                continue
        HERE
    """)
        == []
    )


def test_a_break_leads_past_the_else_of_its_loop() -> None:
    assert past("""
        for one in some:
            if one:
                break
            if two:
                continue
        else:
            HERE
    """) == ["break if one:"]


def test_only_of_the_same_function() -> None:
    assert past("""
        def outer():
            if one:
                return
            def inner():
                if two:
                    return
                HERE
            inner()
    """) == ["return if two:"]


def test_the_condition_that_encloses_the_line_is_none() -> None:
    assert past("""
        def f():
            if one:
                return
            elif two:
                if three:
                    return
                HERE
            else:
                return
    """) == ["return if three:"]


def test_another_branch_is_none() -> None:
    assert (
        past("""
        def f():
            if one:
                if two:
                    return
                other()
            else:
                HERE
    """)
        == []
    )


def test_the_innermost_condition_is_named() -> None:
    assert past("""
        def f():
            if one:
                with lock:
                    if two:
                        raise ValueError
                if three:
                    pass
            HERE
    """) == ["raise if two:"]


@pytest.mark.parametrize(
    ("handling", "leaves"),
    [("continue", "continue"), ("break", "break"), ("log()", "pass"), ("raise", "raise")],
)
def test_a_handler_around_the_line(handling: str, leaves: str) -> None:
    assert past(f"""
        for batch in loader:
            try:
                HERE
            except ValueError:
                {handling}
    """) == [f"{leaves} except ValueError:"]


@pytest.mark.parametrize(("handling", "ways"), [("log()", []), ("return", ["return except E:"])])
def test_a_handler_before_the_line(handling: str, ways: list[str]) -> None:
    assert (
        past(f"""
        def f():
            try:
                work()
            except E:
                {handling}
            HERE
    """)
        == ways
    )


def test_a_condition_in_a_handler_leads_past_other_lines_by_the_exception() -> None:
    source = """
        def train():
            for batch in loader:
                try:
                    load(batch)
                except OSError:
                    {inside}
                    if tolerant:
                        continue
                    {behind}
                {after}
    """
    there = {"inside": "pass", "behind": "pass", "after": "pass"}
    assert past(source.format(**{**there, "after": "HERE"})) == ["continue except OSError:"]
    assert past(source.format(**{**there, "behind": "HERE"})) == ["continue if tolerant:"]
    assert past(source.format(**{**there, "inside": "HERE"})) == []


def test_what_leaves_a_loop_of_a_handler_leads_past_nothing_behind_it() -> None:
    source = """
        def load():
            try:
                read()
            except OSError:
                while True:
                    if found():
                        break
                    {inside}
                {behind}
            after()
    """
    assert past(source.format(inside="look()", behind="HERE")) == []
    assert past(source.format(inside="HERE", behind="go_on()")) == ["break if found():"]


@pytest.mark.parametrize("place", ["except E:", "finally:"])
def test_a_handler_leads_past_no_other_handler_nor_the_end(place: str) -> None:
    assert (
        past(f"""
        def f():
            try:
                if one:
                    pass
            except ValueError:
                return
            {place}
                HERE
    """)
        == []
    )


def test_suppressed_exceptions() -> None:
    assert past("""
        with contextlib.suppress(OSError), open(path) as file:
            HERE
    """) == ["pass with contextlib.suppress(OSError), open(path) as file:"]
    assert (
        past("""
        with suppress(OSError):
            work()
        HERE
    """)
        == []
    )


def test_what_every_rank_comes_to_is_none() -> None:
    assert (
        past("""
        def f():
            while True:
                HERE
                return
    """)
        == []
    )


def test_a_case() -> None:
    assert past("""
        def f():
            match command:
                case "stop":
                    return
            HERE
    """) == ['return case "stop":']


def test_the_nearest_of_many() -> None:
    guards = "".join(f"    if a{n}:\n        return\n" for n in range(40))
    found = past(f"def f():\n{guards}    HERE\n")
    assert len(found) == 12
    assert found[-1] == "return if a39:"


def test_nothing_of_a_program_that_is_too_deep() -> None:
    node = ast.If(ast.Constant(1), [ast.Return(lineno=2, end_lineno=2)], [], lineno=1, end_lineno=2)
    for _ in range(3000):
        node = ast.If(node.test, [node], [], lineno=1, end_lineno=2)
    assert Ways(ast.Module([node], [])).past(3) == []


def test_an_empty_program() -> None:
    assert Ways(ast.Module([], [])).past(1) == []
