"""What the digests in one rank's lines prove of its rows."""

from __future__ import annotations

from array import array

import pytest

from collectrace.align.reading.evidence import Digests
from collectrace.align.reading.rows import Rows, Strand
from collectrace.align.reading.strands import Chain, prove
from collectrace.align.reading.vocabulary import Vocabulary
from collectrace.records import Call
from collectrace.signature import EMPTY

COUNT = 8


class Stream:
    """Eight calls of as many sizes, and what their lines tell."""

    def __init__(self) -> None:
        self.rows = Rows(Vocabulary())
        calls = [
            Call(seq=n, group="0", device="cpu", op="all_reduce", shape=[n])
            for n in range(1, COUNT + 1)
        ]
        self.meanings = [self.rows.vocabulary.meaning(call) for call in calls]
        self.digests = [EMPTY]
        self.told: dict[int, int | None] = {}
        for seq, meaning in enumerate(self.meanings, 1):
            self.digests.append(self.rows.vocabulary.fold(self.digests[-1], array("i", [meaning])))
            self.rows.add(seq, seq, seq, meaning, 0, 0)
            self.told[seq] = self.digests[seq]

    def mean(self, seq: int, another: int) -> None:
        """Let a line tell of the call that another line tells of."""
        self.rows.meaning[seq - 1] = self.meanings[another - 1]

    def lose(self, *seqs: int) -> None:
        """Take lines out."""
        for seq in seqs:
            self.rows.disprove(seq)
        self.rows.disproved.clear()

    def strands(self) -> list[Strand]:
        def told(at: int) -> Digests:
            return Digests(0, self.told[self.rows.seq[at]], None)

        prove([Chain(self.rows, told)])
        assert self.rows.strands is not None
        return list(self.rows.strands[1])

    def strand(self, first: int, last: int, *, proven: bool = True) -> Strand:
        """What is right for some rows."""
        return Strand(first, last, self.digests[first - 1], self.digests[last], proven)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_two_digests_prove_all_rows_between_them(stream: Stream) -> None:
    assert stream.strands() == [stream.strand(1, 8)]


def test_a_line_that_does_not_fit_its_digest_is_disproved(stream: Stream) -> None:
    stream.mean(4, 5)
    assert stream.strands() == [stream.strand(1, 3), stream.strand(5, 8)]
    assert stream.rows.disproved == {4}
    assert stream.rows.find(4) is None
    assert stream.rows.last() == 8


@pytest.mark.parametrize("seq", [1, 4, 7])
def test_a_digest_that_alone_is_damaged_costs_nothing(stream: Stream, seq: int) -> None:
    stream.told[seq] = 7
    assert stream.strands() == [stream.strand(1, 8)]


def test_of_the_last_line_a_damaged_digest_costs_the_line(stream: Stream) -> None:
    stream.told[8] = 7
    assert stream.strands() == [stream.strand(1, 7)]
    assert stream.rows.last() == 8


def test_a_line_and_digest_of_another_call_cost_the_next_line_too(stream: Stream) -> None:
    stream.mean(4, 2)
    stream.told[4] = stream.told[2]
    assert stream.strands() == [stream.strand(1, 3), stream.strand(6, 8)]


def test_rows_behind_a_gap_tell_the_digest_before_them(stream: Stream) -> None:
    stream.lose(4, 5)
    assert stream.strands() == [stream.strand(1, 3), stream.strand(6, 8)]


def test_one_digest_alone_proves_nothing(stream: Stream) -> None:
    stream.lose(4, 6)
    assert stream.strands() == [
        stream.strand(1, 3), stream.strand(5, 5, proven=False), stream.strand(7, 8)
    ]  # fmt: skip


def test_a_checkpoint_before_it_does(stream: Stream) -> None:
    stream.lose(4, 6)
    stream.rows.checkpoints[4] = (0, stream.digests[4], None)
    assert stream.strand(5, 5) in stream.strands()


def test_a_checkpoint_behind_lost_rows_is_kept(stream: Stream) -> None:
    stream.lose(7, 8)
    stream.rows.checkpoints[8] = (0, stream.digests[8], None)
    end = stream.digests[8]
    assert stream.strands() == [stream.strand(1, 6), Strand(9, 8, end, end, proven=False)]


def test_lines_without_digests_are_taken_as_they_are(stream: Stream) -> None:
    stream.told = dict.fromkeys(stream.told)
    stream.lose(5)
    assert stream.strands() == [Strand(1, 4), Strand(6, 8)]


def test_a_line_that_lacks_its_digest_at_the_end_is_not_proven(stream: Stream) -> None:
    stream.told[8] = None
    assert stream.strands() == [stream.strand(1, 7), Strand(8, 8, proven=False)]


def test_a_row_that_is_left_out_moves_no_run_behind_it(stream: Stream) -> None:
    stream.lose(5)
    stream.mean(2, 7)
    assert stream.strand(6, 8) in stream.strands()
