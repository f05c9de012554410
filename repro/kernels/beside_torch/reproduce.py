"""One case of SGLang's verify attention (`extend_attention_fwd` with a tree mask), alone: is its output right?

It needs torch, Triton and the wheel of sglang (`pip install --no-deps sglang==…`), no server and no model. On a GPU the
real kernel and real CUDA graphs run; without one it is Triton's interpreter, in fp32 or fp16, and a replay is the same
launch again on the same tensors. Each element of the output is compared with float64, within a bound that is derived
below. One line says how it ended.

Exit status: 0 the output is right, 1 it is wrong or the GPU refused, 2 it cannot be run here.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import comparison, disturb, inputs, loading, rounds, tiers, tolerance

CASE: Mapping[str, Any] = {
    "budget": 16,
    "shape": "gqa-4-2-128",
    "heads": (4, 2, 128, 128),
    "batch": 3,
    "dtype": "fp16",
    "mode": "eager",
    "architecture": "sm_103",
    "seed": 16,
}
"""What is run unless options say otherwise. ``heads``: query heads, key heads, dimensions of keys and values."""
FINE = 0
WRONG = 1
NOT_RUN = 2
REFUSALS = ("CUDA error", "AcceleratorError", "PTXASError", "OutOfResources")
"""What an error holds if the GPU or its compiler refused the kernel; any other one says nothing of the kernel."""


def main(arguments: Sequence[str]) -> int:
    """Runs the case, prints its verdict; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        words = _described(options) if options.describe else _verdict(options)
    except (tiers.ContentsError, loading.LoadingError, ImportError) as problem:
        words = (NOT_RUN, f"CANNOT RUN {problem}")
    except Exception as problem:  # noqa: BLE001 - a defect here or in a package is no verdict on the kernel
        words = (NOT_RUN, f"CANNOT RUN {type(problem).__name__}: {problem}".splitlines()[0])
    sys.stdout.write(f"{words[1]}\n")
    return words[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description="Is the output of SGLang's verify attention right?"
    )
    parser.add_argument("--budget", type=int, default=CASE["budget"], help="drafted nodes; rows are one more")
    parser.add_argument("--heads", type=int, nargs=4, default=CASE["heads"], metavar=("Q", "KV", "K_DIM", "V_DIM"))
    parser.add_argument("--batch", type=int, default=CASE["batch"], help="requests, from 3 on a padded slot among them")
    parser.add_argument("--dtype", choices=tuple(inputs.DTYPES), default=CASE["dtype"])
    parser.add_argument("--mode", choices=(*rounds.EAGER, *rounds.SAME, *rounds.REFRESHED), default=CASE["mode"])
    parser.add_argument("--architecture", default=CASE["architecture"], help="whose tiles to take without a GPU")
    parser.add_argument("--tile", metavar="ROWSxKEYS", help="another tile than the release chooses, such as 16x64")
    parser.add_argument("--prefixes", type=int, nargs="+", metavar="N", help="tokens before the tree, of each request")
    parser.add_argument("--seed", type=int, default=CASE["seed"])
    parser.add_argument("--rounds", type=int, default=3, help="steps with other contents, one after the other")
    parser.add_argument(
        "--plant", choices=(*disturb.PLANTED, *rounds.STALE), help="put this fault in, to see that it shows"
    )
    parser.add_argument("--statistics", type=Path, metavar="FILE", help="make contents up to match these")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="take exactly these contents")
    parser.add_argument("--sha256", metavar="HEX", help="of the recorded file")
    parser.add_argument("--describe", action="store_true", help="print statistics of the recorded file and end")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the first step's contents, for --recorded")
    parser.add_argument("--sglang", metavar="PATH", help="a wheel, or a folder with sglang/, if it is not installed")
    return parser


def _described(options: argparse.Namespace) -> tuple[int, str]:
    if options.recorded is None:
        raise tiers.ContentsError("--describe needs --recorded FILE")
    return FINE, json.dumps(tiers.statistics_of(tiers.read_recorded(options.recorded, options.sha256)), indent=1)


def _source(options: argparse.Namespace) -> rounds.Source:
    """Raises `ContentsError`."""
    recorded = None if options.recorded is None else tiers.read_recorded(options.recorded, options.sha256)
    statistics = None if options.statistics is None else tiers.read_statistics(options.statistics)
    prefixes = options.prefixes or (None if statistics is None else statistics["prefixes"])
    batch = options.batch if prefixes is None else len(prefixes)
    problem = rounds.problem_of(options.budget, options.heads, batch, prefixes, dtype=options.dtype, seed=options.seed)
    return rounds.Source(problem, statistics, recorded)


def _verdict(options: argparse.Namespace) -> tuple[int, str]:
    has_gpu = torch.cuda.is_available()
    if not has_gpu:
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which the kernel does
        torch.set_num_threads(1)
    source = _source(options)
    if source.problem.dtype == "bf16" and not has_gpu:
        raise tiers.ContentsError("bf16 needs a GPU: Triton's interpreter multiplies bit patterns; give --dtype fp16")
    if source.problem.dtype == "fp32" and has_gpu:
        raise tiers.ContentsError(
            "fp32 would be multiplied as TF32 on a GPU, which has no bound here; give --dtype bf16"
        )
    if options.plant in rounds.STALE and options.mode not in rounds.REFRESHED:
        raise tiers.ContentsError(f"--plant {options.plant} needs a mode that refreshes buffers, not {options.mode}")
    with tempfile.TemporaryDirectory() as scratch:
        release = loading.find(options.sglang, Path(scratch))
        module = loading.load(release)
        about = f"{_case_words(options, source)}, {_place(module, options, source, has_gpu=has_gpu)}"
        found = release.subject()
        versions = f"sglang {found['sglang']}, triton {found['triton']}, torch {found['torch']}"
        if options.save is not None:
            digest = tiers.write_recorded(source.step(source.problem.prefixes, 0), options.save)
            return FINE, f"SAVED {about}; {source.said}: {options.save.name} has the SHA-256 {digest}"
        state, said = _run(module, options, source, has_gpu=has_gpu)
    ended = "FAIL" if state == WRONG else "PASS"
    return state, f"{ended} {about}; {versions}; {source.said}; {said}"


def _case_words(options: argparse.Namespace, source: rounds.Source) -> str:
    asked = source.problem
    heads = f"{asked.query_heads}/{asked.key_heads} heads of {asked.key_dim}/{asked.value_dim}"
    planted = f", planted {options.plant}" if options.plant else ""
    return f"verify attention, budget {asked.budget}, {len(asked.prefixes)} requests, {heads}, {asked.dtype}{planted}"


def _place(module: Any, options: argparse.Namespace, source: rounds.Source, *, has_gpu: bool) -> str:
    """Makes the release choose as on the GPU that is there, or else as on the asked one; says so."""
    own = "sm_{}{}".format(*torch.cuda.get_device_capability()) if has_gpu else options.architecture
    loading.emulate(module, own)
    if options.tile is not None:
        _force_tile(module, options.tile)
    tile = loading.tile(module, source.problem.key_dim, source.problem.value_dim)
    return (
        f"{options.mode} on {own}, tile {tile}" if has_gpu else f"{options.mode} interpreted with {own}'s tile {tile}"
    )


def _force_tile(module: Any, tile: str) -> None:
    rows, _, keys = tile.partition("x")
    if not (rows.isdecimal() and keys.isdecimal() and all(int(n) in (16, 32, 64, 128) for n in (rows, keys))):
        raise tiers.ContentsError(f"--tile {tile}: give two of 16, 32, 64 and 128, such as 16x64")
    chosen = module._get_block_sizes_for_extend_attention

    def forced(key_dim: int, value_dim: int) -> tuple[Any, ...]:
        *dimensions, _, _, warps = chosen(key_dim, value_dim)
        return (*dimensions, int(rows), int(keys), warps)

    module._get_block_sizes_for_extend_attention = forced


def _run(module: Any, options: argparse.Namespace, source: rounds.Source, *, has_gpu: bool) -> tuple[int, str]:
    """The first round whose output is wrong, or the largest error of all."""
    arithmetic = tolerance.GPU if has_gpu else tolerance.INTERPRETER
    tile = loading.tile(module, source.problem.key_dim, source.problem.value_dim)
    captured, moments = rounds.prefixes_of(options.mode, source.problem, options.rounds)
    where, worst = "at capture", 0.0
    try:
        runner = rounds.Runner(module, options.mode, source, "cuda" if has_gpu else "cpu", (captured, *moments))
        for turn, prefixes in enumerate(moments):
            where = f"round {turn + 1} of {len(moments)}"
            step, output = runner.run(prefixes, turn, options.plant)
            right = tolerance.expected(step, arithmetic, int(tile.partition("x")[2]))
            row = comparison.compared(step, output, right, tile)
            if row.state != "pass":
                tokens = ", ".join(map(str, step.problem.prefixes))
                return WRONG, f"{where} (prefixes {tokens}): {row.detail}"
            worst = max(worst, *(n["value"] for n in row.measurements if n["name"] == "max_error_of_bound"))
    except Exception as error:
        said = f"{type(error).__name__}: {(str(error).strip() or 'nothing').splitlines()[0]}"
        if not has_gpu or not any(word in said for word in REFUSALS):
            raise
        return WRONG, f"{where}: {said}"
    return FINE, f"{len(moments)} rounds, the largest error is {worst:.2f} of its bound"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
