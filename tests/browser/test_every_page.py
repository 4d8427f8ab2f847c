"""A page for every kind of finding, which axe-core looks at, too: in a real browser."""

from __future__ import annotations

from typing import Final

import pytest

from tests.browser.conftest import Open
from tests.support import kind_examples, seed_cases

QUICK: Final = 5
"""Of so many kinds one is opened by default."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if n % QUICK == 0 else pytest.mark.slow)
        for n, kind in enumerate(kind_examples.KINDS)
    ],
)
def test_every_kind_of_finding_has_a_page(kind: str, opened: Open) -> None:
    page = opened(kind_examples.KINDS[kind]())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [
        "join", "deadlock",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("straggler", "missing_call", "p2p_unmatched")
        ),
    ],
)  # fmt: skip
def test_contrast_and_labels(kind: str, scheme: str, opened: Open, axe: str) -> None:
    run = seed_cases.case(4, "ones") if kind == "join" else kind_examples.KINDS[kind]()
    page = opened(run, color_scheme=scheme, bypass_csp=True)
    page.evaluate(axe)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found] == []
