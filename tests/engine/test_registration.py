"""The plugin inside SGLang, without a server: the algorithm is known, wrong arguments and faults are refused."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

LOAD = "from sglang.srt.plugins import load_plugins; load_plugins(); "
ALGORITHM = LOAD + (
    "from types import SimpleNamespace as N; from sglang.srt.speculative.spec_info import SpeculativeAlgorithm as S;"
    "a = S.from_string('ddtree');"
    "args = lambda w, k, m: N(speculative_num_draft_tokens=w, speculative_eagle_topk=k, model_path=m);"
    "ok = args(17, 8, MODEL); a.handle_server_args(ok);"
    "new = args(None, None, MODEL); a.handle_server_args(new);\n"
    "said = []\n"
    "for bad in (args(1, 4, MODEL), args(9, 0, MODEL), args(9, 4, '/nowhere')):\n"
    "    try: a.handle_server_args(bad)\n"
    "    except ValueError as problem: said.append(str(problem))\n"
    "import json; print(json.dumps([a.is_ngram(), a.has_draft_kv(), vars(ok), vars(new), said]))"
)


def launch_environment(payload):
    """What the spec of the target gives the server; read as TOML, since graphrepro is not installed here."""
    spec = tomllib.loads((payload.parents[1] / "specs" / "cpu.toml").read_text())
    filled = spec["deployment"]["environment"].items()
    return {name: value.replace("{payload}", str(payload.parent)) for name, value in filled}


def python(payload, code, **extra):
    environment = {**os.environ, **launch_environment(payload), **extra}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_algorithm_takes_budget_and_top_k_from_the_arguments(payload):
    done = python(payload, f"MODEL = {str(payload / 'model')!r}\n" + ALGORITHM)
    assert done.returncode == 0, done.stderr
    ngram, cache, ok, new, said = json.loads(done.stdout.splitlines()[-1])
    assert (ngram, cache) == (True, False)
    assert (ok["speculative_num_draft_tokens"], ok["speculative_eagle_topk"]) == (17, 8)
    assert ok["disable_overlap_schedule"] is True
    assert (new["speculative_num_draft_tokens"], new["speculative_eagle_topk"]) == (9, 4)
    assert "not 1 and 4" in said[0]
    assert "not 9 and 0" in said[1]
    assert "no drafter in /nowhere/drafter" in said[2]


def test_unknown_fault_stops_the_process_with_one_line(payload):
    done = python(payload, LOAD, GRAPHREPRO_FAULT="stale-masks")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "graphrepro_ddtree: GRAPHREPRO_FAULT: unknown fault 'stale-masks'; the"
    )


def test_every_hook_of_a_fault_has_its_target(payload):
    code = (
        LOAD + "from sglang.srt.plugins.hook_registry import HookRegistry as H; print(len(H._hooks), len(H._patched))"
    )
    done = python(payload, "import sglang.srt.managers.scheduler; " + code, GRAPHREPRO_FAULT="nan")
    assert done.stdout.splitlines()[-1] == "7 7", done.stderr
