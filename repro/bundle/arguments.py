"""The arguments of the commands `pack`, `verify`, `show` and `replay`."""

import argparse
from pathlib import Path
from typing import Any

from repro.bundle.cli import pack_command, replay_command, show_command, verify_command


def add_pack(commands: Any) -> None:
    from repro.bundle.projects import PROJECTS

    parser = commands.add_parser(
        "pack",
        allow_abbrev=False,
        help="one file that reproduces a finding or a cell, redacted and replayed, for a bug tracker",
        description="Packs a finding (f-…, of the last report) or a cell. Everything is redacted; the bundle is "
        "replayed from its own file in an empty directory before it is written.",
        epilog="exit status: 0 written (and reproduced), 7 written, but its replay did not reproduce the failure or "
        "could not run, 2 nothing such to pack, 5 a record or evidence is invalid, 6 a secret would have been packed",
    )
    parser.add_argument("asked", metavar="FINDING_OR_CELL", help="the id of a finding (f-…) or of a cell")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--run", metavar="RUN_ID", help="the run to take launches of; default: the newest that has any")
    parser.add_argument("--findings", type=Path, metavar="FILE", help="default: RESULTS/report/findings.json")
    parser.add_argument(
        "--for",
        dest="project",
        choices=PROJECTS,
        help="whose bug form to fill in; default: that of the project that the failure points to",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: FINDING_OR_CELL.zip")
    parser.add_argument("--replace", action="store_true", help="overwrite FILE")
    parser.add_argument(
        "--no-replay", dest="replay", action="store_false", help="do not replay it before it is written"
    )
    parser.add_argument(
        "--launches", type=_launches, metavar="N", help="launches of the replay; default: as many as its rate needs"
    )
    parser.add_argument("--engine-env", type=Path, metavar="DIR", help="environment of the engine, for the replay")
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="read good and bad versions from this ledger, and add the bundle to it",
    )
    parser.add_argument(
        "--engine-wheel",
        type=Path,
        metavar="FILE",
        help="what --engine-env was installed from: its local patches go in as diffs",
    )
    parser.add_argument(
        "--show-redactions", action="store_true", help="print each replacement, before and after: not to be posted"
    )
    parser.add_argument("--hide-prompts", action="store_true", help="replace prompts and answers too")
    parser.add_argument("--redact-word", type=Path, metavar="FILE", help="words of your own to replace, one a line")
    parser.set_defaults(command=pack_command)


def add_verify(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        allow_abbrev=False,
        help="whether a bundle is what its manifest says; executes nothing",
        description="Checks the form of the archive, its names, sizes and hashes. Executes and unpacks nothing.",
        epilog="exit status: 0 it is what its manifest says, 2 it cannot be read, 6 it does not verify",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a bundle: the zip that `pack` made")
    parser.add_argument("--digest", metavar="HEX", help="the digest that the issue quotes")
    parser.add_argument("--json", action="store_true", help="print the record `bundle-verification`")
    parser.set_defaults(command=verify_command)


def add_show(commands: Any) -> None:
    parser = commands.add_parser(
        "show",
        allow_abbrev=False,
        help="a bundle as a page: what failed, how often, on what, how to replay it; executes nothing",
        description="Verifies a bundle and shows what it says. Executes and unpacks nothing.",
        epilog="exit status: 0 it was shown, 2 it cannot be read, 6 it does not verify",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a bundle: the zip that `pack` made")
    parser.add_argument("--json", action="store_true", help="print the record `bundle-manifest`")
    parser.set_defaults(command=show_command)


def add_replay(commands: Any) -> None:
    parser = commands.add_parser(
        "replay",
        allow_abbrev=False,
        help="run a bundle: whether its failure shows here. Runs code out of the bundle",
        description="Verifies a bundle, unpacks it into an empty directory and runs its own replay.py.",
        epilog="exit status: 0 not reproduced, 1 reproduced, 2 bad arguments, 4 could not run, 6 does not verify, 7 "
        "other failures, or launches that say nothing, 130 interrupted",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a bundle: the zip that `pack` made")
    parser.add_argument("--digest", metavar="HEX", help="the digest that the issue quotes")
    parser.add_argument("--runtime", choices=("docker", "local"), help="default: as the failure was seen")
    parser.add_argument(
        "--launches", type=_launches, metavar="N", help="default: as many as the rate it was seen at needs"
    )
    parser.add_argument("--until-seen", action="store_true", help="stop at the first launch that shows the failure")
    parser.add_argument("--engine-env", type=Path, metavar="DIR", help="local: an engine's environment")
    parser.add_argument("--image", metavar="IMAGE", help="docker: another image than the bundle's")
    parser.add_argument("--model", metavar="DIR", help="the weights; default: as the bundle names them")
    parser.add_argument("--draft-model", metavar="DIR", help="the draft model's weights")
    parser.add_argument("--script", type=Path, metavar="FILE", help="another script, for the simulated engine")
    parser.add_argument("--any-gpu", action="store_true", help="go on although the GPUs are of another architecture")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the unpacked bundle and the evidence there")
    parser.add_argument("--json", action="store_true", help="print the record `replay`")
    parser.set_defaults(command=replay_command)


def _launches(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of launches (1 to 10000)")
    return int(text)
