from __future__ import annotations

import faulthandler
import tempfile
import threading

from hypothesis import given
from hypothesis import strategies as st

from collectrace import dumps


def real_dump() -> str:
    """What this very Python's faulthandler writes, with a second thread waiting."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        done.set()
        other.join()
        file.seek(0)
        return file.read().decode()


def test_the_main_thread_is_found_and_frames_end_with_the_innermost() -> None:
    dump = dumps.parse(real_dump())
    assert dump is not None
    assert dump.fatal is None
    assert dump.stacks["MainThread"][-1].endswith(" real_dump")
    assert any(stack[-1].endswith(" wait") for stack in dump.stacks.values())


def test_the_last_dump_of_several_counts() -> None:
    text = real_dump() + "Fatal Python error: Aborted\n\n" + real_dump()
    dump = dumps.parse(text)
    assert dump is not None
    assert dump.fatal == "Aborted"
    again = dumps.parse(text + real_dump())
    assert again is not None
    assert again.fatal is None
    assert again.stacks.keys() == dump.stacks.keys()


@given(st.text() | st.lists(st.sampled_from(real_dump().splitlines())).map("\n".join))
def test_anything_may_lie_there(text: str) -> None:
    dumps.parse(text)


def test_a_frame_of_ones_own_is_not_the_tracers() -> None:
    frames = [
        "/job/train.py:7 step", "/opt/collectrace/tracer/guard.py:29 __call__",
        "/opt/lib/python3.11/site-packages/torch/_tensor.py:623 backward",
    ]  # fmt: skip
    assert dumps.own(frames) == frames[:1]


LOADING = [
    "/job/train.py:90 <module>",
    "/job/train.py:68 evaluate",
    "/opt/collectrace/tracer/patches/data.py:30 wrapper",
    "/x/site-packages/torch/utils/data/dataloader.py:725 __next__",
    "/x/site-packages/torch/utils/data/dataloader.py:1291 _try_get_data",
    "/usr/lib/python3.11/selectors.py:415 select",
]


def test_what_a_frame_of_ones_own_called_is_not_the_tracers() -> None:
    assert dumps.within(LOADING).endswith("dataloader.py:725 __next__")
    assert not dumps.within(LOADING[:3])
    assert not dumps.within(LOADING[2:])
