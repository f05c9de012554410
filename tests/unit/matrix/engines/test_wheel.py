"""Flags read from source text and from wheels made here in both styles that SGLang has used."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from matrix.engines.flags import read_table
from matrix.engines.update_flags import main
from matrix.engines.wheel import read_flags, read_wheel
from repro.errors import RecordError

CALLS = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--page-size", type=int, choices=[1, 16])
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+", action=DeprecatedAliasStoreAction, new_flag="--x")
        parser.add_argument("--old-switch", action=DeprecatedStoreTrueAction, new_flag="--y")
        parser.add_argument("--old-noise", action=DeprecatedAction, help="Note: gone.")
        parser.add_argument("--old-choice", action=DeprecatedStoreConstAction, nargs=None, const_value=True)
        parser.add_argument("--old-const", action=DeprecatedStoreConstAction, const_value=1)
        parser.add_argument("--gone", type=str, help="[Deprecated] Use nothing.")
        parser.add_argument("--fused", action=argparse.BooleanOptionalAction)
        parser.add_argument("--maybe", nargs="?", const="yes")
        parser.add_argument("--open", choices=["auto"] + OTHERS)
        parser.add_argument("positional")
        parser.add_argument(name)
"""

FIELDS = """
class Spec(msgspec.Struct):
    speculative_algorithm: A[Optional[str], "Which."] = None
    draft_path: A[Optional[str], Arg(help="Where.", aliases=["--draft"])] = None
    tp: A[int, Arg(help="How many.", cli_name="--tp-size"), NS("parallel")] = 1
    hidden: A[bool, Arg(no_cli=True)] = False
    unregistered: A[int, NS("spec")] = 1
    plain: int = 1
    enable_it: A[bool, "On.", NS("spec")] = False
    sizes: A[Optional[List[int]], "Sizes."] = None
    table: A[Optional[List[str]], Arg(help="JSON.", type_parser=json_list)] = None
    mode: A[Optional[Literal["full", "off"]], "Mode."] = None
    new_style: A[str | None, f"Help of {1}."] = None
    union_switch: A[bool | None, "On?"] = None
    paths: A[Any, Arg(help="Paths.", action=PathAction, action_kwargs={"nargs": "*"})] = None
    flagged: A[Optional[bool], Arg(help="Flag.", action=argparse.BooleanOptionalAction)] = None
    elements: A[str, Arg(help="One.", choices=NAMES)] = "a"
"""


def test_argument_calls() -> None:
    flags = read_flags(CALLS)
    takes = {name: flag.takes for name, flag in flags.items()}
    assert takes == {
        "--model-path": "value",
        "--model": "value",
        "--page-size": "value",
        "--enable-metrics": "nothing",
        "--cuda-graph-bs": "values",
        "--old-switch": "nothing",
        "--old-noise": "nothing",
        "--old-choice": "value",
        "--old-const": "nothing",
        "--gone": "value",
        "--fused": "nothing",
        "--no-fused": "nothing",
        "--maybe": "optional",
        "--open": "value",
    }
    assert flags["--page-size"].choices == ("1", "16")
    assert flags["--open"].choices is None
    assert flags["--model"].alias_of == "--model-path"
    assert {name for name, flag in flags.items() if flag.deprecated} == {
        "--cuda-graph-bs",
        "--old-switch",
        "--old-noise",
        "--old-choice",
        "--old-const",
        "--gone",
    }


def test_annotated_fields() -> None:
    flags = read_flags(FIELDS)
    assert {name: flag.takes for name, flag in flags.items()} == {
        "--speculative-algorithm": "value",
        "--draft-path": "value",
        "--draft": "value",
        "--tp-size": "value",
        "--enable-it": "nothing",
        "--sizes": "values",
        "--table": "value",
        "--mode": "value",
        "--new-style": "value",
        "--union-switch": "nothing",
        "--paths": "values",
        "--flagged": "nothing",
        "--no-flagged": "nothing",
        "--elements": "value",
    }
    assert flags["--mode"].choices == ("full", "off")
    assert flags["--elements"].choices is None
    assert flags["--draft"].alias_of == "--draft-path"


def make_wheel(folder: Path, version: str, server_args: str, fields: str | None = None) -> Path:
    path = folder / f"sglang-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\nRequires-Dist: torch==2.9.1\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("sglang/srt/server_args.py", server_args)
        wheel.writestr(f"sglang-{version}.dist-info/METADATA", metadata)
        if fields is not None:
            wheel.writestr("sglang/srt/arg_groups/fields/spec.py", fields)
    return path


def test_a_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "0.5.99", CALLS, FIELDS)
    wheel = read_wheel(path)
    assert (wheel.version, wheel.torch) == ("0.5.99", "2.9.1")
    assert wheel.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert {"--page-size", "--tp-size"} <= set(wheel.flags)


@pytest.mark.parametrize("fault", ["no-zip", "no-flags", "bad-source"])
def test_a_bad_wheel_is_named(tmp_path: Path, fault: str) -> None:
    path = make_wheel(tmp_path, "0.5.99", {"no-flags": "x = 1\n", "bad-source": "def (\n"}.get(fault, CALLS))
    if fault == "no-zip":
        path.write_bytes(b"nothing")
    with pytest.raises(RecordError, match=r"sglang-0\.5\.99-py3-none-any\.whl"):
        read_wheel(path)


def test_the_table_is_written_in_release_order_and_reads_back(tmp_path: Path) -> None:
    make_wheel(tmp_path, "0.5.10", CALLS)
    make_wheel(tmp_path, "0.5.9", CALLS.replace("--page-size", "--other-size"))
    make_wheel(tmp_path, "0.5.9.post1", CALLS.replace("[1, 16]", "[1]"))
    make_wheel(tmp_path, "0.5.11rc1", CALLS)
    out = tmp_path / "flags.json"
    assert main(["--wheels", str(tmp_path), "--out", str(out)]) == 0
    table = read_table(json.loads(out.read_text()), "flags.json")
    assert table.versions == ("0.5.9", "0.5.9.post1", "0.5.10")
    assert [table.has(version, "page-size") for version in table.versions] == [False, True, True]
    assert [(span.first, span.last, span.choices) for span in table.flags["--page-size"]] == [
        (1, 1, ("1",)),
        (2, 2, ("1", "16")),
    ]
    assert [(span.first, span.last) for span in table.flags["--enable-metrics"]] == [(0, 2)]
    text = out.read_text()
    assert main(["--wheels", str(tmp_path), "--out", str(out)]) == 0
    assert out.read_text() == text


def test_nothing_to_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--wheels", str(tmp_path)]) == 2
    assert "download the wheels first" in capsys.readouterr().err


def test_two_wheels_of_one_release_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_wheel(tmp_path, "0.5.9", CALLS)
    path.rename(tmp_path / "sglang-0.5.9-cp311-none-any.whl")
    make_wheel(tmp_path, "0.5.9", CALLS)
    assert main(["--wheels", str(tmp_path), "--out", str(tmp_path / "x.json")]) == 2
    assert "two wheels of one release" in capsys.readouterr().err
