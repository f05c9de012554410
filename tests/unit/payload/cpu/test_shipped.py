"""What is shipped: the launch data, the lock, the model's files and what its training recorded."""

import itertools
import json
import re
from pathlib import Path

import pytest

from matrix.spec import load_spec

CONTAINER = Path(__file__).resolve().parents[4] / "containers" / "cpu"
LOCKS = ("requirements.txt", "test-requirements.txt")


@pytest.fixture(scope="session")
def training(payload):
    return json.loads((payload / "model" / "training.json").read_text())


def test_python_path_entries_exist(payload):
    path = load_spec("cpu").deployment.environment["PYTHONPATH"]
    for entry in path.split(":"):
        assert Path(entry.format(payload=payload.parent)).is_dir()


def test_entry_point_names_a_function(payload):
    (folder,) = (payload / "plugin").glob("graphrepro_ddtree-*.dist-info")
    line = (folder / "entry_points.txt").read_text().splitlines()
    assert line == ["[sglang.srt.plugins]", "graphrepro_ddtree = graphrepro_ddtree.registration:register"]
    assert "def register() -> None:" in (payload / "plugin" / "graphrepro_ddtree" / "registration.py").read_text()


def test_weights_are_small_and_readable_by_all(payload):
    weights = list((payload / "model").rglob("*.safetensors"))
    assert {file.relative_to(payload / "model").as_posix() for file in weights} == {
        "model.safetensors",
        "drafter/drafter.safetensors",
    }
    assert sum(file.stat().st_size for file in weights) <= 8_000_000
    assert all(file.stat().st_mode & 0o444 == 0o444 for file in weights)


def test_prompts_are_token_ids(payload, training):
    prompts = json.loads((payload / "model" / "prompts.json").read_text())["prompts"]
    vocabulary = training["recipe"]["vocab_size"]
    assert len(prompts) >= 20
    assert len({tuple(prompt["input_ids"]) for prompt in prompts}) == len(prompts)
    assert all(4 <= token < vocabulary for prompt in prompts for token in prompt["input_ids"])


def test_prompts_keep_the_rule_they_were_chosen_by(training):
    prompts = training["prompts"]
    rule = prompts["rule"]
    assert prompts["smallest_gap"] >= rule["smallest_gap"] >= 1e-3
    assert min(prompts["distinct_8grams"]) >= rule["distinct_8grams"]
    assert len(prompts["chosen"]) == rule["count"]


def test_acceptance_rises_with_the_budget(training):
    predicted = training["predicted_tokens_per_step"]
    figures = [predicted[cell] for cell in ("b7t1", "b8t4", "b12t4", "b16t8", "b32t8")]
    assert all(later - earlier > 0.1 for earlier, later in itertools.pairwise(figures))


@pytest.mark.parametrize("name", LOCKS)
def test_locks_pin_and_hash_everything_and_name_no_host(name):
    text = (CONTAINER / name).read_text()
    assert "://" not in text
    assert "index-url" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry[:60]
        assert "--hash=sha256:" in entry, entry[:60]


def test_lock_holds_the_engine_and_no_gpu_package():
    names = set(re.findall(r"^([a-z0-9.-]+)==", (CONTAINER / "requirements.txt").read_text(), re.MULTILINE))
    assert {"sglang", "aiohttp", "transformers"} <= names
    assert not {name for name in names if name == "torch" or name.startswith(("nvidia", "cuda"))}
    assert (CONTAINER / "torch.txt").read_text() == "torch==2.13.0\n"


def test_every_direct_requirement_is_locked():
    wanted = {
        line
        for line in (CONTAINER / "requirements.in").read_text().splitlines()
        if "==" in line[:60] and line[0] != "#"
    }
    locked = set(re.findall(r"^([a-z0-9.-]+==[^\s;]+)", (CONTAINER / "requirements.txt").read_text(), re.MULTILINE))
    assert wanted <= locked


def test_payload_is_not_a_package(payload):
    assert not (payload / "__init__.py").exists()
    assert not (payload.parent / "__init__.py").exists()
