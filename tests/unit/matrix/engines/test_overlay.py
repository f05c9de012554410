"""Overlays: those that come along, a user's own, and what is said of a wrong one."""

from pathlib import Path

import pytest

from matrix.engines.flags import FlagTable
from matrix.engines.overlay import TopkRule, built_in_overlays, load_overlay, parse_overlay
from repro.errors import SpecError

MINE = b"""
record = "engine-overlay"
schema_version = 1
name = "mine"
engine = "sglang"
source = "our own build"
base_release = "0.5.20"
extends = "stock"
added_flags = [{ name = "tree-width", takes_value = true }]

[shapes.tree]
algorithm = "OURTREE"
topk = { rule = "unstated" }
options = { speculative-algorithm = "OURTREE", tree-width = "{width}" }
width_proof = { how = "log", pattern = 'tree of (\\d+) rows' }
topk_proof = { how = "nowhere", note = "our build does not say it" }
"""


def test_the_built_in_ones_load() -> None:
    assert built_in_overlays() == ("cpu-ddtree", "pr29907", "simulated", "stock")
    table = FlagTable.load()
    for name in built_in_overlays():
        overlay = load_overlay(name)
        assert overlay.name == name
        assert overlay.base_release is None or table.knows(overlay.base_release)
    assert set(load_overlay("stock").shapes) == {"chain", "ngram"}
    assert set(load_overlay("pr29907").shapes) == {"tree", "chain", "ngram"}


def test_ones_own_extends_a_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(MINE)
    overlay = load_overlay(str(path))
    assert set(overlay.shapes) == {"tree", "chain", "ngram"}
    assert overlay.base_release == "0.5.20"
    assert overlay.added_flags[0].name == "tree-width"
    assert overlay.origin == str(path)


def changed(old: bytes, new: bytes) -> bytes:
    assert old in MINE
    return MINE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(b"topk_proof", b"topk_prof"), r"my\.toml: /shapes/tree.*did you mean 'topk_proof' for 'topk_prof'"),
        (changed(b"base_release", b"base_relaese"), r"my\.toml.*did you mean 'base_release'"),
        (changed(b'rule = "unstated"', b'rule = "guess"'), r"my\.toml: /shapes/tree/topk/rule"),
        (changed(b'engine = "sglang"', b'engine = "vllm"'), r"my\.toml: /engine"),
        (changed(b"(\\d+) rows", b"(\\d+ rows"), r"/shapes/tree/width_proof/pattern: not a regular expression"),
        (changed(b"(\\d+) rows", b"\\d+ rows"), r"/shapes/tree/width_proof/pattern: needs a group"),
        (changed(b'how = "log"', b'how = "derived"'), r"needs the named groups"),
        (changed(b'extends = "stock"', b'extends = "stok"'), r"unknown engine source 'stok': did you mean 'stock'"),
        (changed(b"[shapes.tree]", b"[shapes.tree"), r"my\.toml: not TOML: .*line"),
        (b"\xff", r"my\.toml: not UTF-8 at byte 0"),
    ],
)
def test_a_wrong_one_is_named_with_its_place(text: bytes, said: str) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        parse_overlay(text, origin="my.toml")
    assert "\n" not in str(raised.value)


def test_an_unknown_source_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"unknown engine source 'pr29908': did you mean 'pr29907'"):
        load_overlay("pr29908")
    with pytest.raises(SpecError, match=r"missing\.toml: No such file"):
        load_overlay(str(tmp_path / "missing.toml"))


@pytest.mark.parametrize(
    ("budget", "requested", "block_size", "made"),
    [
        (8, 4, 8, 2),
        (12, 4, 8, 2),
        (16, 8, 8, 3),
        (32, 8, 8, 5),
        (32, None, 8, 5),
        (64, None, 8, 6),  # the pull request's own cap
        (64, 8, 8, 8),  # raised by the request
        (32, 4, 8, 4),
        (7, 4, 8, 1),  # spine
        (3, 4, 8, 1),
        (16, 8, 16, 2),  # the next budget after the spine of another block size
        (15, 8, 16, 1),
        (16, 8, None, None),
    ],
)
def test_top_k_of_the_pull_request(
    budget: int, requested: int | None, block_size: int | None, made: int | None
) -> None:
    rule = load_overlay("pr29907").shapes["tree"].topk
    assert rule.effective(budget=budget, requested=requested, block_size=block_size) == made


def test_the_other_top_k_rules() -> None:
    given = {"budget": 16, "requested": 8, "block_size": 8}
    assert TopkRule(rule="requested").effective(**given) == 8
    assert TopkRule(rule="one").effective(**given) == 1
    assert TopkRule(rule="unstated").effective(**given) is None
    assert TopkRule(rule="spread").effective(**given) == 3
