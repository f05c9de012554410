"""Scripts, faults and options: what is understood, and what is refused."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from simulated import arguments, faults
from simulated.configuration import Refused, resolve
from simulated.log import TEXTS
from simulated.script import SCRIPTS, BadScript, find, read

import schemas

KNOWN = faults.defaults()
PLUGIN = Path(arguments.__file__).parents[1] / "cpu" / "plugin" / "graphrepro_ddtree" / "faults.py"


@pytest.fixture
def script(tmp_path):
    def write(rules=(), **changes):
        document = json.loads((SCRIPTS / "default.json").read_text()) | {"rules": list(rules)} | changes
        schemas.validate(document, "simulation", "script.json")
        path = tmp_path / "script.json"
        path.write_text(json.dumps(document))
        return path

    return write


def faults_of(path, cell="sim-b16t8", launch=1):
    return read(path, cell=cell, launch=launch, known=KNOWN).faults


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_scripts_that_are_shipped(path):
    schemas.validate(json.loads(path.read_text()), "simulation", path.name)
    assert find(path.stem) == path
    assert read(path, cell="sim-ar", launch=1, known=KNOWN)


def test_rules_by_cell_and_launch(script):
    path = script(
        [
            {"cells": "*-b16*", "launches": [2], "faults": [{"name": "crash-capture"}]},
            {"cells": "*", "faults": [{"name": "wrong-token", "number": 7}, {"name": "nan"}]},
        ]
    )
    assert faults_of(path) == {"wrong-token": 7, "nan": 25}
    assert faults_of(path, launch=2) == {"crash-capture": 0, "wrong-token": 7, "nan": 25}
    assert faults_of(path, cell="sim-b8t4", launch=2) == {"wrong-token": 7, "nan": 25}


def test_rules_change_parts_of_the_behaviour(script):
    rule = {"cells": "*eager*", "speed": {"step_s": 9}, "acceptance": {"16": 1.5}, "phases_s": {"launch": 2}}
    path = script([rule])
    healthy = read(path, cell="sim-b16t8", launch=1, known=KNOWN)
    changed = read(path, cell="sim-b16t8-eager", launch=1, known=KNOWN)
    assert (changed.speed.step_s, changed.speed.ttft_s) == (9.0, healthy.speed.ttft_s)
    assert (changed.acceptance[16], changed.acceptance[8]) == (1.5, healthy.acceptance[8])
    assert changed.phases_s == {**healthy.phases_s, "launch": 2.0}


def test_a_probability_is_a_share_of_launches(script):
    path = script([{"cells": "*", "probability": 0.2, "faults": [{"name": "sigkill"}]}])
    hit = [launch for launch in range(1, 501) if faults_of(path, launch=launch)]
    assert 60 <= len(hit) <= 140
    assert hit == [launch for launch in range(1, 501) if faults_of(path, launch=launch)]
    assert hit != [launch for launch in range(1, 501) if faults_of(path, cell="sim-b8t4", launch=launch)]


@pytest.mark.parametrize("probability", [0, 1])
def test_certain_probabilities(script, probability):
    path = script([{"cells": "*", "probability": probability, "faults": [{"name": "sigkill"}]}])
    assert all(bool(faults_of(path, launch=launch)) is bool(probability) for launch in range(1, 50))


def test_the_failing_region():
    path = find("failing-region")
    deaths = [bool(faults_of(path, cell="sim-b16t8-graph-nvls", launch=launch)) for launch in range(1, 101)]
    assert 30 <= sum(deaths) <= 70
    assert faults_of(path, cell="sim-b32t8-graph-nvls") == {"illegal-access": 40}
    assert faults_of(path, cell="sim-b32t8-graph-nonvls") == {"garbled": 8}
    for healthy in ("sim-b12t4-graph-nvls", "sim-b16t8-eager-nvls", "sim-b32t8-eager-nonvls", "sim-ar-graph-nvls"):
        assert faults_of(path, cell=healthy) == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"record": "plan", "schema_version": 1}', '{"record": "simulation", "schema_version": 1}']
)
def test_a_script_that_is_none(tmp_path, text):
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(BadScript, match=r"script\.json"):
        faults_of(path)


def test_a_script_with_an_unknown_fault(script):
    with pytest.raises(BadScript, match="unknown fault 'sigkil'"):
        faults_of(script([{"cells": "*", "faults": [{"name": "sigkil"}]}]))


def test_a_script_that_is_missing():
    with pytest.raises(BadScript, match="FileNotFoundError"):
        faults_of(find("no/such.json"))


def test_the_catalogue_is_complete():
    document = json.loads(faults.CATALOGUE.read_text())
    for entry in document["faults"]:
        assert list(entry) == ["name", "meaning", "number", "unit", "effect"]
        assert (entry["number"] is None) == (entry["unit"] is None)
    names = [entry["name"] for entry in document["faults"]]
    assert len(set(names)) == len(names)
    source = "".join(path.read_text() for path in Path(faults.__file__).parent.glob("*.py"))
    assert all(f'"{name}"' in source for name in names)


def test_the_guide_has_the_whole_catalogue():
    guide = (Path(arguments.__file__).parents[3] / "docs" / "simulated-engine.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.*?) \|", guide, re.MULTILINE)
    document = json.loads(faults.CATALOGUE.read_text())
    assert rows == [
        (entry["name"], entry["meaning"], "" if entry["number"] is None else f"{entry['number']}, {entry['unit']}")
        for entry in document["faults"]
    ]


def test_the_example_of_the_guide_is_a_script(tmp_path):
    guide = (Path(arguments.__file__).parents[3] / "docs" / "simulated-engine.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    schemas.validate(json.loads(example), "simulation", "the guide")
    (tmp_path / "script.json").write_text(example)
    assert faults_of(tmp_path / "script.json", cell="sim-b8t4") == {}


def test_faults_of_the_cpu_engine_have_the_same_names_and_numbers():
    specification = importlib.util.spec_from_file_location("plugin_faults", PLUGIN)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["plugin_faults"] = module
    specification.loader.exec_module(module)
    assert {name: kind.number for name, kind in module.KINDS.items()} == {name: KNOWN[name] for name in module.KINDS}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("", {}), (" nan ", {"nan": 25}), ("nan:3", {"nan": 3}), ("stale-mask", {"stale-mask": 0})],
)
def test_a_fault_as_text(text, parsed):
    assert faults.parse(text, KNOWN) == parsed


@pytest.mark.parametrize("text", ["nam", "nan:", "nan:0", "nan:-1", "nan:x", "nan:²", "stale-mask:1", ":1"])
def test_a_fault_that_is_none(text):
    with pytest.raises(faults.UnusableFault):
        faults.parse(text, KNOWN)


def test_a_fault_from_a_file(tmp_path):
    path = tmp_path / "fault"
    planted = faults.planted({"orphan": 1}, {"GRAPHREPRO_FAULT_FILE": str(path)})
    assert planted.now() == {"orphan": 1}
    path.write_text("nan:3\n")
    assert planted.now() == {"orphan": 1, "nan": 3}
    path.write_text("nonsense")
    assert planted.now() == {"orphan": 1}


def test_two_sources_of_a_fault():
    with pytest.raises(faults.UnusableFault, match="not both"):
        faults.planted({}, {"GRAPHREPRO_FAULT": "nan", "GRAPHREPRO_FAULT_FILE": "x"})


def test_texts_have_no_placeholder_left_over():
    known = {"time", "pid", "child", "rank", "message", "host", "port", "timeout", "running"}
    for path in TEXTS.glob("*.log"):
        assert set(re.findall(r"\{(\w+)\}", path.read_text())) <= known, path.name


def resolved(*options):
    return resolve(arguments.parse(options))


def test_the_options_of_a_tree():
    found = resolved(
        "--speculative-algorithm", "ddtree", "--speculative-num-draft-tokens", "17", "--speculative-eagle-topk", "8"
    )
    assert (found.algorithm, found.width, found.budget, found.topk, found.depth) == ("DDTREE", 17, 16, 8, 7)


def test_the_options_of_no_speculation():
    found = resolved("--speculative-num-draft-tokens", "17")
    assert (found.algorithm, found.width, found.topk, found.depth) == (None, 1, None, 0)
    assert found.options["speculative_num_draft_tokens"] is None


@pytest.mark.parametrize(
    ("options", "graphs"),
    [
        (("--cuda-graph-max-bs-decode", "8"), (1, 2, 4, 8)),
        (("--cuda-graph-bs-decode", "4", "1"), (1, 4)),
        (("--max-running-requests", "3"), (1, 2, 3)),
        (("--disable-cuda-graph",), ()),
        (("--disable-decode-cuda-graph",), ()),
        (("--cuda-graph-backend-decode", "disabled"), ()),
    ],
)
def test_graph_sizes(options, graphs):
    assert resolved(*options).graphs == graphs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--speculative-algorithm", "DDTREEX"), "Unknown speculative algorithm name: DDTREEX"),
        (("--speculative-algorithm", "DDTREE", "--speculative-num-draft-tokens", "1"), "must be at least 2"),
        (
            ("--speculative-algorithm", "DFLASH", "--speculative-draft-window-size", "4"),
            "must be at least the block size",
        ),
    ],
)
def test_configurations_that_are_refused(options, message):
    with pytest.raises(Refused, match=message):
        resolved(*options)


@pytest.mark.parametrize("options", [["--speculative-ddtree-budget", "16"], ["--port", "x"], ["--cuda-graph-bs"]])
def test_options_that_do_not_exist(options, capsys):
    with pytest.raises(SystemExit) as ended:
        arguments.parse(options)
    assert ended.value.code == 2
    assert "sglang serve: error: " in capsys.readouterr().err


def test_each_option_of_ours_is_one_of_sglang():
    table = json.loads((Path(arguments.__file__).parents[2] / "engines" / "flags.json").read_text())
    known = json.dumps(table)
    for name in (*arguments.TEXT, *arguments.NUMBERS, *arguments.REALS, *arguments.SWITCHES, *arguments.LISTS):
        assert name in known, name
