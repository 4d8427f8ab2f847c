"""What a person reads keeps to the rules of plain English that a program can check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support import prose
from tests.support.prose import Passage

MOST_WORDS: Final = 25
"""Of a sentence. A code span is one word."""

MOST_SENTENCES: Final = 2
"""Of a message: what is wrong, and what to do."""

_PARTICIPLE: Final = "[A-Z][a-z]+ed|Given|Taken|Found|Read|Shown|Kept|Left|Known|Made|Seen|Done"
_INVERTED: Final = rf"^({_PARTICIPLE}) (is|are|was|were)\b"

RULES: Final = {
    "tell": (r"\b(tells?|told|telling)\b", "a program reports, prints or shows"),
    "come to": (r"\b(comes?|came|coming) to\b", "reach; or is in all"),
    "whose": (r"\bwhose\b", "with, or a sentence more"),
    "ask for the rank": (r"\b(ask\w*|depends?) for the rank\b", "depends on the rank"),
    "part": (r"\b(parts?|parted|parting) ways\b|\bparted\b|\bthey part\b", "diverge, differ"),
    "turn": (r"\bturns? of\b", "iteration"),
    "round": (r"\brounds?\b", "iteration; of trials: repetition"),
    "of its own": (r"\bof (its|their|your|his) own\b", "its own X, or separate"),
    "go past": (r"\b(leads?|led|leading|goes?|going|went|gone) past\b", "skip"),
    "is no X": (r"(?<![Tt]here )\b(is|are|was|were) no (?!longer|more\b|less\b)", "is not a X"),
    "is gone": (r"\b(is|are|was|were|has|have) gone\b", "has exited, was removed"),
    "habit": (r"\bhabits?\b|\bas (ever|always)\b", "usual pattern, as before"),
    "to be had": (r"\bto be had\b", "available"),
    "else": (r"(^|[.;:] )[Ee]lse\b", "otherwise"),
    "anew": (r"\banew\b|\bfor ever\b", "again; forever"),
    "taken for": (r"\btaken for\b", "met the wrong call, looks like"),
    "its like": (r"\b(its|their) like\b|\bof (its|their) kind\b", "ranks of the same kind, peers"),
    "is said": (r"\b(is|are|was|were) (said|told|asked)\b", "name the actor: the report names"),
    "stand": (r"\bstands?\b(?! for)", "is"),
    "lie": (r"\b(lies|lie|lay) (in|on|at|under|among|between|below|there|where)\b", "is in"),
    "but for": (r"\b(but|save) for\b", "except for"),
    "where for if": (r"^Where\b[^?]*$", "If ...; of a place, name what it is"),
    "inversion": (_INVERTED, "subject, verb, object"),
    "spaces": (r"  ", "one space"),
}
"""What is not written: the pattern, and what to write instead."""

READ: Final[dict[str, Callable[[], Iterator[Passage]]]] = {
    "docs": prose.docs,
    "help": prose.helps,
    "causes": prose.causes,
    "errors": prose.errors,
    "docstrings": prose.docstrings,
}


def faults(kind: str, passage: Passage) -> Iterator[str]:
    sentences = passage.sentences
    for sentence in sentences:
        for name, (pattern, better) in RULES.items():
            if re.search(pattern, sentence):
                yield f"{name} ({better}): {sentence}"
        words = len(sentence.split())
        if words > MOST_WORDS:
            yield f"{words} words, at most {MOST_WORDS}: {sentence}"
    if kind == "errors" and len(sentences) > MOST_SENTENCES:
        yield f"{len(sentences)} sentences, at most {MOST_SENTENCES}: {passage.text}"


@pytest.mark.parametrize("kind", READ)
def test_what_is_read_is_plain(kind: str) -> None:
    wrong = [f"{passage}: {fault}" for passage in READ[kind]() for fault in faults(kind, passage)]
    assert not wrong, "\n".join(["", *wrong])


FAULTY: Final = {
    "tell": "It tells which rank is wrong.",
    "come to": "The ranks come to the call.",
    "whose": "A rank whose log ends.",
    "ask for the rank": "The condition asks for the rank.",
    "part": "The ranks part ways at call 7.",
    "turn": "In each of the turns of the loop.",
    "round": "After 5 equal rounds.",
    "of its own": "It has a folder of its own.",
    "go past": "A return leads past the call.",
    "is no X": "It is no error.",
    "is gone": "The rank is gone.",
    "habit": "It waits, as ever.",
    "to be had": "No log is to be had.",
    "else": "Else it waits.",
    "anew": "The report is written anew.",
    "taken for": "It was taken for another.",
    "its like": "Rank 1 and its like.",
    "is said": "The cause is said below.",
    "stand": "The call stands in a branch.",
    "lie": "The file lies in the folder.",
    "but for": "All but for rank 1.",
    "where for if": "Where the ranks differ, the report says so.",
    "inversion": "Reached are hosts by ssh.",
    "spaces": "Two  spaces.",
    "26 words": f"{'word ' * 25}word.",
}


@pytest.mark.parametrize("rule", [*RULES, "26 words"])
def test_each_rule_finds_its_fault(rule: str) -> None:
    (found,) = faults("docs", Passage("a.md", 1, FAULTY[rule]))
    assert found.startswith(rule)


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no other run.",
        "Where is the log?",
        "It is no longer needed.",
        "`whose` stands for a name, e.g. of a rank.",
        "DeepSpeed was 0.19.8.",
    ],
)
def test_what_is_right_is_let_be(sentence: str) -> None:
    assert not list(faults("docs", Passage("a.md", 1, re.sub("`.*?`", prose.CODE, sentence))))


def test_text_of_each_kind_is_read() -> None:
    found = {kind: [passage.text for passage in read()] for kind, read in READ.items()}
    assert "MIT" in found["docs"]
    assert "which run (default: the latest)" in found["help"]
    assert "Make the calls in the same order on every rank." in found["causes"]
    assert "VALUE is a file. Give the folder that holds the rank files." in found["errors"]
    assert "The exceptions of collectrace." in found["docstrings"]


def test_code_is_one_word_and_examples_are_left_out() -> None:
    text = "Run ``a b c`` first.\n\nThen:\n\n    whose  x\n\n- Or this\n  one.\n"
    assert list(prose._paragraphs(text)) == ["Run CODE first.", "Then:", "- Or this one."]
