"""The probe's reader of launch flags finds the names that the harness's own reader finds."""

import os
from pathlib import Path

import pytest
from probe import launch_flags

from matrix.engines.flags import FlagTable
from matrix.engines.wheel import read_flags

CALLS = """
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", required=True)
        parser.add_argument("--fused", action=argparse.BooleanOptionalAction)
        parser.add_argument("--old", action=DeprecatedAction, help="gone")
        parser.add_argument("positional")
        parser.add_argument(name)
        group.add_argument("--grouped", nargs="*")
"""
FIELDS = """
class Spec(msgspec.Struct):
    speculative_algorithm: A[Optional[str], "Which."] = None
    draft_path: A[Optional[str], Arg(help="Where.", aliases=["--draft"])] = None
    tp: A[int, Arg(help="How many.", cli_name="--tp-size"), NS("parallel")] = 1
    hidden: A[bool, Arg(no_cli=True)] = False
    unregistered: A[int, NS("spec")] = 1
    plain: int = 1
    new_style: typing.Annotated[str | None, f"Help of {1}."] = None
    flagged: A[Optional[bool], Arg(help="Flag.", action=argparse.BooleanOptionalAction)] = None
    by_kwargs: A[bool, Arg(help="X.", action_kwargs={"action": argparse.BooleanOptionalAction})] = None
"""


@pytest.mark.parametrize("source", [CALLS, FIELDS, CALLS + FIELDS, "x = 1\n"])
def test_both_readers_agree(source: str) -> None:
    assert launch_flags.flags_in(source) == set(read_flags(source))


def test_a_package_in_both_layouts(tmp_path: Path) -> None:
    (tmp_path / "srt" / "arg_groups" / "fields").mkdir(parents=True)
    (tmp_path / "srt" / "server_args.py").write_text(CALLS)
    (tmp_path / "srt" / "arg_groups" / "fields" / "spec.py").write_text(FIELDS)
    found = launch_flags.flags_of(tmp_path)
    assert {"--grouped", "--no-flagged", "--draft", "--tp-size"} <= set(found)
    assert list(found) == sorted(found)


def test_a_new_layout_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the layout is new"):
        launch_flags.flags_of(tmp_path)


@pytest.mark.skipif("GRAPHREPRO_ENGINE_ENV" not in os.environ, reason="needs the environment of `nox -s engine-cpu`")
def test_the_installed_release_has_the_flags_of_the_table() -> None:
    (package,) = Path(os.environ["GRAPHREPRO_ENGINE_ENV"]).glob("lib/python3*/site-packages/sglang")
    assert set(launch_flags.flags_of(package)) == FlagTable.load().flags_of("0.5.23")
