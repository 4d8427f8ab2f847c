from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectrace.align import align
from collectrace.errors import LogError
from collectrace.foreign import documented, formats

RAS = Path(__file__).parents[1] / "ras" / "samples"

# Beginnings as the sources of the tools print them.
INSPECTOR = b'{"header": {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface"'  # noqa: E501 - one line, as it is written
CLOG = b"V|1|base_timestamp=1770000000.125\nnew_comm|comm=world|rank=0|world_size=2\n"
FLIGHT = b'{"version": "2.10", "nccl_version": "2.27.3", "pg_config": {}, "entries": []}'


@pytest.mark.parametrize(
    ("head", "tool"),
    [
        *(
            ((RAS / f"behind.ras.{form}").read_bytes()[:4096], "NCCL RAS")
            for form in ("txt", "json")
        ),
        (INSPECTOR, "NCCL Inspector"),
        (CLOG, "torchcomms' collective log"),
    ],
)
def test_each_is_recognised_by_its_own_row_alone(head: bytes, tool: str) -> None:
    assert [row.tool for row in documented.DOCUMENTED if row.is_one(head)] == [tool]


@pytest.mark.parametrize("head", [FLIGHT, b"", b'{"kind":"header"}', b"\x80\x02}q\0"])
def test_other_files_are_none_of_them(head: bytes) -> None:
    assert documented.of(head) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [((RAS / "behind.ras.json").read_bytes(), "is a file of NCCL RAS. Give it to: python"),
     (INSPECTOR, "is a file of NCCL Inspector. collectrace cannot align it"),
     (CLOG, "is a file of torchcomms' collective log. collectrace cannot align it")],
)  # fmt: skip
def test_none_is_taken_for_a_flight_recorders_dump(
    content: bytes, said: str, tmp_path: Path
) -> None:
    assert formats.of(content[: formats.HEAD]) is None
    path = tmp_path / "rank_0.json"
    path.write_bytes(content)
    with pytest.raises(LogError, match=re.escape(said)):
        align(path)
