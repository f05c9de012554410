"""Files to the bytes of a bundle: the same for the same files, and never too large."""

import dataclasses
import io
import random
import zipfile
from collections.abc import Callable

import pytest

from repro.bundle import archive
from repro.bundle.archive import fitting, packed
from repro.bundle.inside.verify import Archive, checked
from repro.errors import BundleError

NOISE = random.Random(1).randbytes(100_000)


def test_same_files_give_the_same_bytes(bundle_of: Callable[..., bytes]) -> None:
    files = {f"results/c/{number}/result.json": b"{}" * number for number in range(1, 9)}
    backwards = dict(reversed(files.items()))
    assert bundle_of(files) == bundle_of(backwards)


def test_other_tools_read_it(bundle_of: Callable[..., bytes]) -> None:
    data = bundle_of({"repro.sh": b"#!/bin/sh\n", "results/a.log": b"line\n" * 1000})
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == ["ISSUE.md", "repro.sh", "results/a.log", "verify.py", "manifest.json"]
        assert opened.read("results/a.log") == b"line\n" * 1000
        assert opened.getinfo("repro.sh").external_attr >> 16 == 0o100755
        assert opened.getinfo("results/a.log").external_attr >> 16 == 0o100644


def test_what_does_not_shrink_is_stored() -> None:
    assert packed("a", NOISE).method == 0
    assert packed("a", b"a" * 1000).method == 8
    assert packed("a", b"").size_bytes == 0
    assert all(packed("a", raw).raw() == raw for raw in (NOISE, b"a" * 1000, b""))


def test_a_log_of_one_line_is_no_bomb(bundle_of: Callable[..., bytes]) -> None:
    """What shrinks more than any reader should believe is stored as it is."""
    data = bundle_of({"results/flood.log": b"the same line\n" * 200_000})
    assert checked(Archive(data)).ok
    assert len(data) > 2_000_000


def test_names_that_no_bundle_can_have() -> None:
    for name in ("../x", "/x", "a\\b", "naïve"):
        with pytest.raises(BundleError):
            packed(name, b"")


def test_nothing_is_dropped_that_fits() -> None:
    files = [packed("a", NOISE, rank=1), packed("b", NOISE)]
    kept, dropped = fitting(files)
    assert [file.path for file in kept] == ["a", "b"]
    assert dropped == ()


def test_dropped_in_the_stated_order() -> None:
    """By rank; within a rank those of later attempts first, then the larger."""
    files = [
        packed("always", NOISE),
        packed("second", NOISE, rank=2, turn=0),
        packed("first-of-2", NOISE, rank=1, turn=1),
        packed("first-of-1", NOISE[:50_000], rank=1, turn=0),
        packed("first-of-1-large", NOISE, rank=1, turn=0),
    ]
    expected = ["first-of-2", "first-of-1-large", "first-of-1", "second"]
    for count in range(1, 5):
        limit = 524_288 + 1000 + sum(len(file.data) + 400 for file in files if file.path not in expected[:count])
        kept, dropped = fitting(files, limit_bytes=limit)
        assert [file.path for file in dropped] == expected[:count]
        assert {file.path for file in kept} == {file.path for file in files} - set(expected[:count])


def test_what_may_not_be_dropped_is_an_error() -> None:
    with pytest.raises(BundleError, match="what every bundle must hold"):
        fitting([packed("always", NOISE)], limit_bytes=600_000)


def test_unpacked_size_counts_too() -> None:
    large = packed("zeros", b"\0" * 60_000_000, rank=1)
    shrunk = dataclasses.replace(large, data=b"x", method=8)
    files = [dataclasses.replace(shrunk, path=f"zeros-{number}", turn=number) for number in range(5)]
    kept, dropped = fitting(files)
    assert [file.path for file in dropped] == ["zeros-4", "zeros-3"]
    assert sum(file.size_bytes for file in kept) < 200_000_000


def test_largest_archive_is_refused_by_the_reader_and_never_made() -> None:
    files = [packed(f"results/{number}", random.Random(number).randbytes(1_000_000), rank=1) for number in range(30)]
    kept, dropped = fitting(files)
    assert sum(len(file.data) for file in kept) < 25_000_000 - 400_000
    assert len(kept) + len(dropped) == 30
    assert archive.listed(kept[0]).size_bytes == 1_000_000
