"""Which releases, arrangements and budgets the buffers arm asks, and where it finds the wheels."""

from pathlib import Path

import pytest

from repro.errors import SpecError
from repro.kernels import buffers as arm
from repro.kernels import releases
from repro.kernels.case import BUDGETS, Case, Selection


def selection(*, quick: bool = False, wheels: str | None = None, versions: tuple[str, ...] | None = None) -> Selection:
    return Selection(
        budgets=None, shapes=None, architectures=None, quick=quick, wheels=wheels, tritons=(), releases=versions
    )


def only(version: str) -> dict[tuple[int | None, str], Case]:
    """Cases of a release by budget and arrangement."""
    cases = [case for case in arm.plan(selection(versions=(version,))) if case.planted is None]
    return {(case.cell.budget, case.cell.id.rpartition("-")[2]): case for case in cases}


def test_the_list_has_the_releases_around_the_pull_request_and_the_pinned_one() -> None:
    versions = [release.version for release in releases.listed()]
    assert len(versions) == len(set(versions)) >= 6
    assert {"0.5.12", "0.5.15.post1", "0.5.23"} <= set(versions)
    assert all(len(release.wheel_sha256) == 64 for release in releases.listed())


def test_every_budget_in_every_arrangement() -> None:
    cases = only("0.5.23")
    assert set(cases) == {(budget, name) for budget in BUDGETS for name in ("tree", "block", "step")}
    widths = {
        name: tuple(cases[12, name].parameters[key] for key in ("draft_tokens", "runner_width", "width"))
        for name in ("tree", "block", "step")
    }
    assert widths == {"tree": (13, 13, 13), "block": (8, 8, 13), "step": (8, 13, 13)}


def test_a_fault_is_planted_in_an_older_and_a_newer_release() -> None:
    planted = [case for case in arm.plan(selection()) if case.planted]
    assert {case.parameters["version"] for case in planted} == {"0.5.15.post1", "0.5.23"}
    other = [case for case in arm.plan(selection(versions=("0.5.12",))) if case.planted]
    assert [case.parameters["version"] for case in other] == ["0.5.12"]


def test_ids_are_unique_and_a_release_stays_in_one_process() -> None:
    cases = arm.plan(selection())
    assert len({case.key for case in cases}) == len(cases)
    homes = {(case.parameters["version"], case.group) for case in cases}
    assert len(homes) == len({version for version, _ in homes})


def test_a_release_that_is_not_listed_is_refused() -> None:
    with pytest.raises(SpecError, match=r"0\.4\.9 is not in releases\.toml"):
        arm.plan(selection(versions=("0.4.9",)))


def test_wheels_are_found_by_their_whole_version(tmp_path: Path) -> None:
    wheel = tmp_path / "sglang-0.5.15.post1-cp311-cp311-manylinux_2_34_x86_64.whl"
    wheel.touch()
    assert releases.root(str(tmp_path), "0.5.15.post1") == str(wheel)
    assert releases.root(str(tmp_path), "0.5.15") is None
    assert releases.root(None, "0.5.15") is None
    assert "0.5.15.post1" not in {release.version for release in releases.missing(str(tmp_path))}
    assert "0.5.15" in {release.version for release in releases.missing(str(tmp_path))}


def test_an_unpacked_wheel_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "sglang-0.5.15-unpacked"
    (folder / "sglang").mkdir(parents=True)
    (tmp_path / "sglang-0.5.16.post1" / "sglang").mkdir(parents=True)
    assert releases.root(str(tmp_path), "0.5.15") == str(folder)
    assert releases.root(str(tmp_path), "0.5.16") is None


def test_a_release_is_required_by_its_hash() -> None:
    release = releases.listed()[0]
    assert releases.requirement(release) == f"sglang=={release.version} --hash=sha256:{release.wheel_sha256}"
