"""`python3 replay.py`: runs the launches of the bundle that it lies in, and says whether its failure shows here.

Nothing needs to be installed for this file: standard library, Python 3.10 and newer, Linux. Each launch runs in a fresh
folder, is ended at a hard limit, and leaves no process, container or port behind, also when this program is killed.

Exit status, as `git bisect run` reads it: 0 not reproduced, 1 reproduced, 125 could not run or could not tell,
129 wrong usage, 130 interrupted.
"""

import argparse
import contextlib
import json
import os
import platform
import secrets
import sys
import tempfile
import time
from collections.abc import Callable  # noqa: TC003
from pathlib import Path
from typing import Any, NoReturn

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME))  # not there under -I and -P
sys.dont_write_bytecode = True  # a file more, and the bundle would no longer be what its manifest says

import counting  # type: ignore[import-not-found]  # noqa: E402  # they lie beside this file
import judging  # type: ignore[import-not-found]  # noqa: E402
import launching  # type: ignore[import-not-found]  # noqa: E402
import machine  # type: ignore[import-not-found]  # noqa: E402
import order  # type: ignore[import-not-found]  # noqa: E402

USAGE, INTERRUPTED = 129, 130
_UNKNOWN_FLAG = r"unrecognized arguments?: |[Nn]o such option|unexpected argument|unknown option"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"replay: {message} (--help lists the options)\n")


def main(arguments: "list[str]") -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    try:
        bundle = order.read_bundle(HOME)
        order.resolve(bundle, {}, {}, runtime="", number=1)
        launching.limit_s(bundle.step)
        launches = options.launches or counting.default_launches(bundle.expectation)
        owner = os.environ.get(launching.OWNER_FD)
        stop = launching.Stop(int(owner) if owner else None)
        out = Path(options.out) if options.out else Path(tempfile.mkdtemp(prefix="graphrepro-replay-"))
        (out / "launches").mkdir(parents=True)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
        tell(f"{type(problem).__name__}: {problem}: unpack the whole bundle, and give --out a new folder")
        return USAGE
    facts: dict[str, Any] = {"machine": platform.machine(), "replay_python": platform.python_version()}
    runtime, blocked = choose_runtime(bundle, options, facts)
    tally = counting.Tally()
    if blocked is None:
        tell(f"{bundle.expectation['statement']}")
        tell(f"{launches} launch{'es' if launches > 1 else ''}, {runtime.name}; their evidence goes to {out}")
        blocked = run_launches(
            bundle, runtime, options, launches=launches, out=out, tally=tally, stop=stop, facts=facts
        )
    record = conclude(bundle, runtime, tally, blocked, facts, image=options.image or bundle.needs["image"])
    (out / "replay.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=2) if options.json else record["statement"], flush=True)
    return INTERRUPTED if stop.asked() else counting.exit_status(record)


def choose_runtime(
    bundle: "order.Bundle", options: argparse.Namespace, facts: "dict[str, Any]"
) -> "tuple[launching.Local | launching.Docker, str | None]":
    """The runtime, and why it cannot run the bundle (None if it can)."""
    needs = bundle.needs
    facts["architecture"] = needs["architecture"]
    payload = HOME / "payload"
    image = options.image or needs["image"]
    implied = "local" if options.python else "docker" if options.image else needs["runtime"]
    if (options.runtime or implied) == "docker":
        given = [launching.weight_folders(name) for name in (options.model, options.draft_model, options.script)]
        weights = tuple(path for paths in given for path in paths)
        gpus = options.gpus or ("all" if needs["gpus"] else None)
        python = options.image_python or needs["image_python"] or "python3"
        runtime: launching.Local | launching.Docker = launching.Docker(
            image or "", python, payload, needs, None if gpus == "none" else gpus, weights
        )
    else:
        runtime = launching.Local(options.python or sys.executable, payload)
    problems: tuple[Callable[[], str | None], ...] = (
        lambda: bundle.expectation["undecided"],
        lambda: machine.system_problem(needs, any_gpu=options.any_gpu, facts=facts),
        lambda: machine.weights_problem(needs["model"], options.model, "--model"),
        lambda: machine.weights_problem(needs["draft_model"], options.draft_model, "--draft-model"),
        lambda: (
            machine.docker_problem(image, facts)
            if runtime.name == "docker"
            else machine.interpreter_problem(runtime.python, needs["modules"], facts)
        ),
    )
    return runtime, next((found for problem in problems if (found := problem()) is not None), None)


def run_launches(
    bundle: "order.Bundle",
    runtime: "launching.Local | launching.Docker",
    options: argparse.Namespace,
    *,
    launches: int,
    out: Path,
    tally: "counting.Tally",
    stop: "launching.Stop",
    facts: "dict[str, Any]",
) -> "str | None":
    """Makes the launches; why no more could be made, None if all were."""
    token = secrets.token_hex(4)
    blocked = None
    while tally.made() < launches and blocked is None:
        number = len(tally.runs) + 1
        folder = out / "launches" / str(number)
        folder.mkdir(parents=True)
        run = make_launch(bundle, runtime, options, folder=folder, label=f"replay-{token}/{number}", stop=stop)
        if stop.asked() is not None:
            return f"it was interrupted ({stop.asked()})"
        tally.runs.append(run)
        version = judging.engine_version(folder)
        facts.update({"engine_version": version} if version else {})
        tell(f"launch {number}: {run['state'].replace('_', ' ')}: {run['detail']}")
        if options.until_seen and run["state"] == "reproduced":
            break
        blocked = unknown_flag(folder, run) or tally.problem()
    return blocked


def make_launch(
    bundle: "order.Bundle",
    runtime: "launching.Local | launching.Docker",
    options: argparse.Namespace,
    *,
    folder: Path,
    label: str,
    stop: "launching.Stop",
) -> "dict[str, Any]":
    """One launch in the folder, judged: a run of the `replay` record."""
    begun, number = time.monotonic(), int(folder.name)
    given = {name: value for name in order.GIVEN if (value := getattr(options, name)) is not None}
    step = order.resolve(bundle, runtime.place(), given, runtime=runtime.name, number=number)
    step["environment"] = {**step["environment"], launching.LABEL: label}
    (folder / "step.json").write_text(json.dumps(step, indent=1), encoding="utf-8")
    launch = launching.Launch(folder, label, launching.limit_s(step), launching.grace_s(step))
    wrong = runtime.run(launch, stop)
    judged = judging.judge(folder, bundle.expectation, bundle.oracle)
    detail = f"{judged.detail}: {wrong}" if wrong and judged.state == "void" else judged.detail
    return {
        "launch": number,
        "state": judged.state,
        "outcome": judged.outcome,
        "signature": bundle.expectation["signature"] if judged.state == "reproduced" else None,
        "detail": detail[:1000],
        "wall_s": round(time.monotonic() - begun, 3),
    }


def unknown_flag(folder: Path, run: "dict[str, Any]") -> "str | None":
    """What the engine's refusal of the command line says, if it is not the bundle's failure; else None."""
    if run["outcome"] != "refused" or run["state"] != "another_failure":
        return None
    line = judging.first_lines(folder / "evidence" / "server.log", [_UNKNOWN_FLAG])[0]
    return f"this engine does not know a flag of the bundle's: {line.strip()[:300]}" if line is not None else None


def conclude(
    bundle: "order.Bundle",
    runtime: "launching.Local | launching.Docker",
    tally: "counting.Tally",
    blocked: "str | None",
    facts: "dict[str, Any]",
    *,
    image: "str | None",
) -> "dict[str, Any]":
    """The record `replay`."""
    reproduced, clean = tally.count("reproduced"), tally.count("clean")
    n = reproduced + clean
    return {
        "record": "replay",
        "schema_version": 1,
        "bundle_digest": bundle.digest,
        "runtime": runtime.name,
        "image": image if runtime.name == "docker" else None,
        "reproduced": reproduced,
        "launches": n,
        "upper": counting.upper_bound(n) if n and not reproduced else None,
        "blocked": blocked,
        "statement": counting.statement(tally, blocked),
        "runs": tally.runs,
        "facts": facts,
    }


def tell(text: str) -> None:
    """Progress, to stderr; control codes out of a log do nothing to the terminal."""
    with contextlib.suppress(OSError):  # nobody may be left to read it
        print("replay: " + "".join(mark if mark.isprintable() else " " for mark in text), file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument(
        "--runtime", choices=("docker", "local"), help="default: what --python or --image implies, else as seen"
    )
    parser.add_argument(
        "--python", metavar="P", help="local: the engine's interpreter, with aiohttp; default: this one"
    )
    parser.add_argument("--image", metavar="IMAGE", help="docker: another image than the bundle's")
    parser.add_argument("--image-python", metavar="P", help="docker: the interpreter in the image")
    parser.add_argument(
        "--gpus", metavar="GPUS", help="docker: as of docker run; default: all, or none if none are needed"
    )
    parser.add_argument("--any-gpu", action="store_true", help="also on a GPU that is not the bundle's")
    parser.add_argument(
        "--model", type=_path, metavar="DIR", help="the weights; also in place of those that the bundle names"
    )
    parser.add_argument("--draft-model", type=_path, metavar="DIR", help="the draft model's weights")
    parser.add_argument("--script", type=_path, metavar="FILE", help="another script, for the simulated engine")
    parser.add_argument("--launches", type=_positive, metavar="N", help="default: enough at the rate it was seen at")
    parser.add_argument("--until-seen", action="store_true", help="stop at the first launch that shows the failure")
    parser.add_argument("--out", metavar="DIR", help="for evidence and replay.json; default: a new temporary folder")
    parser.add_argument("--json", action="store_true", help="print the record in place of the statement")
    return parser


def _path(text: str) -> str:
    """A path that is there, as an absolute one; other texts, such as the name of a model, as they are."""
    return str(Path(text).absolute()) if Path(text).exists() else text


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of launches (1 to 10000)")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
