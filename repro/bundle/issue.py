"""`ISSUE.md`: the bug form of a project, filled in from records, ready to be pasted."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from repro.bundle import fingerprint, fingerprint_text, issue_evidence, issue_text, rivals
from repro.bundle.contents import Contents
from repro.bundle.inside import counting
from repro.bundle.issue_markdown import Markdown, Sayer, cut, forms, size
from repro.bundle.projects import TITLES, Choice, Project, choose
from repro.model import BundledFile, BundleExpectation, Fingerprint, LedgerEntry, LeftOut, Replay
from repro.shares import rate

LIMIT_CHARACTERS = 60_000
"""GitHub takes bodies of at most 65,536 characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IssueInputs:
    """All that is told. ``fingerprint``, ``repro_sh`` and ``needs`` are redacted already; ``redact`` is asked for all
    other text from outside, and must give a text back for any text. ``file_name``: how the bundle is called.
    ``needs``: what a replay needs, in one sentence. ``entry``: of the ledger, if there is one."""

    contents: Contents
    expectation: BundleExpectation
    replay: Replay | None
    fingerprint: Fingerprint
    digest: str
    files: tuple[BundledFile, ...]
    left_out: tuple[LeftOut, ...]
    repro_sh: str
    needs: str
    entry: LedgerEntry | None
    file_name: str
    redact: Callable[[str], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Limits:
    """How much is told: rows of lists and tables, lines of logs, fields of the environment, characters of one text and
    of a whole script."""

    rows: int
    lines: int
    fields: int
    text: int
    script: int


_LIMITS = (
    _Limits(rows=40, lines=40, fields=200, text=2_000, script=8_000),
    _Limits(rows=15, lines=20, fields=80, text=800, script=4_000),
    _Limits(rows=5, lines=8, fields=30, text=200, script=1_500),
)


def default_project(contents: Contents) -> Choice:
    """The project whose bug it looks like, and why."""
    diagnosis = contents.first.result.diagnosis
    component = diagnosis.component if diagnosis is not None else None
    return choose(contents.subject.signature, component, contents.subject.engine)


def issue(asked: IssueInputs, project: Project | None = None) -> str:
    """The file, with a final newline, below `LIMIT_CHARACTERS`; ``project`` None: the default one."""
    choice = default_project(asked.contents) if project is None else Choice(project, "it was asked for with --for")
    template = forms().get_template(f"{choice.project}.md.j2")
    text = ""
    for limits in _LIMITS:
        say = Sayer(asked.redact, limits.text)
        text = template.render(
            say=say,
            project=choice.project,
            why=say.text(choice.why),
            title=say.code(TITLES.get(choice.project, "") + issue_text.title(asked.contents)),
            **_failure(asked, say, limits),
            **_neighbours(asked, say, limits),
            **_reproduction(asked, say, limits),
            **_environment(asked, say, limits),
            **_bundle(asked, say, limits),
        )
        if len(text) <= LIMIT_CHARACTERS:
            break
    return text.rstrip("\n") + "\n"


def _failure(asked: IssueInputs, say: Sayer, limits: _Limits) -> dict[str, Any]:
    contents = asked.contents
    first, finding, diagnosis = contents.first, contents.finding, contents.first.result.diagnosis
    k, n = contents.k_of_n
    return {
        "engine": say.text(issue_text.engine_line(contents.subject)),
        "planted": contents.subject.planted,
        "healthy": contents.healthy,
        "statement": say.text(issue_text.statement(contents)),
        "expected": say.text(issue_text.expected(contents)),
        "observed": say.text(issue_text.observed(contents)),
        "rate": rate(k, n),
        "incidence": issue_text.incidence(k, n),
        "impact": issue_text.impact(contents),
        "what": say.text(issue_text.what(contents.subject.signature, first.result)),
        "setting": say.text(rivals.setting(first.result.coordinates)),
        "place": say.text(issue_evidence.place(diagnosis) or ""),
        "known": say.text(diagnosis.known if diagnosis is not None and diagnosis.known else ""),
        "scope": say.items(finding.scope if finding is not None else (), limits.rows),
        "not_tested": say.items(finding.not_tested if finding is not None else (), limits.rows),
        "log": say.block(issue_evidence.log_lines(contents, limits.lines)),
        "divergences": say.items(issue_evidence.divergences(contents, limits.lines // 3), limits.lines),
        "checks": say.items(issue_evidence.failed_checks(contents, limits.rows), limits.rows),
    }


def _neighbours(asked: IssueInputs, say: Sayer, limits: _Limits) -> dict[str, Any]:
    finding, found = asked.contents.finding, rivals.rivals(asked.contents)
    return {
        "hypotheses": say.items(finding.hypotheses if finding is not None else (), limits.rows),
        "settle": say.code(finding.settle) if finding is not None and finding.settle else "",
        "rivals": [
            [say.code(rival.cell), say.text(", ".join(rival.differs) or "nothing"), say.text(rival.says)]
            for rival in found[: limits.rows]
        ],
        "more_rivals": max(len(found) - limits.rows, 0),
        "singles": say.items(rivals.sentences(found), limits.rows),
        "versions": say.items(issue_text.versions(asked.contents, asked.entry), limits.rows),
    }


def _reproduction(asked: IssueInputs, say: Sayer, limits: _Limits) -> dict[str, Any]:
    rules = asked.expectation
    steps = (
        f"unzip {shlex.quote(asked.file_name)} -d bundle && cd bundle",
        f"python3 verify.py --digest {asked.digest}",
        "python3 replay.py",
    )
    return {
        "steps": say.given(steps),
        "replayed": say.text(issue_text.replayed(asked.replay, asked.file_name)),
        "rule": say.text(asked.expectation.statement),
        "script": say.given(cut(asked.repro_sh, limits.script)),
        "needs": say.text(asked.needs),
        "launches": counting.default_launches({"k": rules.k, "n": rules.n}),
        "undecided": say.text(rules.undecided or ""),
    }


def _environment(asked: IssueInputs, say: Sayer, limits: _Limits) -> dict[str, Any]:
    every = fingerprint.rows(asked.fingerprint)
    patches = "\n".join(fingerprint_text.patch_lines(asked.fingerprint))
    return {
        "check_env": say.given(fingerprint_text.check_env(asked.fingerprint)),
        "fields": [[say.known(row.field), row.state, say.fact(row.value)] for row in every[: limits.fields]],
        "fact": {
            row.field: say.fact(row.value if row.state != "unknown" else f"unknown ({row.value})") for row in every
        },
        "patches": say.given(cut(patches, limits.script)),
    }


def _bundle(asked: IssueInputs, say: Sayer, limits: _Limits) -> dict[str, Any]:
    left = [f"{one.where} ({size(one.size_bytes)}): {one.reason}" for one in asked.left_out]
    return {
        "file": asked.file_name,
        "digest": asked.digest,
        "holds": _holds(asked.files, say),
        "left_out": say.items(left, limits.rows),
    }


def _holds(files: Sequence[BundledFile], say: Sayer) -> list[list[Markdown]]:
    """The bundle's top level: name, number of files, size, and what was cut."""
    groups: dict[str, list[BundledFile]] = {}
    for file in files:
        top, _, rest = file.path.partition("/")
        groups.setdefault(f"{top}/" if rest else top, []).append(file)
    return [
        [
            say.code(name),
            Markdown(str(len(found))),
            Markdown(size(sum(file.size_bytes for file in found))),
            say.text("; ".join(dict.fromkeys(file.cut for file in found if file.cut)) or "whole"),
        ]
        for name, found in sorted(groups.items())
    ]
