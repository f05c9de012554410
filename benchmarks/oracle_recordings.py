"""What teacher-forced rescoring sees of planted faults on the real CPU server: outputs and their gaps, recorded.

    python benchmarks/oracle_recordings.py --engine-env .nox/engine-cpu --out FILE [--launches N] [--sets M]

For each launch the reference and a speculating server are started once; the fault is switched between rounds. FILE gets
a JSON line for each round. The table counts tokens; it gives no verdict.
"""

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from oracle_servers import Answer, Server, answers, prompt_set, started
from tabulate import tabulate

BUDGET = "b16t8"
DELTA = 1e-3  # nats: the tie margin of the spec cpu
CONCURRENCY = 4  # `wrong-at-concurrency:3` shows from three on
FAULTS = (
    "",
    "stale-mask",
    "causal-mask",
    "useless-trees",
    "nan:25",
    "wrong-token:200",
    "wrong-at-concurrency:3",
    "wrong-late:90",
)
Row = list[object]


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine-env", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--sets", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=20)
    options = parser.parse_args(arguments)
    python = options.engine_env.absolute() / "bin/python"
    rows: list[Row] = []
    with options.out.open("w", encoding="utf-8") as out, tempfile.TemporaryDirectory() as folder:
        for launch in range(1, options.launches + 1):
            with started(python, "ar", Path(folder)) as reference, started(python, BUDGET, Path(folder)) as server:
                for number in range(options.sets):
                    prompts = prompt_set(reference, number, options.prompts)
                    rows += record(out, launch, number, reference, server, prompts)
    headers = ["launch", "set", "fault", "outputs", "tokens", "not finite", "gap > 1e-3", "longest run", "largest gap"]
    print(tabulate(rows, headers=[*headers, "tokens/step"], floatfmt=".3g"))
    return 0


def record(
    out: TextIO, launch: int, number: int, reference: Server, server: Server, prompts: dict[str, tuple[int, ...]]
) -> list[Row]:
    """One round of the reference and one for each fault, written as they end; the rows of the table."""
    rows = [_write(out, launch, number, "ar", answers(reference, reference, prompts, CONCURRENCY))]
    for fault in FAULTS:
        server.plant(fault)
        rows.append(_write(out, launch, number, fault or "none", answers(server, reference, prompts, CONCURRENCY)))
    return rows


def _write(out: TextIO, launch: int, number: int, fault: str, made: Sequence[Answer]) -> Row:
    document = {"launch": launch, "set": number, "fault": fault, "answers": [dataclasses.asdict(a) for a in made]}
    out.write(json.dumps(document, separators=(",", ":")) + "\n")
    out.flush()
    gaps = [gap for answer in made for gap in answer.gaps]
    known = [gap for gap in gaps if gap is not None]
    above = sum(gap > DELTA for gap in known)
    steps = sum(answer.verify_calls or 0 for answer in made)
    per_step = sum(len(answer.ids) - 1 for answer in made) / steps if steps else None
    longest = max((_longest(answer.gaps) for answer in made), default=0)
    lost = len(gaps) - len(known)
    return [launch, number, fault, len(made), len(gaps), lost, above, longest, max(known, default=None), per_step]


def _longest(gaps: Sequence[float | None]) -> int:
    runs = itertools.groupby(gaps, key=lambda gap: gap is not None and gap > DELTA)
    return max((len(list(run)) for exceeds, run in runs if exceeds), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
