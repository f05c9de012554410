"""Every planted secret goes, every harmless line stays."""

import json
from typing import Any

from repro.redact import Redactor, survivors


def test_planted_secrets_are_gone(planted: Any) -> None:
    redacted = Redactor().text(planted.text, "server.log")
    assert [secret for secret in planted.secrets if secret.lower() in redacted.lower()] == []
    assert redacted.count("\n") == planted.text.count("\n")


def test_nothing_survives_the_second_net(planted: Any) -> None:
    redacted = Redactor().text(planted.text, "server.log")
    assert survivors({"server.log": redacted.encode()}) == []


def test_a_second_pass_changes_nothing(planted: Any) -> None:
    once = Redactor().text(planted.text, "server.log")
    again = Redactor()
    assert again.text(once, "server.log") == once
    assert again.shown() == []


def test_planted_secrets_in_a_json_log_are_gone(planted: Any) -> None:
    """A collector has put the text into a record of JSON; that record must still be one."""
    line = json.dumps({"log": planted.text, "stream": "stdout", "time": "2026-11-30T06:51:30.123456789Z"}) + "\n"
    redacted = Redactor().text(line, "server.log")
    record = json.loads(redacted)
    assert list(record) == ["log", "stream", "time"]
    assert [secret for secret in planted.secrets if secret.lower() in record["log"].lower()] == []


def test_planted_secrets_in_a_document_are_gone(planted: Any) -> None:
    redacted = json.dumps(Redactor().document({"note": [planted.text]}, "x.json"), ensure_ascii=False)
    assert [secret for secret in planted.secrets if secret.lower() in redacted.lower()] == []


def test_the_second_net_would_have_caught_most(all_planted: list[Any]) -> None:
    """Unredacted, each text is refused: the net is there for what a rule may miss in a file that no rule has seen."""
    assert [planted.id for planted in all_planted if not survivors({"x": planted.text.encode()})] == []


def test_harmless_lines_stay(harmless: str) -> None:
    redactor = Redactor()
    assert redactor.text(harmless, "server.log") == harmless
    assert redactor.report() == ()
    assert survivors({"server.log": harmless.encode()}) == []


def test_the_corpora_are_as_large_as_promised(all_planted: list[Any]) -> None:
    count = {
        name: sum(planted.id.startswith(name) for planted in all_planted)
        for name in ("planted", "held_out", "blind_1", "blind_2")
    }
    assert count["planted"] >= 150
    assert count["held_out"] >= 100
    assert count["blind_1"] >= 250
    assert count["blind_2"] >= 160
