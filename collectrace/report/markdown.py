"""The report in Markdown, for pull requests, issues and GitHub's step summaries.

Nothing that a log says is Markdown, HTML, a link, a mention or a reference in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TextIO

from collectrace import internal, words
from collectrace.findings import KINDS, Alignment, Finding, Side, Table, cause_of, is_repeated
from collectrace.records import Call
from collectrace.report import sidebyside, text
from collectrace.report.opening import moment

_WHOLE: Final = 3
"""Errors that are told in full."""
_MOST_SIDES: Final = 6
_MOST_COLUMNS: Final = 6
_MOST_RANKS: Final = 64
_MOST_OTHERS: Final = 20

# What means something anywhere in a line, and what only at its beginning.
_INLINE: Final = re.compile(r"([\\`*_\[\]|~$>])")
_LEADING: Final = re.compile(r"^(\s*)(?:([#+=-])|(\d+)(?=[.)]))")
# Read by GitHub after Markdown: @name tells somebody, #12 and GH-12 refer to an issue.
_REFERENCE: Final = re.compile(r"(?<=[@#])(?=\w)")
# GFM's autolinks: www. and a scheme.
_LINK: Final = re.compile(r"(?i)\b(www)(?=\.)|\b(https?|ftp|mailto|xmpp)(?=:)")
_TICKS: Final = re.compile(r"`+")
_GAP: Final = "\u200b"
"""Of no width: what it parts is no longer one word."""


def escaped(log: str) -> str:
    """Text as Markdown that shows it and does nothing, on a line of its own or within one."""
    line = text.clean(log).lstrip().replace("&", "&amp;").replace("<", "&lt;")
    line = _INLINE.sub(r"\\\1", line)
    line = _LEADING.sub(lambda m: m[1] + (f"\\{m[2]}" if m[2] else f"{m[3]}\\"), line)
    line = _REFERENCE.sub(_GAP, line)
    return _LINK.sub(lambda found: found[0] + _GAP, line)


def code(log: str, *, in_table: bool = False) -> str:
    """Text as a code span, in which only as many backticks as it is fenced with mean anything."""
    line = text.clean(log)
    if in_table:
        line = line.replace("|", "\\|")  # GFM: the one escape that works in a table's code
    if not line.strip():
        return ""
    fence = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    pad = " " if line[0] in "` " or line[-1] in "` " else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the whole report."""
    out.write("\n".join(_lines(alignment)).rstrip("\n") + "\n")


def _lines(alignment: Alignment) -> list[str]:
    findings = alignment.findings
    causes = [n for n in range(len(findings)) if cause_of(findings, n) is None]
    whole = [n for n in causes if findings[n].severity == "error"][:_WHOLE]
    told = [f"### collectrace: {alignment.outcome}", "", _job(alignment), ""]
    for n in whole:
        told += _error(findings, n)
    others = [findings[n] for n in causes if n not in whole]
    told += [
        f"- {finding.severity}: {escaped(finding.headline)}" for finding in others[:_MOST_OTHERS]
    ]
    told += [""] if others else []
    for sentence in internal.sentences(alignment):
        told += [escaped(sentence), ""]
    told += _ranks(alignment)
    agreed = words.compared(alignment.evidence)
    told.append(f"{agreed} agree. " if agreed else "")
    told[-1] += f"Exit status {alignment.exit_status}. `python -m collectrace.align` says more."
    return told


def _job(alignment: Alignment) -> str:
    job = alignment.job
    parts = [code(job.script)] if job is not None and job.script else []
    parts.append(words.counted(alignment.world_size, "rank"))
    if job is not None and job.hosts:
        named = ", ".join(escaped(host) for host in job.hosts[:_WHOLE])
        parts.append(named if len(job.hosts) <= _WHOLE else f"{len(job.hosts)} hosts ({named}, ..)")
    began = moment(job.began) if job is not None else None
    if began is not None:
        parts.append(f"{began:%Y-%m-%d %H:%M:%S} UTC")
    parts.append(f"run {code(alignment.run)}")
    return ", ".join(parts)


def _error(findings: Sequence[Finding], n: int) -> list[str]:
    finding = findings[n]
    told = [f"**{escaped(finding.headline)}**", "", _place(finding), ""]
    for label, prose in ("Cause", finding.cause), ("Fix", finding.fix):
        if prose:
            told += [f"**{label}:** {_prose(prose)}", ""]
    sources = {line.site: line.text for line in finding.sources}
    told += [f"- {_parted(side, sources)}" for side in finding.parted or () if side.call]
    for side in finding.sides[:_MOST_SIDES]:
        told.append(f"- {_side(side, set(finding.suspects), sources)}")
    told.append("")
    if finding.table is not None:
        told += [*_table(finding.table), ""]
    effects = [
        f
        for m, f in enumerate(findings)
        if cause_of(findings, m) == n and not is_repeated(findings, m)
    ]
    told += [f"- led to: {escaped(f.headline)}" for f in effects[:_MOST_SIDES]]
    return [*told, ""] if effects else told


def _place(finding: Finding) -> str:
    where = f"`{finding.kind}`"
    if finding.seq is not None:
        numbered = "message" if KINDS[finding.kind].family == "message" else "call"
        where += f" at {numbered} {finding.seq}"
    if finding.group is not None:
        where += f" of {escaped(words.group(finding.group))}"
    if finding.suspects:
        where += f"; suspect: **{words.ranks(finding.suspects)}**"
    return where


def _prose(prose: str) -> str:
    """Sentences; what is indented is code."""
    told: list[str] = []
    block: list[str] = []
    for line in [*text.clean(prose, lines=True).split("\n"), ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if block:
            ticks = max((len(t) for b in block for t in _TICKS.findall(b)), default=0)
            fence = "`" * max(3, ticks + 1)
            told += ["", fence, *block, fence, ""]
            block = []
        told.append(escaped(line))
    return "\n".join(told).rstrip("\n")


def _side(side: Side, suspects: set[int], sources: dict[str, str]) -> str:
    who = f"**{words.ranks(side.ranks)}**: {text.STATES[side.state]}"
    if side.ranks and set(side.ranks) <= suspects:
        who += " ← suspect"
    if side.call is None:
        return who
    who += f", {code(text.call(side.call))}"
    site = side.call.site
    if site:
        who += f" at {code(text.short_site(site))}"
        source = sources.get(site, "").strip()
        who += f": {code(source)}" if source else ""
    for caller in text.callers(side, sources):
        who += f", called from {code(text.short_site(caller))}"
    return who + _issuer(side.call)


def _parted(side: Side, sources: dict[str, str]) -> str:
    """Where ranks were when they parted from others, before the row of the finding."""
    call = side.call
    if call is None:
        return ""
    told = f"call {call.seq}, where they parted: **{words.ranks(side.ranks)}**, {text.name(call)}"
    lines = dict.fromkeys(site for site in (call.site, side.site) if site)
    for how, site in zip((" at", ", called from"), lines, strict=False):
        source = sources.get(site, "").strip()
        told += f"{how} {code(text.short_site(site))}{f': {code(source)}' if source else ''}"
    return told


def _issuer(call: Call) -> str:
    told = text.issuer(call)
    return f" ({escaped(told)})" if told else ""


def _table(table: Table) -> list[str]:
    shown = range(min(_MOST_COLUMNS, len(table.columns)))
    head = ["", "call", "", *(words.ranks(table.columns[n]) for n in shown)]
    told = [_row(head), _row(["---", "--:", *["---"] * (len(head) - 2)])]
    for row in sidebyside.rows(table):
        cells = [
            code(" ".join(part for part in (cell.what, cell.who) if part), in_table=True)
            for cell in row.cells[: len(shown)]
        ]
        cells += [""] * (len(shown) - len(cells))
        mark = f"**{row.mark.rstrip(' >')}**" if row.mark else ""
        told.append(_row([mark, row.seq, code(row.shared, in_table=True), *cells]))
    return told


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ranks(alignment: Alignment) -> list[str]:
    doing = [r for r in alignment.ranks if r.state != "finished"]
    if not doing:
        return []
    told = ["<details><summary>ranks</summary>", "", _row(["rank", "state", "", "last call"])]
    told.append(_row(["--:", "---", "---", "---"]))
    for rank in doing[:_MOST_RANKS]:
        last = rank.last_call
        call = f"{last.op} {last.seq}{words.at(last)}" if last is not None else ""
        told.append(
            _row([
                str(rank.rank), text.STATES[rank.state], escaped(words.brief(rank.detail)),
                code(call, in_table=True),
            ])
        )  # fmt: skip
    if len(doing) > _MOST_RANKS:
        told += ["", f"and {len(doing) - _MOST_RANKS} more"]
    return [*told, "", "</details>", ""]
