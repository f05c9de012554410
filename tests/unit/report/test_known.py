"""What a ledger says beside findings, in every form of the report; and that it changes nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from report import cli, console, html, markdown
from report.document import NO_LEDGER, assemble
from report.known import known_findings
from report.load import load
from report.sightings import FAILURES
from repro import baselines, codec
from repro.causes import causes
from repro.ledger import store
from repro.model import Ledger

RECORDS = Path(__file__).parents[2] / "data" / "records"
ENTRY = codec.read(RECORDS / "ledger-v1.json", Ledger).entries[0]


def ledger_of(root: Path) -> tuple[Ledger, str]:
    """A ledger with one failure of the fixture, and the kind of that failure."""
    for run in load([root]).newest():
        for cell in run.cells:
            for attempt in cell.attempts:
                for cause in causes(attempt.result, attempt.verdict):
                    if cause.family in FAILURES and cause.signature.phase != "none":
                        entry = replace(
                            ENTRY, signature=cause.signature, engine=attempt.result.engine.name, planted=run.planted
                        )
                        return Ledger(entries=(entry,)), cause.kind
    raise AssertionError("the fixture has no located failure")


def test_a_known_failure_is_said_in_every_form_and_nothing_else_changes(all_states: Path) -> None:
    ledger, kind = ledger_of(all_states)
    loaded, shelf = load([all_states]), baselines.load()
    plain = assemble(loaded, None, shelf, tool_version="0.1.0")
    told = assemble(loaded, None, shelf, tool_version="0.1.0", ledger=ledger)
    assert told.record == plain.record, "no finding, severity or order changes"
    names = {finding.id: finding.kind for finding in told.record.findings}
    assert told.known
    assert {names[name] for name in told.known} == {kind}
    line = f"known: {ENTRY.id} {ENTRY.issue}"
    assert f"\n   {line}\n" in console.render(told)
    assert console.render(told).replace(f"   {line}\n", "") == console.render(plain)
    assert f"known: {ENTRY.id} https:" in markdown.render(told)
    assert line in html.render(told)
    assert line not in html.render(plain)


def test_a_closed_failure_is_said_to_be_seen_again(all_states: Path) -> None:
    ledger, _ = ledger_of(all_states)
    closed = replace(ledger.entries[0], status="closed", closed_at="2026-10-03T00:00:00Z")
    runs = load([all_states]).newest()
    findings = assemble(load([all_states]), None, (), tool_version="0.1.0").record.findings
    said = known_findings(findings, runs, Ledger(entries=(closed,)))
    assert set(said.values()) == {f"known, closed 2026-10-03: seen again: {ENTRY.id} {ENTRY.issue}"}


def test_planted_failures_are_not_those_of_the_ledger(planted: Path) -> None:
    ledger, _ = ledger_of(planted)
    runs, findings = load([planted]).newest(), assemble(load([planted]), None, (), tool_version="0").record.findings
    assert known_findings(findings, runs, ledger)
    real = replace(ledger.entries[0], planted=False)
    assert known_findings(findings, runs, Ledger(entries=(real,))) == {}


def test_without_a_ledger_nothing_is_known(all_states: Path) -> None:
    assert assemble(load([all_states]), None, (), tool_version="0.1.0", ledger=NO_LEDGER).known == {}


def test_the_command_takes_a_ledger(
    all_states: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, _ = ledger_of(all_states)
    monkeypatch.chdir(tmp_path)
    build = ["build", "--results", str(all_states), "--out", str(tmp_path / "out")]
    assert cli.main([*build, "--ledger", "mine.json"]) == 2
    store.update(tmp_path / "mine.json", lambda _: (ledger, None))
    assert cli.main([*build, "--ledger", "mine.json"]) == 0
    assert f"known: {ENTRY.id}" in capsys.readouterr().out
    assert cli.main(build) == 0
    assert f"known: {ENTRY.id}" not in capsys.readouterr().out
    (tmp_path / "mine.json").rename(tmp_path / "ledger.json")
    assert cli.main(build) == 0
    assert f"known: {ENTRY.id}" in capsys.readouterr().out
