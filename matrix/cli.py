"""The command line of `python -m matrix`. Only here are arguments and the environment read, and things printed."""

import argparse
import gc
import io
import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, cast, get_args

from matrix.arguments import EngineChoice
from matrix.coding.choice import add_sandbox_options, choose_sandbox
from matrix.engines.overlay import load_overlay
from matrix.faults import parse_inject
from matrix.host.cli import add_pause, add_restore, production_from
from matrix.images.commands import add_images_commands
from matrix.plan import PlanOptions, list_cells, make_plan
from matrix.preflight.cli import preflight_command
from matrix.runtimes.choice import add_runtime_options
from matrix.spec import Spec, load_spec
from repro import codec
from repro.console import on_one_line, say, tell
from repro.errors import GraphreproError, NothingToRunError, SpecError, UnavailableError
from repro.model import CellList, Depth, Tier

Command = Callable[[argparse.Namespace], int]

STAGES = (
    "read the spec",
    "expand its cells",
    "plan: select, resolve argv, add the reference arms",
    "run each launch as an attempt of its own",
    "collect its evidence, judge its checks: result.json",
    "derive verdicts: verdict.json",
)
"""What `run` does, in order. `list` stops after the second stage, `plan` after the third."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (`{self.prog} --help` lists the options)")


def main(arguments: list[str]) -> int:
    """The exit status: see `python -m matrix --help`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    try:
        options = _parser().parse_args(arguments)
        options.rest = [word for word in arguments[1:] if word != "--json"]
        return cast("Command", options.command)(options)
    except GraphreproError as problem:
        tell(f"matrix: {on_one_line(str(problem))}")
        return problem.exit_code
    except KeyboardInterrupt:
        tell("matrix: interrupted")
        return 130
    except OSError as problem:  # such as a full disk behind stdout
        place = f"{problem.filename}: " if problem.filename else ""
        tell(f"matrix: {on_one_line(f'{place}{problem.strerror or problem}')}: make room or correct it, and try again")
        return UnavailableError.exit_code


def list_command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    cells = _of_tier(list_cells(spec.of_tier(options.tier), _engines(options)), options.tier)
    if options.json:
        _print_json(codec.encode(cells))
        return 0
    from tabulate import tabulate

    rows = [[cell.id, cell.state, cell.reason or ""] for cell in cells.cells]
    say(tabulate(rows, headers=["cell", "state", "reason"], maxcolwidths=[None, None, 70], disable_numparse=True))
    others = f" (other tiers: --tier {'|'.join(spec.tiers)})" if spec.tiers and options.tier is None else ""
    tell(f"{len(cells.cells)} cells of {cells.target}{others}; next: {_same(options, 'matrix plan')}")
    return 0


def _of_tier(cells: CellList, tier: str | None) -> CellList:
    kept = tuple(cell for cell in cells.cells if tier in {None, cell.coordinates.tier})
    if cells.cells and not kept:
        tiers = sorted({cell.coordinates.tier for cell in cells.cells})
        raise NothingToRunError(f"{cells.target} has no cell of tier {tier}; without --tier: {', '.join(tiers)}")
    return replace(cells, cells=kept)


def plan_command(options: argparse.Namespace) -> int:
    gc.disable()  # thousands of steps are made once and printed: looking for cycles in them is a fifth of the time
    spec = load_spec(options.spec).of_tier(options.tier)
    plan = make_plan(spec, _plan_options(options, spec), _engines(options))
    if options.json:
        _print_json(codec.encode(plan))
        return 0
    from tabulate import tabulate

    rows = [
        [step.cell, step.role, step.launches, f"{step.forecast_s:.0f} s", step.expectation.note or ""]
        for step in plan.steps
    ]
    headers = ["cell", "role", "launches", "each", "note"]
    say(tabulate(rows, headers=headers, maxcolwidths=[None, None, None, None, 60], disable_numparse=True))
    skips = [[skip.cell, skip.state, skip.reason] for skip in plan.skips]
    if skips:
        say("")
        say(tabulate(skips, headers=["skipped", "state", "reason"], maxcolwidths=[None, None, 70]))
    forecast = plan.forecast
    tell(
        f"{forecast.launches} launches, about {forecast.hours:.2f} h ({forecast.hours_worst:.1f} h if all runs into "
        f"its limits); argv and environment of each step: --json; next: {_same(options, 'matrix run')}"
    )
    return 0


def run_command(options: argparse.Namespace) -> int:
    from matrix import armed, summary
    from matrix.environments import own_version
    from matrix.model_facts import declared_facts
    from matrix.preflight.this_host import health_of
    from matrix.progress import progress_on
    from matrix.promptset import load_prompts, payload_dir
    from matrix.ready import make_ready
    from matrix.run import Job, Outside, execute
    from repro import oracle_lines
    from repro.ledger import known

    ledger = known.load(options.ledger)
    spec = load_spec(options.spec).of_tier(options.tier)
    plan_options = _plan_options(options, spec)
    ready = make_ready(options, spec, plan_options, _engines(options), tell)
    chosen, engines, plan = ready.chosen, ready.engines, ready.plan
    deployment = engines.deployment(spec)
    port = options.port if options.port is not None else spec.deployment.port
    if not chosen.own_ports:
        _demand_free(port)
    job = Job(
        spec=spec,
        plan=plan,
        prompts=load_prompts(spec.load.prompts, spec.load.count),
        planted=plan_options.planted,
        engines=engines,
        declared={
            **declared_facts(spec, model=deployment.model, draft_model=deployment.draft_model, payload=payload_dir()),
            **chosen.declared,
        },
        port=port,
        armed=armed.wanted(options.armed, spec, plan.depth),
    )
    outside = Outside(
        runtime=chosen.runtime,
        now=lambda: datetime.now(UTC),
        progress=progress_on(sys.stderr),
        tool_version=own_version(),
        free_port=_free_port,
        production=production_from(options, plan.forecast),
        health=health_of(spec.hardware.gpu_count),
        sandbox=choose_sandbox(options, plan, chosen.runtime, os.environ),
    )
    finished = execute(job, options.results, outside)
    cells = summary.cell_verdicts(finished.results, finished.verdicts)
    told = known.by_cell(ledger, finished.results, finished.verdicts, planted=bool(job.planted))
    say(summary.table(plan, finished.results, cells, told))
    for line in oracle_lines.lines(finished.results, finished.verdicts):
        say(on_one_line(line))
    if job.planted:
        tell("PLANTED FAULTS: this run tests graphrepro, it is no evidence about an engine")
    report = shlex.join(["python", "-m", "report", "build", "--results", str(options.results)])
    tell(f"results: {finished.directory.path}; next: {on_one_line(report)}")
    return summary.exit_code(cells)


def prepare_command(options: argparse.Namespace) -> int:
    from matrix.ready import make_ready

    spec = load_spec(options.spec).of_tier(options.tier)
    ready = make_ready(options, spec, _plan_options(options, spec), _engines(options), tell)
    for digest in sorted(set(ready.chosen.images.values())):
        say(digest)
    return 0


def preflight(options: argparse.Namespace) -> int:
    spec, engines = load_spec(options.spec).of_tier(options.tier), _engines(options)
    plan, deployment = make_plan(spec, _plan_options(options, spec), engines), engines.deployment(spec)
    return preflight_command(options, spec, deployment, launches=plan.forecast.launches)


def clean_command(options: argparse.Namespace) -> int:
    from matrix.clean import clean

    done = clean(options.results, os.environ)
    tell(
        f"{done.processes} processes, {done.containers} containers and {done.volumes} volumes of dead runs below "
        f"{options.results} removed; results are kept"
    )
    if done.stuck:
        raise UnavailableError(f"containers {', '.join(done.stuck)} cannot be removed: restart docker or the host")
    return 0


def _plan_options(options: argparse.Namespace, spec: Spec) -> PlanOptions:
    failing: frozenset[str] = frozenset()
    if options.depth == "rates":
        from matrix.failing import failing_cells

        failing = failing_cells(options.results, spec.target)
    return PlanOptions(
        select=tuple(options.select),
        skip=tuple(options.skip),
        tier=cast("Tier | None", options.tier),
        depth=cast("Depth", options.depth),
        launches=options.launches,
        hours=options.hours,
        references=not options.no_references,
        planted=tuple(parse_inject(text) for text in options.inject),
        failing=failing,
        bench_serving=options.bench_serving,
    )


def _engines(options: argparse.Namespace) -> EngineChoice:
    overlay = load_overlay(str(options.engine_overlay)) if options.engine_overlay else None
    return EngineChoice(overlay=overlay, model=options.model, draft_model=options.draft_model)


def _same(options: argparse.Namespace, program: str) -> str:
    """The next command, with what this one was given: each takes the options of the one before it."""
    return on_one_line(shlex.join(["python", "-m", *program.split(), *options.rest]))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _demand_free(port: int) -> None:
    if not port:
        return
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as problem:
            raise UnavailableError(
                f"port {port} on 127.0.0.1: {problem.strerror}: stop what listens there, or name another with --port "
                "(0: a free one for each attempt)"
            ) from problem


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m matrix",
        description="Plan and execute the matrix of draft budget x graph mode x NVLS for one target. Stages: "
        + "; ".join(f"{number}. {stage}" for number, stage in enumerate(STAGES, start=1))
        + ".",
        epilog="exit status: 0 all pass, 1 something failed or is corrupt, 2 bad spec or arguments, 3 nothing to run, "
        "4 engine environment, port, runtime or GPU unavailable, 5 a record is invalid, 7 something stayed open, "
        "130 interrupted",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the cells of a target", allow_abbrev=False)
    _add_spec(listing)
    listing.add_argument("--tier", choices=get_args(Tier), help="the cells of this tier (default: the spec's own)")
    listing.add_argument("--json", action="store_true", help="print the record `cells`")
    listing.set_defaults(command=list_command)
    planning = commands.add_parser("plan", help="resolved steps, skips and a forecast", allow_abbrev=False)
    _add_spec(planning)
    _add_plan(planning)
    planning.add_argument("--json", action="store_true", help="print the record `plan`")
    planning.set_defaults(command=plan_command)
    running = commands.add_parser("run", help="execute a plan, or go on with an unfinished one", allow_abbrev=False)
    _add_spec(running)
    _add_plan(running)
    _add_run(running)
    add_pause(running)
    running.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="say which failures it has (default: ./ledger.json, if there is one)",
    )
    running.set_defaults(command=run_command)
    cleaning = commands.add_parser(
        "clean",
        help="remove processes, containers and caches that dead runs left; results are kept",
        allow_abbrev=False,
    )
    cleaning.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results/")
    cleaning.set_defaults(command=clean_command)
    add_restore(commands)
    preparing = commands.add_parser(
        "prepare", help="find, pull or build the images that `run` needs; options as of `run`", allow_abbrev=False
    )
    preparing.set_defaults(command=prepare_command)
    checking = commands.add_parser("preflight", help="the host against a plan; options as of `run`", allow_abbrev=False)
    for add in (_add_spec, _add_plan, _add_run, add_pause):
        add(preparing)
        add(checking)
    checking.add_argument("--json", action="store_true", help="print the record `preflight`")
    checking.set_defaults(command=preflight)
    add_images_commands(commands)
    return parser


def _add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", required=True, metavar="S", help="a built-in target (b300, cpu, …) or a .toml file")
    parser.add_argument("--engine-overlay", type=Path, metavar="FILE", help="how your own build differs from a release")
    parser.add_argument("--model", metavar="M", help="path of the model's weights")
    parser.add_argument("--draft-model", metavar="D", help="path of the draft's weights")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--select", action="append", default=[], metavar="GLOB", help="only these cells (repeatable)")
    parser.add_argument("--skip", action="append", default=[], metavar="GLOB", help="not these cells (repeatable)")
    parser.add_argument("--tier", choices=get_args(Tier), help="how much of the real thing runs (default: the spec's)")
    parser.add_argument("--depth", choices=get_args(Depth), default="screen", help="default: screen, one launch a cell")
    parser.add_argument("--launches", type=_positive, metavar="N", help="launches a cell, instead of the depth's")
    parser.add_argument("--hours", type=_positive_hours, metavar="H", help="leave out what does not fit into H hours")
    parser.add_argument("--no-references", action="store_true", help="do not add the reference arms")
    parser.add_argument(
        "--inject",
        action="append",
        default=[],
        metavar="CELLGLOB=FAULT[:N]",
        help="plant a fault (cpu and sim only): a test of the tool, marked as such everywhere",
    )
    parser.add_argument(
        "--bench-serving",
        action="store_true",
        help="measure each level with SGLang's own load generator too, from the engine's environment",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results/")


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_runtime_options(parser)
    add_sandbox_options(parser)
    hooks = parser.add_mutually_exclusive_group()
    hooks.add_argument(
        "--armed",
        action="store_true",
        default=None,
        help="launch a failing cell once more with evidence hooks armed (default: on GPUs, and with a deeper plan)",
    )
    hooks.add_argument("--no-armed-relaunch", dest="armed", action="store_false", help="never do that")
    parser.add_argument("--port", type=_port, metavar="N", help="port of the server; 0: a free one for each attempt")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10000")
    return int(text)


def _positive_hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of hours")
    return hours


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _print_json(document: Mapping[str, object]) -> None:
    """One line for each field and for each item of its list: readable, and quick for ten thousand cells, which
    ``indent`` is not (it takes the encoder written in Python)."""
    say("{\n" + ",\n".join(_json_field(name, value) for name, value in document.items()) + "\n}")


def _json_field(name: str, value: object) -> str:
    if not isinstance(value, list) or not value:
        return f"  {json.dumps(name)}: {json.dumps(value)}"
    items = ",\n".join(f"    {json.dumps(item)}" for item in value)
    return f"  {json.dumps(name)}: [\n{items}\n  ]"
