"""A ledger with bundles that are only files, and replays that are only told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from repro.canonical import sha256_file
from repro.ledger import entries, recheck, standing
from repro.model import (
    Ledger,
    LedgerBundle,
    LedgerCheck,
    LedgerEntry,
    RecheckAnswer,
    Replay,
    ReplayLaunch,
    Signature,
    Subject,
)

SIGNATURE = Signature(kind="cuda_illegal_memory_access", phase="capture", subsystem="attention")
OTHER = Signature(kind="oom_gpu_serving", phase="serving", subsystem=None)


def subject(**changes: object) -> Subject:
    given: dict[str, object] = {
        "finding": "f-1",
        "target": "b300",
        "architecture": "sm_103",
        "cells": ("sm_103-b16t8-graph-nvls",),
        "attempts": ("run/sm_103-b16t8-graph-nvls/1",),
        "signature": SIGNATURE,
        "engine": "sglang",
        "engine_version": "0.5.23",
        "engine_source": "stock",
        "image": None,
        "planted": False,
        **changes,
    }
    return Subject(**given)  # type: ignore[arg-type]


def replayed(states: str, *, version: str | None = None, other: Signature | None = OTHER) -> Replay:
    """``r`` reproduced, ``c`` clean, ``a`` another failure, ``v`` void."""
    names = {"r": "reproduced", "c": "clean", "a": "another_failure", "v": "void"}
    runs = tuple(
        ReplayLaunch(
            launch=number,
            state=names[state],  # type: ignore[arg-type]
            outcome="completed" if state == "c" else "crashed",
            signature={"r": SIGNATURE, "a": other}.get(state),
            detail="",
            wall_s=1.0,
        )
        for number, state in enumerate(states, start=1)
    )
    seen, n = states.count("r"), states.count("r") + states.count("c")
    return Replay(
        bundle_digest="d" * 64,
        runtime="local",
        image=None,
        reproduced=seen,
        launches=n,
        upper=1 - 0.05 ** (1 / n) if n and not seen else None,
        blocked=None,
        statement="told",
        runs=runs,
        facts={"engine_version": version} if version else {},
    )


@dataclass
class Desk:
    """A ledger in memory. ``replays`` gives how a bundle does, by architecture and number of launches."""

    folder: Path
    ledger: Ledger = field(default_factory=lambda: Ledger(entries=()))
    asked: list[tuple[str | None, int]] = field(default_factory=list)
    clock: int = 0

    def now(self) -> str:
        self.clock += 1
        return f"2026-10-{self.clock // 24 + 1:02}T{self.clock % 24:02}:00:00Z"

    def bundle(self, name: str, *, k: int = 2, n: int = 3, **changes: object) -> LedgerBundle:
        file = self.folder / f"{name}.zip"
        file.write_bytes(name.encode())
        given: dict[str, object] = {
            "path": file.name,
            "sha256": sha256_file(file),
            "digest": "d" * 64,
            "architecture": "sm_103",
            "engine_version": "0.5.23",
            "image": None,
            "k": k,
            "n": n,
            "added_at": self.now(),
            **changes,
        }
        return LedgerBundle(**given)  # type: ignore[arg-type]

    def add(self, bundle: LedgerBundle, about: Subject | None = None, **more: object) -> entries.Added:
        added = entries.add(
            self.ledger,
            about or subject(architecture=bundle.architecture, engine_version=bundle.engine_version),
            bundle,
            statement="the server dies while capturing",
            first_seen_at="2026-09-14T08:15:02Z",
            **more,  # type: ignore[arg-type]
        )
        self.ledger = added.ledger
        return added

    def recheck(
        self,
        replay: Callable[[LedgerBundle, int], Replay],
        *,
        version: str | None = "0.5.24",
        count: int | None = None,
        entry: int = 0,
    ) -> RecheckAnswer:
        def run(bundle: LedgerBundle, file: Path, launches: int) -> Replay:
            assert file == self.folder / bundle.path
            self.asked.append((bundle.architecture, launches))
            return replay(bundle, launches)

        question = recheck.Question(replayer=run, engine_version=version, image=None, count=count, now=self.now)
        before = after = self.ledger.entries[entry]
        checks: list[LedgerCheck] = []
        for check in recheck.ask(before, self.ledger, self.folder, question):
            after = standing.after(after, check)
            self.ledger = entries.changed(self.ledger, after)
            checks.append(check)
        return recheck.answer(before, after, checks)

    @property
    def entry(self) -> LedgerEntry:
        return self.ledger.entries[0]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def replay_of() -> Callable[..., Replay]:
    return replayed


@pytest.fixture
def about() -> Callable[..., Subject]:
    return subject


@pytest.fixture
def signatures() -> Sequence[Signature]:
    return SIGNATURE, OTHER
