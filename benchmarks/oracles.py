"""How often the oracles miss a planted fault, and how often they accuse what is healthy.

    python benchmarks/oracles.py [--seeds N] [--healthy N]
    python benchmarks/oracles.py --live --out FILE [--engine-env DIR] [--launches 10] [--sets 20]

Without ``--live`` runs are drawn from `oracle-recordings.jsonl.gz`, recorded on the real CPU server, and each seed has
its own prompts and places (`oracle_trials.py`). With it, real servers answer, and every round is judged; FILE keeps
what they said. The exit status is 1 if a target is missed.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from oracle_recordings import BUDGET, CONCURRENCY, record
from oracle_servers import prompt_set, started
from oracle_trials import (
    COORDINATES,
    EXACT,
    INEXACT,
    PROMPTS,
    SUSPECT,
    Found,
    Line,
    Noise,
    at_share,
    by_fault,
    found_in,
    judged,
    late,
    one_in,
    rounded,
    rounds,
)
from tabulate import tabulate

from matrix.judge.rescoring import POWER, Scales
from repro.intervals import upper_bound

RECORDED = Path(__file__).with_name("oracle-recordings.jsonl.gz")
MOST_MISSED, MOST_FALSE = 0.01, 0.001
FLOAT32_NOISE = 1e-5  # nats: rows of different counts differ by so much
RECORDED_FAULTS = (
    "stale-mask",
    "causal-mask",
    "useless-trees",
    "nan:25",
    "wrong-token:200",
    "wrong-at-concurrency:3",
    "wrong-late:90",
)
UNDER_LOAD = "wrong-at-concurrency:3"
Recordings = Mapping[str, Mapping[str, Line]]
Plant = Callable[[Sequence[Line], float, np.random.Generator], list[Line]]
"""(healthy outputs, detection limit, generator) -> outputs with wrong tokens."""
PLANTED: Mapping[str, Plant] = {
    "one wrong token in 200": lambda lines, _, chance: one_in(lines, 200, chance),
    "one wrong token in 50": lambda lines, _, chance: one_in(lines, 50, chance),
    "wrong in the last tenth": lambda lines, _, chance: late(lines, chance),
    "at the detection limit": at_share,
    "twice the detection limit": lambda lines, limit, chance: at_share(lines, 2 * limit, chance),
}


def _with_a_hard_passage(chance: np.random.Generator, n: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    sd = np.full(n, 0.10)
    begin = int(chance.integers(max(1, n - 16)))
    sd[begin : begin + 16] = 0.25
    return sd


NOISES: Mapping[str, tuple[Noise, bool]] = {
    "0.15 nats for all tokens": (lambda _, __: 0.15, True),
    "0.05 to 0.15 by prompt, arms alike": (lambda chance, _: float(chance.uniform(0.05, 0.15)), True),
    "0.05 to 0.15 by prompt and arm": (lambda chance, _: float(chance.uniform(0.05, 0.15)), False),
    "0.10, 16 tokens of each output 0.25": (_with_a_hard_passage, False),
}
"""Noise of the inexact regime, and whether a prompt has the same in all arms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the table. ``missed`` counts seeds; ``most``: the share of them that is allowed, None where the
    fault lies below what rescoring says it can see."""

    name: str
    share: float
    limit: float
    seeds: int
    missed: int
    accused: int
    by: tuple[int, int, int, int]
    most: float | None

    @property
    def failed(self) -> bool:
        if self.accused > MOST_FALSE * self.seeds:
            return True
        if self.most == 1 - POWER:  # a share of that size is expected: fewer must be ruled out
            return 1 - upper_bound(self.seeds - self.missed, self.seeds) > self.most
        return self.most is not None and self.missed > self.most * self.seeds

    def cells(self) -> list[object]:
        rescoring, lossless, text, acceptance = (f"{100 * k / self.seeds:.0f} %" for k in self.by)
        caught = f"at least {100 * (1 - upper_bound(self.missed, self.seeds)):.2f} %"
        state = "FAIL" if self.failed else "below the limit" if self.most is None else "pass"
        shares = [f"{100 * self.share:.2f} %", f"{100 * self.limit:.2f} %"]
        by = [rescoring, lossless, text, acceptance]
        return [self.name, *shares, self.seeds, self.missed, caught, *by, self.accused, state]


HEADINGS = (
    "fault",
    "tokens above δ",
    "limit",
    "seeds",
    "missed",
    "caught (95 %)",
    "rescoring",
    "first difference",
    "text",
    "acceptance",
    "others accused",
    "verdict",
)


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=300, help="of each fault (300)")
    parser.add_argument("--healthy", type=int, default=3000, help="healthy seeds of each noise (3000)")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--engine-env", type=Path, default=Path(".nox/engine-cpu"), help="with --live")
    parser.add_argument("--out", type=Path, help="with --live: a JSON line for each round")
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--sets", type=int, default=20)
    options = parser.parse_args(arguments)
    if options.live and options.out is None:
        parser.error("--live needs --out")
    if options.live:
        return live(options.engine_env.absolute() / "bin/python", options.out, options.launches, options.sets)
    return offline(options.seeds, options.healthy)


def offline(seeds: int, healthy: int) -> int:
    """Faults and healthy runs in both regimes; 1 if a target is missed."""
    recordings = by_fault(RECORDED)
    failed = False
    for title, scales in (("Exact regime (float32, δ = 1e-3)", EXACT), ("Inexact regime (δ = 0.25)", INEXACT)):
        rows = [_recorded(fault, recordings, scales, seeds) for fault in RECORDED_FAULTS]
        rows += [_planted(name, recordings, scales, seeds) for name in PLANTED]
        print(f"\n{title}\n\n{tabulate([row.cells() for row in rows], HEADINGS, tablefmt='github')}\n", flush=True)
        failed = failed or any(row.failed for row in rows)
    told = [_healthy("1e-5 nats (float32)", recordings, EXACT, (lambda _, __: FLOAT32_NOISE, False), healthy)]
    told += [_healthy(name, recordings, INEXACT, noise, healthy) for name, noise in NOISES.items()]
    columns = [
        "noise",
        "runs",
        "false alarms",
        "at most (95 %)",
        "attempts",
        "false alarms",
        "at most (95 %)",
        "verdict",
    ]
    print(tabulate([cells for cells, _ in told], columns, tablefmt="github"))
    return int(failed or any(bad for _, bad in told))


def _chance(*key: object) -> np.random.Generator:
    """The same for the same key in every run."""
    return np.random.default_rng(list("/".join(map(str, key)).encode()))


def _run(
    recordings: Recordings, scales: Scales, noise: tuple[Noise, bool] | None, chance: np.random.Generator
) -> tuple[list[str], dict[str, list[Line]]]:
    """(prompts, healthy arms) of a run; without ``noise`` that which the regime has by default."""
    names = sorted(recordings["ar"])
    prompts = [names[i] for i in chance.choice(len(names), PROMPTS, replace=False)]
    spread, alike = noise or (lambda _, __: 0.15 if scales is INEXACT else FLOAT32_NOISE, True)
    length = {prompt: len(recordings["none"][prompt].ids) for prompt in prompts}
    sd = {prompt: spread(chance, length[prompt]) for prompt in prompts}
    arms = {}
    for cell in COORDINATES:
        mine = sd if alike else {prompt: spread(chance, length[prompt]) for prompt in prompts}
        healthy = recordings["ar" if cell == "ar" else "none"]
        arms[cell] = [rounded(healthy[prompt], mine[prompt], chance) for prompt in prompts]
    return prompts, arms


def _recorded(fault: str, recordings: Recordings, scales: Scales, seeds: int) -> Row:
    """Outputs that the real server gave with this fault. Where it shows under load only, the arm also says the healthy
    outputs, one prompt at a time, and to find it is to name the concurrency."""
    found, above, tokens = [], 0, 0
    for seed in range(seeds):
        chance = _chance(fault, scales.dtype, seed)
        prompts, arms = _run(recordings, scales, None, chance)
        sd, alone = 0.15 if scales is INEXACT else FLOAT32_NOISE, arms[SUSPECT]
        arms[SUSPECT] = [rounded(recordings[fault][prompt], sd, chance) for prompt in prompts]
        above += sum(int(np.sum(~(said.gaps <= scales.delta))) for said in arms[SUSPECT])
        tokens += sum(len(said.ids) for said in arms[SUSPECT])
        if fault == UNDER_LOAD:
            arms[SUSPECT] += [replace(said, concurrency=1) for said in alone]
        one = found_in(arms, scales)
        wrong_level = fault == UNDER_LOAD and one.smallest != CONCURRENCY
        found.append(replace(one, rescoring=one.rescoring and not wrong_level))
    return _row(f"`{fault}` (recorded)", above / tokens, found, None)


def _planted(name: str, recordings: Recordings, scales: Scales, seeds: int) -> Row:
    """The reference's second choice, planted at random places of healthy outputs."""
    found, above, tokens = [], 0, 0
    limit = found_in(_run(recordings, scales, None, _chance(name, scales.dtype))[1], scales).limit or 0.0
    for seed in range(seeds):
        chance = _chance(name, scales.dtype, seed)
        _, arms = _run(recordings, scales, None, chance)
        if "limit" in name:  # the limit depends on the healthy arms of each run
            limit = found_in(arms, scales).limit or 0.0
        arms[SUSPECT] = PLANTED[name](arms[SUSPECT], limit, chance)
        above += sum(int(np.sum(said.gaps > scales.delta)) for said in arms[SUSPECT])
        tokens += sum(len(said.ids) for said in arms[SUSPECT])
        found.append(found_in(arms, scales))
    expected = 1 - POWER if name == "at the detection limit" else None
    return _row(f"{name} (planted)", above / tokens, found, expected)


def _row(name: str, share: float, found: Sequence[Found], expected: float | None) -> Row:
    limits = [one.limit for one in found if one.limit is not None]
    limit = sum(limits) / len(limits) if limits else 1.0
    visible = share >= limit or "useless-trees" in name
    most = expected if expected is not None else MOST_MISSED if visible else None
    return Row(
        name=name,
        share=share,
        limit=limit,
        seeds=len(found),
        missed=sum(not one.corrupt_or_useless for one in found),
        accused=sum(one.others for one in found),
        by=(
            sum(one.rescoring for one in found),
            sum(one.lossless for one in found),
            sum(one.text for one in found),
            sum(one.acceptance for one in found),
        ),
        most=most,
    )


def _healthy(
    name: str, recordings: Recordings, scales: Scales, noise: tuple[Noise, bool], seeds: int
) -> tuple[list[object], bool]:
    """(cells of the table, whether the target is missed) over healthy runs of seven attempts."""
    runs = attempts = 0
    for seed in range(seeds):
        _, arms = _run(recordings, scales, noise, _chance("healthy", name, seed))
        wrong = sum(score.state == "wrong" for score in judged(arms, scales, limit=False).scores)
        runs, attempts = runs + bool(wrong), attempts + wrong
    n = seeds * len(COORDINATES)
    bounds = [f"{100 * upper_bound(runs, seeds):.2g} %", f"{100 * upper_bound(attempts, n):.2g} %"]
    bad = runs > MOST_FALSE * seeds
    return [name, seeds, runs, bounds[0], n, attempts, bounds[1], "FAIL" if bad else "pass"], bad


# --- live -------------------------------------------------------------------------------------------------------------


def live(python: Path, out: Path, launches: int, sets: int) -> int:
    """Real servers, one launch after another; each round of a fault beside the healthy ones of its set."""
    with out.open("w", encoding="utf-8") as stream, tempfile.TemporaryDirectory() as folder:
        for launch in range(1, launches + 1):
            with started(python, "ar", Path(folder)) as reference, started(python, BUDGET, Path(folder)) as server:
                for number in range(sets):
                    record(stream, launch, number, reference, server, prompt_set(reference, number, PROMPTS))
    return judge_rounds(out)


def judge_rounds(file: Path) -> int:
    """The table of recorded rounds; 1 if a fault was missed or a healthy round accused."""
    by_set: dict[tuple[int, int], dict[str, list[Line]]] = {}
    for launch, number, fault, lines in rounds(file):
        by_set.setdefault((launch, number), {})[fault] = list(lines.values())
    found: dict[str, list[Found]] = {}
    for said in by_set.values():
        for fault in said.keys() - {"ar"}:
            arms = {"ar": said["ar"], "b16-eager": said["none"], SUSPECT: said[fault]}
            found.setdefault(fault, []).append(found_in(arms, EXACT))
    rows, bad = [], False
    for fault in ("none", *(name for name in RECORDED_FAULTS if name in found)):
        n = len(found[fault])
        caught = sum(one.corrupt_or_useless for one in found[fault])
        wrong = caught if fault == "none" else n - caught
        bad = bad or bool(wrong)
        what = "false alarm" if fault == "none" else "missed"
        rows.append([fault, n, f"{what}: {wrong}", f"{100 * upper_bound(wrong, n):.2g} %", "FAIL" if wrong else "pass"])
    print(tabulate(rows, ["fault", "rounds", "wrongly judged", "at most (95 %)", "verdict"], tablefmt="github"))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
