"""Fault names and numbers, where they are read from, and that the catalogue file says the same."""

import json
import re

import pytest
from graphrepro_ddtree import faults


@pytest.fixture
def catalogue(payload):
    return json.loads((payload / "faults.json").read_text())


def test_catalogue_file_and_plugin_agree(catalogue):
    listed = {entry["name"]: (entry["number"], tuple(entry["algorithms"])) for entry in catalogue["faults"]}
    assert listed == {kind.name: (kind.number, kind.algorithms) for kind in faults.KINDS.values()}


def test_catalogue_explains_each_fault(catalogue):
    for entry in catalogue["faults"]:
        assert entry.keys() == {"name", "meaning", "number", "unit", "effect", "algorithms"}
        assert entry["meaning"]
        assert entry["effect"]
        assert (entry["unit"] is None) == (entry["number"] is None)


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [("stale-mask", "stale-mask", 0), ("wrong-token", "wrong-token", 200), (" nan:3\n", "nan", 3)],
)
def test_parse(text, name, number):
    assert faults.parse(text) == faults.Fault(name=name, number=number)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_is_no_fault(text):
    assert faults.parse(text) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stale-masks", "unknown fault 'stale-masks'; the names are stale-mask, "),
        (":3", "unknown fault ''"),
        ("stale-mask:3", "takes no number"),
        ("nan:", "needs a number of 1 or more, not ''"),
        ("nan:0", "not '0'"),
        ("nan:-1", "not '-1'"),
        ("nan:²", "not '²'"),
        ("nan:1:2", "not '1:2'"),
    ],
)
def test_nonsense_is_refused(text, says):
    with pytest.raises(faults.FaultError, match=re.escape(says)):
        faults.parse(text)


def test_a_fault_must_be_possible_with_the_algorithm():
    faults.parse("wrong-token").require(None)
    faults.parse("stale-mask").require("NGRAM")
    faults.parse("nan-padding").require("DDTREE")
    with pytest.raises(faults.FaultError, match="cannot be planted with algorithm None; it works with NGRAM, DDTREE"):
        faults.parse("stale-mask").require(None)
    with pytest.raises(faults.FaultError, match="it works with DDTREE"):
        faults.parse("nan-padding").require("NGRAM")


def test_no_variable_means_no_source():
    assert faults.source_from({}) is None
    assert faults.source_from({faults.FAULT_VARIABLE: ""}) is None


def test_fixed_source():
    source = faults.source_from({faults.FAULT_VARIABLE: "exit:4"})
    assert source.read() == faults.Fault(name="exit", number=4)


@pytest.mark.parametrize(
    "environment",
    [
        {faults.FAULT_VARIABLE: "nonsense"},
        {faults.FAULT_VARIABLE: "nan", faults.FILE_VARIABLE: "somewhere"},
    ],
)
def test_a_bad_request_stops_the_process_with_one_line(environment):
    with pytest.raises(SystemExit) as stop:
        faults.source_from(environment)
    assert "\n" not in stop.value.code
    assert stop.value.code.startswith("graphrepro_ddtree: GRAPHREPRO_FAULT")


def test_a_bad_file_stops_the_process(tmp_path):
    path = tmp_path / "fault"
    path.write_text("nonsense")
    with pytest.raises(SystemExit, match="GRAPHREPRO_FAULT_FILE: unknown fault 'nonsense'"):
        faults.source_from({faults.FILE_VARIABLE: str(path)})


def test_file_source_follows_its_file(tmp_path):
    path = tmp_path / "fault"
    source = faults.source_from({faults.FILE_VARIABLE: str(path)})
    assert source.read() is None

    def put(text):
        new = tmp_path / "new"
        new.write_text(text)
        new.replace(path)

    put("nan:3")
    assert source.read() == source.read() == faults.Fault(name="nan", number=3)
    put("causal-mask")
    assert source.read().name == "causal-mask"
    put("")
    assert source.read() is None
    put("nonsense")
    with pytest.raises(faults.FaultError):
        source.read()
    path.unlink()
    assert source.read() is None
