"""The model folders of the tier `dummy`: what is rewritten, what stays, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import matrix

PAYLOAD = Path(matrix.__file__).parent / "payload"
sys.path.insert(0, str(PAYLOAD))  # as running the folder does

from dummy.config import BadConfigError, rewritten, shrink_draft, shrink_target  # noqa: E402

TEXT = {
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "first_k_dense_replace": 1,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 384,
    "num_nextn_predict_layers": 1,
}
KIMI = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": TEXT, "vision_config": {"depth": 27}}
DRAFT = {
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_target_layers": 61,
    "dflash_config": {"target_layer_ids": [1, 12, 24, 35, 47, 58], "mask_token_id": 163838},
    "block_size": 8,
}


def test_the_target_as_one_rank_of_eight_sees_it() -> None:
    small = shrink_target(KIMI, layers=8, ranks=8)
    assert small["text_config"] == TEXT | {
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 2304,
        "moe_intermediate_size": 256,
        "num_nextn_predict_layers": 0,
    }
    assert small["vision_config"] == KIMI["vision_config"]
    assert TEXT["num_hidden_layers"] == 61, "the input is left alone"


def test_the_draft_reads_from_layers_that_are_left() -> None:
    small = shrink_draft(DRAFT, target_had=61, layers=8, ranks=8)
    assert small["dflash_config"] == {"target_layer_ids": [0, 1, 3, 4, 5, 7], "mask_token_id": 163838}
    assert (small["num_target_layers"], small["num_hidden_layers"], small["block_size"]) == (8, 6, 8)
    assert (small["num_attention_heads"], small["num_key_value_heads"], small["head_dim"]) == (8, 1, 128)


def test_heads_keep_their_size_where_it_was_left_to_be_worked_out() -> None:
    plain = {"num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "hidden_size": 4096}
    small = shrink_target(plain | {"layer_types": ["full"] * 4}, layers=2, ranks=8)
    assert (small["head_dim"], small["num_attention_heads"], small["num_key_value_heads"]) == (128, 4, 1)
    assert small["layer_types"] == ["full"] * 2


@pytest.mark.parametrize("layers", range(6, 61))
def test_rewritten_ids_stay_in_order_and_inside(layers: int) -> None:
    ids = rewritten([1, 12, 24, 35, 47, 58], had=61, layers=layers)
    assert ids == sorted(set(ids))
    assert len(ids) == 6
    assert ids[0] >= 0
    assert ids[-1] < layers


def test_all_layers_leave_the_ids_as_they_were() -> None:
    assert rewritten([1, 12, 24, 35, 47, 58], had=61, layers=61) == [1, 12, 24, 35, 47, 58]


@pytest.mark.parametrize(
    ("change", "layers", "told"),
    [
        ({}, 0, "0 layers of a model that has 61"),
        ({}, 62, "62 layers of a model that has 61"),
        ({}, 1, "the first 1 layers are dense"),
        ({"num_attention_heads": 20}, 8, "num_attention_heads 20 cannot be divided among 8 ranks"),
        ({"num_hidden_layers": None}, 8, "num_hidden_layers is None"),
    ],
)
def test_targets_that_cannot_be_shrunk(change: dict[str, Any], layers: int, told: str) -> None:
    with pytest.raises(BadConfigError, match=told):
        shrink_target({"text_config": TEXT | change}, layers=layers, ranks=8)


@pytest.mark.parametrize(
    ("ids", "layers", "told"),
    [
        ([1, 12, 24, 35, 47, 58], 5, "--layers must be at least 6"),
        ([1, 1], 8, "do not fit"),
        ([61], 8, "do not fit"),
        ([], 8, "do not fit"),
    ],
)
def test_layer_ids_that_cannot_be_rewritten(ids: list[int], layers: int, told: str) -> None:
    with pytest.raises(BadConfigError, match=told):
        rewritten(ids, had=61, layers=layers)


def test_a_draft_that_reads_no_target_layers() -> None:
    with pytest.raises(BadConfigError, match="names no target_layer_ids"):
        shrink_draft({"num_hidden_layers": 1}, target_had=61, layers=8, ranks=8)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", str(PAYLOAD), "dummy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, ...]:
    for name, config in (("Kimi", KIMI), ("Kimi-DFlash", DRAFT)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        (tmp_path / name / "tokenizer.json").write_text("{}")
        (tmp_path / name / "model-1.safetensors").write_text("weights")
        (tmp_path / name / "model.safetensors.index.json").write_text("{}")
    draft = str(tmp_path / "Kimi-DFlash")
    return "--model", str(tmp_path / "Kimi"), "--draft-model", draft, "--out", str(tmp_path / "out")


def test_the_folders(folders: tuple[str, ...], tmp_path: Path) -> None:
    ended = run(*folders)
    assert (ended.returncode, ended.stderr) == (0, "")
    made = [Path(line) for line in ended.stdout.splitlines()]
    assert [path.name for path in made] == ["Kimi-dummy", "Kimi-DFlash-dummy"]
    for path in made:
        assert sorted(entry.name for entry in path.iterdir()) == ["config.json", "tokenizer.json"]
    assert json.loads((made[0] / "config.json").read_text()) == shrink_target(KIMI, layers=8, ranks=8)


def test_what_is_told_in_one_line(folders: tuple[str, ...], tmp_path: Path) -> None:
    assert run(*folders, "--layers", "2").stderr == "dummy: 6 target layers are read, so --layers must be at least 6\n"
    (tmp_path / "Kimi" / "config.json").write_text("{")
    ended = run(*folders)
    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
    (tmp_path / "Kimi" / "config.json").unlink()
    ended = run(*folders)
    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
    assert "No such file" in ended.stderr
