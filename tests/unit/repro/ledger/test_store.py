"""`ledger.json` on disk: whole or not at all, one writer at a time."""

import errno
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from repro import codec
from repro.canonical import pretty_bytes
from repro.cli import main
from repro.errors import RecordError, SpecError, UnavailableError
from repro.ledger import store
from repro.model import Ledger


def test_it_begins_with_the_first_bundle(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    assert store.update(path, lambda before: (desk.ledger, before)) == Ledger(entries=())
    assert store.read(path) == desk.ledger


def test_a_change_that_fails_writes_nothing(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    store.update(path, lambda _: (desk.ledger, None))
    before = path.read_bytes()

    def fail(_: Ledger) -> tuple[Ledger, None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.update(path, fail)
    assert path.read_bytes() == before


def test_no_change_leaves_the_file_alone(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    store.update(path, lambda _: (desk.ledger, None))
    path.write_bytes(path.read_bytes() + b"\n")
    store.update(path, lambda before: (before, None))
    assert path.read_bytes().endswith(b"\n\n")


def test_an_invalid_ledger_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text("{}")
    with pytest.raises(RecordError, match="does not say which record"):
        store.update(path, lambda before: (before, None))
    assert path.read_text() == "{}"


def test_a_merge_by_hand_that_has_an_entry_twice_is_refused(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    (entry,) = desk.ledger.entries
    path.write_bytes(pretty_bytes(codec.encode(Ledger(entries=(entry, replace(entry, issue="https://x.test/1"))))))
    before = path.read_bytes()
    with pytest.raises(RecordError, match=f"/entries/1/id: {entry.id} is there twice; make one entry of the two"):
        store.update(path, lambda ledger: (ledger, None))
    assert path.read_bytes() == before


def test_more_failures_than_launches_are_refused(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    (entry,) = desk.ledger.entries
    wrong = replace(entry, bundles=(replace(entry.bundles[0], k=10, n=5),))
    path.write_bytes(pretty_bytes(codec.encode(Ledger(entries=(wrong,)))))
    with pytest.raises(RecordError, match="/entries/0/bundles/0: k of n is 10 of 5"):
        store.read(path)


def test_nobody_is_told_to_delete_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text("<<<<<<< HEAD\n{}")
    with pytest.raises(RecordError, match="take it from the last commit") as caught:
        store.read(path)
    assert "delete it" not in str(caught.value)


@pytest.mark.parametrize("leads", ["real.json", "nowhere.json"])
def test_a_link_is_not_replaced_by_a_ledger_of_its_own(desk: Any, tmp_path: Path, leads: str) -> None:
    desk.add(desk.bundle("a"))
    store.update(tmp_path / "real.json", lambda _: (desk.ledger, None))
    link = tmp_path / "ledger.json"
    link.symlink_to(leads)
    with pytest.raises(SpecError, match="symbolic link"):
        store.update(link, lambda _: (Ledger(entries=()), None))
    with pytest.raises(SpecError, match="symbolic link"):
        store.read(link)
    assert link.is_symlink()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ledger.json")
    with pytest.raises(SpecError, match="not a regular file"):
        store.read(tmp_path / "ledger.json")
    with pytest.raises(SpecError, match="not a regular file"):
        store.update(tmp_path / "ledger.json", lambda before: (before, None))


def test_no_launch_is_made_for_a_ledger_that_cannot_be_written(
    desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    store.update(path, lambda _: (desk.ledger, None))

    def read_only(**_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("repro.bundle.cli.tempfile.TemporaryFile", read_only)
    assert main(["recheck", "--ledger", str(path)]) == 2
    said = capsys.readouterr()
    assert "ledger.json: cannot be written (Read-only file system)" in said.err
    assert desk.ledger.entries[0].id not in said.err


def test_a_ledger_in_use_is_waited_for_then_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_WAIT_S", 0.05)
    with (
        FileLock(tmp_path / ".ledger.json.lock"),
        pytest.raises(UnavailableError, match="in use by another graphrepro process"),
    ):
        store.update(tmp_path / "ledger.json", lambda before: (before, None))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="there is no such folder"):
        store.update(tmp_path / "none" / "ledger.json", lambda before: (before, None))


def count_up(path: str, times: int) -> None:
    def more(before: Ledger) -> tuple[Ledger, None]:
        (entry,) = before.entries
        name = f"v{len(entry.engine_versions_bad)}"
        changed = replace(entry, engine_versions_bad=(*entry.engine_versions_bad, name))
        return Ledger(entries=(changed,)), None

    for _ in range(times):
        store.update(Path(path), more)


def test_writers_at_the_same_time_lose_nothing(desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    desk.add(desk.bundle("a"))
    store.update(path, lambda _: (desk.ledger, None))
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=count_up, args=(str(path), 10)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert len(store.read(path).entries[0].engine_versions_bad) == 1 + 30


def test_an_entry_that_is_not_there(desk: Any) -> None:
    entry = desk.add(desk.bundle("a")).entry
    assert store.entry_of(desk.ledger, entry.id) == entry
    with pytest.raises(SpecError, match=f"no entry 'l-0'; it has: {entry.id}"):
        store.entry_of(desk.ledger, "l-0")
