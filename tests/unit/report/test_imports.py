"""Baselines from files of other load generators."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.cli import main
from report.fieldmap import read_map, shipped_names
from report.imports import import_file
from repro import baselines, codec
from repro.errors import GraphreproError, RecordError, SpecError
from repro.model import Baseline

NOW = "2026-11-30T09:00:00Z"


def line(**changes: Any) -> dict[str, Any]:
    """A line as `sglang.bench_serving --output-file` writes it, shortened."""
    return {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": float("inf"),
        "max_concurrency": 1,
        "random_input_len": 1024,
        "random_output_len": 256,
        "server_info": {
            "version": "0.5.6",
            "model_path": "moonshotai/Kimi-K2.6",
            "dtype": "auto",
            "disable_cuda_graph": False,
            "enable_nccl_nvls": True,
            "max_running_requests": 128,
            "tp_size": 8,
        },
        "duration": 61.2,
        "completed": 64,
        "output_throughput": 301.5,
        "median_ttft_ms": 84.1,
        "p99_ttft_ms": 120.0,
        "median_itl_ms": 14.2,
        "accept_length": 4.6,
    } | changes


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in lines), encoding="utf-8")
    return path


def taken(path: Path, name: str = "mine", **options: Any) -> Baseline:
    archived = next((item for item in baselines.load() if item.name == name), None)
    made = import_file(
        path, name, options.pop("fields", None), **({"lines": "repeats"} | options), archived=archived, now=NOW
    )
    return codec.decode(codec.encode(made), Baseline, where="it")


def figure(baseline: Baseline, name: str, concurrency: int) -> Any:
    (found,) = [n for n in baseline.measurements if (n.name, n.at) == (name, {"concurrency": concurrency})]
    return found


def test_numbers_units_and_provenance(tmp_path: Path) -> None:
    path = write(tmp_path / "b8t4.jsonl", line(), line(max_concurrency=128, output_throughput=4700.0))
    made = taken(path)
    assert (figure(made, "output_rate", 1).value, figure(made, "output_rate", 1).unit) == (301.5, "tok/s")
    assert figure(made, "output_rate", 128).value == 4700.0
    assert (figure(made, "ttft_median", 1).value, figure(made, "ttft_median", 1).unit) == (84.1, "ms")
    assert figure(made, "bench_serving_acceptance", 1).value == 4.6
    assert made.source.sha256 == sha256(path.read_bytes()).hexdigest()
    assert (made.source.reference, made.source.imported_at) == ("b8t4.jsonl", NOW)
    assert (made.facts["engine_version"].value, made.facts["engine_version"].status) == ("0.5.6", "declared")


def test_what_is_not_stated_is_null_with_a_reason(tmp_path: Path) -> None:
    made = taken(write(tmp_path / "f.jsonl", line()))
    assert (made.budget, made.graph, made.nvls) == (None, "graph", "nvls")
    assert {"target", "budget", "topk", "shape"} <= set(made.unknown)
    missing = figure(made, "itl_p99", 1)
    assert (missing.value, missing.reason) == (None, "not stated in the imported file")
    assert made.facts["dtype"].value is None
    assert "random_input_len 1024" in (made.facts["load_shape"].reason or "")
    assert {"duration", "server_info.tp_size"} <= set(made.unread)
    assert "output_throughput" not in made.unread


def test_lines_at_one_concurrency_are_repeats_unless_it_is_said_that_they_are_launches(tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", *(line(output_throughput=rate) for rate in (300.0, 303.0, 306.0)))
    repeats = figure(taken(path), "output_rate", 1)
    assert (repeats.value, repeats.low, repeats.high, repeats.n, repeats.values) == (303.0, 300.0, 306.0, None, ())
    launches = figure(taken(path, lines="launches"), "output_rate", 1)
    assert (launches.value, launches.n, launches.values) == (303.0, 3, (300.0, 303.0, 306.0))
    assert launches.low < 300.0


def test_an_archived_name_fills_what_the_file_leaves_open(tmp_path: Path) -> None:
    made = taken(write(tmp_path / "nvls.jsonl", line()), "nvls_b8t4")
    assert (made.target, made.budget, made.topk, made.shape) == ("b300", 8, 4, "tree")
    assert figure(made, "output_rate", 1).value == 301.5
    assert figure(made, "output_rate", 128).value == 4723.0
    assert any("303" in said and "301.5" in said for said in made.stated)
    assert made.facts["architecture"].value == "sm_103"


def test_a_file_that_is_not_the_archived_result_is_refused(tmp_path: Path) -> None:
    eager = line()
    eager["server_info"]["disable_cuda_graph"] = True
    with pytest.raises(RecordError, match=r"says graph eager, and the archived nvls_b8t4 is graph"):
        taken(write(tmp_path / "f.jsonl", eager), "nvls_b8t4")


@pytest.mark.parametrize("form", ["object", "array", "lines"])
def test_json_or_json_lines(tmp_path: Path, form: str) -> None:
    path = tmp_path / "f.json"
    text = {
        "object": json.dumps(line(), indent=2),
        "array": json.dumps([line(), line(max_concurrency=8)], indent=1),
        "lines": json.dumps(line()) + "\n" + json.dumps(line(max_concurrency=8)) + "\n",
    }[form]
    path.write_text(text, encoding="utf-8")
    assert figure(taken(path), "output_rate", 1).value == 301.5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "f.jsonl: is empty"),
        ("[]", "f.jsonl: holds no result"),
        ("3", "f.jsonl: is not a JSON object"),
        ('{"a": 1}', "recognises it"),
        ('{"a": 1\n', "not JSON"),
        (json.dumps(line()) + "\n{]\n", "f.jsonl:2: is cut off or not JSON"),
        (json.dumps(line(output_throughput="fast")), "/output_throughput: is 'fast', and a number is needed"),
        (json.dumps(line(output_throughput=True)), "/output_throughput: is True, and a number is needed"),
        (json.dumps(line(output_throughput=-1.0)), "/output_throughput: is -1.0"),
        (json.dumps(line(output_throughput=float("nan"))), "/output_throughput: is 'NaN', and a number is needed"),
        (json.dumps(line(max_concurrency=1.5)), "/max_concurrency: is 1.5, and a whole number"),
        (json.dumps(line(server_info={"version": ["0"]})), "/server_info/version: is not one plain value"),
        (json.dumps(line(server_info={"disable_cuda_graph": "no"})), "/server_info/disable_cuda_graph: is 'no'"),
        (
            json.dumps(line()) + "\n" + json.dumps(line(server_info={"version": "9"})) + "\n",
            "f.jsonl:2: /server_info/version: is '9', and an earlier line says '0.5.6'",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RecordError) as caught:
        taken(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_whatever_is_in_a_field_there_is_a_baseline_or_one_line(tmp_path_factory: Any, value: object) -> None:
    folder = tmp_path_factory.mktemp("import")
    path = write(folder / "f.jsonl", line(output_throughput=value, server_info=value, other=value))
    said = "taken"
    try:
        taken(path)
    except GraphreproError as error:
        said = str(error)
    assert "\n" not in said


MAP = """
extends = "sglang.bench_serving"
title = "our load generator"
[at]
concurrency = "users"
[numbers]
output_rate = { field = "throughput.out", unit = "tok/s" }
ttft_median = { field = "ttft_s", unit = "ms", scale = 1000 }
[coordinates]
target = "b300"
budget = 8
topk = 4
shape = "tree"
graph = "graph"
nvls = "nvls"
[facts]
gpu_driver = "580.95"
"""


def test_a_map_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAP, encoding="utf-8")
    path = write(tmp_path / "f.json", {"users": 8, "throughput": {"out": 900}, "ttft_s": 0.09})
    made = taken(path, fields=read_map(str(tmp_path / "map.toml")))
    assert (figure(made, "output_rate", 8).value, figure(made, "ttft_median", 8).value) == (900.0, 90.0)
    assert (made.target, made.budget, made.shape, made.nvls) == ("b300", 8, "tree", "nvls")
    assert made.facts["gpu_driver"].value == "580.95"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not TOML"),
        ("colour = 1", "/colour: is no part of a map"),
        ("[numbers]\nrate = 3", "/numbers/rate: needs a field and a unit"),
        ("[coordinates]\ncolour = 3", "/coordinates/colour: is no coordinate"),
        ('[facts]\na = { field = "x", value = 1 }', "/facts/a: needs either a field or a value"),
        ('[facts]\na = { field = "x", scale = 0 }', "/facts/a/scale: is not a positive number"),
        ('[facts]\na = { fields = "x" }', "/facts/a/fields: is not one of"),
        ("[facts]\na = [1]", "/facts/a/value: is not one plain value"),
        ('extends = "no.such"', "no map is called 'no.such'"),
        ("at = 3", "/at: is not a table"),
        ("[at]\nconcurrency = 3", "/at/concurrency: is not a text"),
    ],
)
def test_a_map_that_is_wrong_is_told_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "map.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_map(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_shipped_map_can_be_read() -> None:
    assert "sglang.bench_serving" in shipped_names()
    assert all(read_map(name).numbers for name in shipped_names())


def test_the_command_never_overwrites_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "f.jsonl", line())
    command = ["import-baseline", str(path), "--as", "mine", "--baselines", str(tmp_path / "own")]
    assert main(command) == 0
    assert "server_info.tp_size" in capsys.readouterr().err
    before = (tmp_path / "own/mine.json").read_bytes()
    write(path, line(output_throughput=1.0))
    assert main(command) == 2
    assert "--replace" in capsys.readouterr().err
    assert (tmp_path / "own/mine.json").read_bytes() == before
    assert main([*command, "--replace"]) == 0
    assert (tmp_path / "own/mine.json").read_bytes() != before


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "a b"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "f.jsonl", line())
    assert main(["import-baseline", str(path), "--as", name, "--baselines", str(tmp_path / "own")]) == 5
    assert not (tmp_path / "own").exists()
