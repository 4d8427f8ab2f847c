"""What only the machine had is taken out of recorded logs."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

import orjson

from tests.zoo import corpus
from tests.zoo.neutral import REPOSITORY, neutral, without_times

RUN = "20261128-180000-a1b2c3"


def written(root: str, folder: str, pid: int, t: int, thread: int, port: int) -> dict[str, bytes]:
    """Two files of one rank, as some machine writes them."""
    head = {
        "kind": "header", "t": t, "run": RUN, "host": platform.node(), "pid": pid,
        "wall": 1_795_887_843_000_000_000 + t, "argv": [f"{root}/train.py", f"{folder}/out"],
    }  # fmt: skip
    alive = {"kind": "alive", "t": t + 7, "in": [{"thread": "MainThread", "since": t + 5}]}
    end = {"kind": "exit", "t": t + 9, "message": f"closed by [127.0.0.1]:{port}", "ns": 77}
    dump = f'Thread {thread:#018x}:\n  File "{root}/train.py", line 3 in main\n'
    torn = b'{"kind":"call","t":%d,"se' % (t + 11)
    lines = b"".join(orjson.dumps(one) + b"\n" for one in (head, alive, end))
    return {
        f"{RUN}/rank00000.jsonl": lines + torn,
        f"{RUN}/rank00000.ends.txt": dump.encode(),
        f"_pending/{platform.node()}-{pid}.jsonl": lines,
    }


def test_two_machines_leave_the_same() -> None:
    one = written("/home/me/repo", "/tmp/run-1", 4711, 5_000_000_007, 0x7FA545F696C0, 41234)
    two = written("/work/main", "/scratch/x", 9, 812_345_678_901, 0x7F0000001000, 555)
    left = neutral(one, [Path("/home/me/repo")], Path("/tmp/run-1"))
    right = neutral(two, [Path("/work/main")], Path("/scratch/x"))
    assert left == right
    text = b"".join(left.values())
    assert not re.search(rb"/home/me|/tmp/run|4711|41234|a1b2c3|7fa545f696c0", text)
    assert b'"t":1000000000,' in text
    assert {name.partition("/")[0] for name in left} == {"20260101-000000-000000", "_pending"}


def test_what_ranks_did_is_compared_without_what_clocks_decide() -> None:
    one = {"rank00000.jsonl": b'{"kind":"call","t":5,"seq":1}\n{"kind":"alive","t":9}\n'}
    later = {"rank00000.jsonl": b'{"kind":"call","t":7,"seq":1}\n'}
    other = {"rank00000.jsonl": b'{"kind":"call","t":5,"seq":2}\n'}
    assert without_times(one) == without_times(later)
    assert without_times(one) != without_times(other)


def test_no_recording_names_the_machine_it_was_made_on() -> None:
    """Of each folder one is looked into: no home, no temporary folder, no clock of its own."""
    for archive in {path.parent: path for path in corpus.HERE.rglob("*.tar.xz")}.values():
        text = b"".join(
            text for name, text in corpus.packed_files(archive).items() if corpus.LOGS in name
        )
        assert b"/<REPOSITORY>/" in text
        assert not re.search(rb'"[^"]*/(?:home|root|tmp|Users)/', text), archive
        assert not re.search(rb'"(?:t|since)":\d{14}', text), archive


def test_a_text_of_the_program_keeps_its_hash() -> None:
    """Whatever stands in it that would be replaced in a record."""
    text = b'print("/home/me/repo", "20261128-180000-a1b2c3")\n'
    name = f"{RUN}/sources/{hashlib.sha256(text).hexdigest()}.py"
    logs = written("/home/me/repo", "/tmp/run-1", 4711, 5_000_000_007, 0x7FA545F696C0, 41234)
    left = neutral({**logs, name: text}, [Path("/home/me/repo")], Path("/tmp/run-1"))
    [kept] = [n for n in left if "/sources/" in n]
    assert left[kept] == text
    assert kept == name.replace(RUN, "20260101-000000-000000")


def test_older_recordings_get_the_texts_that_their_frames_are_in(tmp_path: Path) -> None:
    program, other = b"if first:\n    reduce()\n", b"unused()\n"
    site = REPOSITORY + b"/tests/zoo/one.py:2"
    lines = b'{"kind":"header","t":1}\n{"kind":"stack","t":2,"frames":["' + site + b' main"]}\n'
    files = {
        "files/tests/zoo/one.py": program, "files/tests/zoo/two.py": other,
        "logs/run/rank00000.jsonl": lines, "logs/run/rank00000.stacks.txt": site,
    }  # fmt: skip
    logs = corpus.unpack(files, tmp_path)
    [text] = (logs / "run" / "sources").iterdir()
    assert text.read_bytes() == program
    head, source, *rest = map(
        orjson.loads, (logs / "run/rank00000.jsonl").read_bytes().splitlines()
    )
    assert (head["kind"], source["kind"], len(rest)) == ("header", "source_file", 1)
    assert f"{source['sha256']}.py" == text.name
    assert rest[0]["frames"] == [f"{source['path']}:2 main"]
    assert not Path(source["path"]).exists(), "nothing but the log holds the program"
