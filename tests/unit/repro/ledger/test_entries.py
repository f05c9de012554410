"""One entry for each failure: what is merged, what is kept apart."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from repro.ledger import entries
from repro.model import Signature, Subject

About = Callable[..., Subject]


def test_a_new_failure_is_a_new_entry(desk: Any) -> None:
    added = desk.add(desk.bundle("a"), issue="https://example.org/1")
    assert (added.how, added.entry.status, added.entry.issue) == ("new", "open", "https://example.org/1")
    assert added.entry.engine_versions_bad == ("0.5.23",)


def test_architectures_and_cells_of_one_failure_are_merged(desk: Any, about: About) -> None:
    desk.add(desk.bundle("a"))
    cells = ("sm_120-b16t8-graph-nonvls",)
    other = about(architecture="sm_120", target="rtxpro6000", cells=cells, engine_version="0.5.22")
    added = desk.add(desk.bundle("b", architecture="sm_120", engine_version="0.5.22"), other)
    assert added.how == "merged"
    (entry,) = desk.ledger.entries
    assert entry.architectures == ("sm_103", "sm_120")
    assert entry.targets == ("b300", "rtxpro6000")
    assert entry.cells == ("sm_103-b16t8-graph-nvls", *cells)
    assert entry.engine_versions_bad == ("0.5.23", "0.5.22")
    assert [bundle.architecture for bundle in entry.bundles] == ["sm_103", "sm_120"]


def test_a_bundle_that_was_moved_is_found_again_when_it_is_added_from_there(desk: Any) -> None:
    desk.add(desk.bundle("z"))
    bundle = desk.bundle("a")
    desk.add(bundle)
    added = desk.add(replace(bundle, path="kept/a.zip"))
    assert added.how == "known"
    assert [one.path for one in added.entry.bundles] == ["z.zip", "kept/a.zip"]


def test_the_same_bundle_twice_only_brings_the_issue(desk: Any) -> None:
    bundle = desk.bundle("a")
    desk.add(bundle)
    added = desk.add(bundle, issue="https://example.org/7")
    assert (added.how, added.entry.issue) == ("known", "https://example.org/7")
    assert len(added.entry.bundles) == 1
    assert desk.add(bundle).entry.issue == "https://example.org/7", "no address takes none away"


@pytest.mark.parametrize("changes", [{"engine": "simulated"}, {"planted": True}])
def test_other_engines_and_planted_faults_are_other_failures(
    desk: Any, about: About, changes: dict[str, object]
) -> None:
    desk.add(desk.bundle("a"))
    assert desk.add(desk.bundle("b"), about(**changes)).how == "new"
    assert len({entry.id for entry in desk.ledger.entries}) == 2


def test_an_unlocated_failure_joins_the_only_one_that_it_may_be(
    desk: Any, about: About, signatures: Sequence[Signature]
) -> None:
    vague = replace(signatures[0], subsystem=None)
    first = desk.add(desk.bundle("a"), about(signature=vague)).entry
    located = desk.add(desk.bundle("b"), about(signature=signatures[0]))
    assert (located.how, located.entry.id) == ("merged", first.id)
    assert located.entry.signature == signatures[0], "the more exact one"
    elsewhere = replace(signatures[0], subsystem="moe")
    other = desk.add(desk.bundle("c"), about(signature=elsewhere))
    assert other.how == "new"
    unclear = desk.add(desk.bundle("d"), about(signature=vague))
    assert unclear.how == "new", "it may be either"
    assert unclear.entry.id not in {first.id, other.entry.id}
    assert desk.add(desk.bundle("e"), about(signature=vague)).entry.id == unclear.entry.id


def test_a_failure_in_another_phase_is_another_one(desk: Any, about: About, signatures: Sequence[Signature]) -> None:
    desk.add(desk.bundle("a"))
    assert desk.add(desk.bundle("b"), about(signature=replace(signatures[0], phase="serving"))).how == "new"


def test_a_bundle_of_a_closed_failure_reopens_it_on_an_engine_that_is_new(desk: Any) -> None:
    desk.add(desk.bundle("a"))
    closed = replace(desk.entry, status="closed", closed_at="2026-10-01T00:00:00Z", engine_versions_good=("0.5.24",))
    desk.ledger = entries.changed(desk.ledger, closed)
    old = desk.add(desk.bundle("old"))
    assert (old.reopened, old.entry.status) == (False, "closed")
    added = desk.add(desk.bundle("new", engine_version="0.5.24"))
    assert (added.reopened, added.entry.status, added.entry.closed_at) == (True, "reopened", None)
    assert added.entry.engine_versions_good == ()
