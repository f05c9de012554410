"""SGLang's own load generator beside ours: `python -m sglang.bench_serving`, run by the Python that runs the server.

It sends as many requests as a round of ours, at the same concurrency and of the same output length: the same prompts
where they are text, else prompts of random ids and of their mean length, since it takes ids from nowhere. What it
writes and says is stored as it is, below `bench_serving/`.
"""

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean

from attempt.evidence import Evidence
from attempt.guardian import SERVER_VARIABLES
from attempt.step import Check, Prompt, Step

MODULE = "sglang.bench_serving"
FOLDER = "bench_serving"
START = """
import importlib.machinery, importlib.util, runpy, sys, types
if importlib.util.find_spec("datasets") is None:
    absent = types.ModuleType("datasets")
    absent.__spec__ = importlib.machinery.ModuleSpec("datasets", None)
    absent.load_dataset = None
    sys.modules["datasets"] = absent
runpy.run_module("sglang.bench_serving", run_name="__main__", alter_sys=True)
"""
"""It imports the package `datasets`, which servers do without, also where no data set is asked for, as here."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
_FAULTS = ("GRAPHREPRO_FAULT", "GRAPHREPRO_FAULT_FILE")


def folder(evidence: Evidence) -> Path:
    """Where its files go."""
    path = evidence.folder / FOLDER
    path.mkdir(exist_ok=True)
    return path


async def measure(step: Step, words: Sequence[str], said: Path, limit_s: float) -> str:
    """Runs it with these words; what it says goes into a file. Why it gave no figures; empty when it did."""
    if re.fullmatch(r"python[0-9.]*", Path(step.argv[0]).name) is None:
        return f"{MODULE} was not run: the server is not started by a Python"
    with said.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(step.argv[0], "-c", START, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=asyncio.subprocess.STDOUT,
            env=_environment(step),
        )
        try:
            await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=max(limit_s, 0.0))
        finally:
            ended = process.returncode
            if ended is None:
                process.kill()
                await process.wait()
    if ended is None:
        return f"{MODULE} did not end within {limit_s:.0f} s ({said.name})"
    return "" if ended == 0 else f"{MODULE} ended with status {ended} ({said.name})"


def arguments(step: Step, check: Check, concurrency: int, requests: int, place: Path) -> list[str]:
    """Its command line; writes the file of prompts that it names."""
    model = _option(step.argv, "--model-path", "--model") or ""
    return [
        *("--backend", "sglang", "--base-url", step.url),
        *("--model", model, "--tokenizer", _option(step.argv, "--tokenizer-path") or model),
        *_dataset(step.prompts[: check.prompts], requests, check.max_new_tokens, place / "prompts.jsonl"),
        *("--num-prompts", str(requests), "--max-concurrency", str(concurrency), "--request-rate", "inf"),
        *("--warmup-requests", "1", "--flush-cache", "--disable-tqdm", "--seed", "1"),
        *("--output-file", str(place / f"{concurrency}.jsonl")),
    ]


def _dataset(prompts: Sequence[Prompt], requests: int, tokens: int, path: Path) -> list[str]:
    texts = [prompt.text for prompt in prompts if prompt.text is not None]
    if len(texts) == len(prompts):
        with path.open("w", encoding="utf-8") as file:
            for text in islice(cycle(texts), requests):
                turns = [{"role": "user", "content": text}, {"role": "assistant", "content": "An answer."}]
                file.write(json.dumps({"conversations": turns}) + "\n")
        return ["--dataset-name", "custom", "--dataset-path", str(path), "--sharegpt-output-len", str(tokens)]
    length = round(fmean(len(prompt.input_ids or ()) for prompt in prompts))
    lengths = ("--random-input-len", str(length), "--random-output-len", str(tokens), "--random-range-ratio", "1.0")
    return ["--dataset-name", "random-ids", "--tokenize-prompt", *lengths]


def _option(argv: Sequence[str], *names: str) -> str | None:
    """The value of the first of these options, in either spelling."""
    for name in names:
        for place, word in enumerate(argv):
            if word == name and place + 1 < len(argv):
                return argv[place + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def _environment(step: Step) -> Mapping[str, str]:
    """The server's, without a network, a GPU or planted faults."""
    passed = {name: os.environ[name] for name in SERVER_VARIABLES if name in os.environ}
    merged = {"PATH": os.defpath, **passed, **step.environment, **_OFFLINE}
    return {name: value for name, value in merged.items() if name not in _FAULTS}
