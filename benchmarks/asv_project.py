"""A project of airspeed velocity with results in its own format (version 2), as `asv run` writes them, to be published.

A result holds what a launch of ours holds: five numbers (one for each value of a parameter), each with the statistics
of its repeats. One result in ten has failed, and one benchmark in twenty has become slower half-way, so that the
detection of regressions has something to find.

Source of the format: https://asv.readthedocs.io and `asv.results.Results.save` of asv 0.6.
"""

import json
import random
import subprocess
from pathlib import Path

MACHINE = "bench"
_ENVIRONMENT = "virtualenv-py3.11"
_NUMBERS = [[repr(name) for name in ("ready", "rate at 1", "rate at 8", "acceptance", "server's acceptance")]]
_COLUMNS = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
)


def make(folder: Path, commits: int, results: int) -> int:
    """How many results there are: as many benchmarks for each commit of a new git repository."""
    hashes = _repository(folder / "repository", commits)
    names = [f"suite.Matrix{number // 50}.time_cell_{number:04}" for number in range(max(1, results // commits))]
    config = {
        "version": 1,
        "project": "side by side",
        "project_url": "",
        "repo": "repository",
        "branches": ["main"],
        "environment_type": "virtualenv",
        "benchmark_dir": "benchmarks",
        "env_dir": "env",
        "results_dir": "results",
        "html_dir": "html",
    }
    _write(folder / "asv.conf.json", config)
    _write(folder / "results" / "benchmarks.json", {**{name: _benchmark(name) for name in names}, "version": 2})
    facts = {"arch": "x86_64", "cpu": "a CPU", "machine": MACHINE, "num_cpu": "2", "os": "Linux", "ram": "8000000"}
    _write(folder / "results" / MACHINE / "machine.json", {**facts, "version": 1})
    chance = random.Random(1)
    for number, commit in enumerate(hashes):
        late = number >= commits // 2
        at_ms = 1_764_500_000_000 + 1000 * number
        measured = {
            name: _row(
                chance, at_ms, failed=(index + number) % 10 == 0, slower=1.2 if late and index % 20 == 0 else 1.0
            )
            for index, name in enumerate(names)
        }
        document = {
            "commit_hash": commit,
            "env_name": _ENVIRONMENT,
            "date": 1_764_500_000_000 + 86_400_000 * number,
            "params": {**facts, "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": list(_COLUMNS),
            "results": measured,
            "durations": {},
            "version": 2,
        }
        _write(folder / "results" / MACHINE / f"{commit[:8]}-{_ENVIRONMENT}.json", document)
    return len(hashes) * len(names)


def _repository(path: Path, commits: int) -> list[str]:
    """The hashes of a linear history on the branch `main`."""
    path.mkdir(parents=True)
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")

    def git(*arguments: str) -> str:
        made = subprocess.run(["git", *author, *arguments], cwd=path, check=True, capture_output=True, text=True)
        return made.stdout.strip()

    git("init", "-q", "-b", "main")
    hashes = []
    for number in range(commits):
        day = f"2026-11-{1 + number % 28:02}T{number // 28:02}:00:00Z"
        git("commit", "-q", "--allow-empty", "-m", f"change {number}", "--date", day)
        hashes.append(git("rev-parse", "HEAD"))
    return hashes


def _benchmark(name: str) -> dict[str, object]:
    return {
        "name": name,
        "code": "def time_cell(): ...",
        "version": "1",
        "type": "time",
        "unit": "seconds",
        "params": _NUMBERS,
        "param_names": ["number"],
        "min_run_count": 2,
        "number": 0,
        "repeat": 0,
        "rounds": 2,
        "sample_time": 0.01,
        "timeout": 60.0,
        "warmup_time": -1,
    }


def _row(chance: random.Random, at_ms: int, *, failed: bool, slower: float) -> list[object]:
    if failed:
        return [None, _NUMBERS, "1", at_ms, 1.0]
    values = [0.1 * slower * chance.lognormvariate(0, 0.01) for _ in _NUMBERS[0]]
    ranges = ([value * scale for value in values] for scale in (0.98, 1.02, 0.99, 1.01))
    return [values, _NUMBERS, "1", at_ms, 1.0, *ranges, [1] * len(values), [10] * len(values)]


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
