"""The program's text, asked of ranks that run, of which none can see another's files."""

from __future__ import annotations

from pathlib import Path

from collectrace.align.reading import through_store
from collectrace.align.reading.run_reader import read
from collectrace.exchange import MOST_TEXT
from tests.process.test_online import BEGIN
from tests.support.apart import PATIENCE, Apart

LARGE = MOST_TEXT // 2 - 1000

SCRIPT = (
    BEGIN
    + """
import linecache
init()
def call_from(name, text):
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), {"dist": dist, "torch": torch})
CALL = "dist.all_reduce(torch.zeros(1))\\n"
for n in range(100):
    call_from(f"/cells/small{n}.py", f"# small {n}\\n" + CALL)
for n in range(3):
    call_from(f"/cells/large{n}.py", f"# large {n}\\n" + CALL + "#" * {large})
call_from("/cells/skewed.py", f"# of rank {rank}\\n" + CALL)
while not os.path.exists({end!r}):
    time.sleep(0.01)
"""
)


def test_texts_are_asked_for_as_they_are_needed(tmp_path: Path) -> None:
    end = tmp_path / "end"
    script = SCRIPT.replace("{large}", str(LARGE)).replace("{end!r}", repr(str(end)))
    with Apart(tmp_path, script, stall_after=600) as ranks:
        ranks.wait_for(
            lambda: all(len(list(ranks.logs(r).glob("2*/sources/*.py"))) == 105 for r in range(2))
        )
        with through_store.opened(f"tcpstore://127.0.0.1:{ranks.port}") as folder:
            texts = read(folder, full=True).source_files
            assert list(texts.skewed()) == ["/cells/skewed.py"]
            for rank in range(2):
                found = texts.text(rank, "/cells/skewed.py")
                assert found is not None
                assert found.startswith(f"# of rank {rank}\n")
            # Of many files, too, and of those that another rank has as well.
            found = texts.text(1, "/cells/small99.py")
            assert found is not None
            assert found.startswith("# small 99\n")
            large = [texts.text(0, f"/cells/large{n}.py") for n in range(3)]
            assert [text is None for text in large] == [False, False, True]
            assert any("at most 4 MiB of source" in note for note in texts.notes)
        assert texts.text(0, "/cells/small7.py") is None, "the turn is over"
        end.touch()
        assert [rank.wait(PATIENCE) for rank in ranks.ranks] == [0, 0]
