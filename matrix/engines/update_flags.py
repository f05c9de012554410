"""Write the flag table from downloaded wheels: `python -m matrix.engines.update_flags --wheels DIR [--out FILE]`.

The wheels are those of `pip download --no-deps sglang==VERSION`, one of each stable release; nothing is installed.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matrix.engines.wheel import ReadFlag, ReadWheel, read_wheel
from repro.errors import GraphreproError, SpecError

_STABLE = re.compile(r"\d+(\.\d+)+(\.post\d+)?")


def main(argv: Sequence[str] | None = None) -> int:
    """The process's exit code; the table goes to ``--out``, or to the package's own file."""
    parser = argparse.ArgumentParser(prog="python -m matrix.engines.update_flags", description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, help="folder with one wheel of each release")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("flags.json"))
    arguments = parser.parse_args(argv)
    try:
        paths = sorted(arguments.wheels.glob("sglang-*.whl"))
        if not paths:
            raise SpecError(f"{arguments.wheels}: no sglang-*.whl: download the wheels first")
        text = table_text([read_wheel(path) for path in paths])
    except GraphreproError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    arguments.out.write_text(text, encoding="utf-8")
    sys.stderr.write(f"{arguments.out}: flags of {len(paths)} releases\n")
    return 0


def table_text(wheels: Sequence[ReadWheel]) -> str:
    """The `flag-table` document: sorted, one line for each flag, so that a new release is a readable difference."""
    ordered = sorted((wheel for wheel in wheels if _STABLE.fullmatch(wheel.version)), key=_order)
    versions = [wheel.version for wheel in ordered]
    if len(set(versions)) != len(versions):
        raise SpecError(f"two wheels of one release among {', '.join(versions)}: keep one")
    names = sorted({name for wheel in ordered for name in wheel.flags})
    releases = [
        _line({"version": wheel.version, "wheel_sha256": wheel.sha256, "torch": wheel.torch}) for wheel in ordered
    ]
    flags = [f"{json.dumps(name)}: {_line(_spans(name, ordered))}" for name in names]
    head = '{\n"record": "flag-table",\n"schema_version": 1,\n"releases": [\n'
    return head + ",\n".join(releases) + '\n],\n"flags": {\n' + ",\n".join(flags) + "\n}\n}\n"


def _spans(name: str, wheels: Sequence[ReadWheel]) -> list[dict[str, object]]:
    """The flag's facts over runs of consecutive releases in which they are the same."""
    spans: list[dict[str, object]] = []
    before: ReadFlag | None = None
    for wheel in wheels:
        flag = wheel.flags.get(name)
        if flag is not None and flag == before:
            spans[-1]["last"] = wheel.version
        elif flag is not None:
            spans.append({"first": wheel.version, "last": wheel.version, **_facts(flag)})
        before = flag
    return spans


def _facts(flag: ReadFlag) -> Mapping[str, object]:
    facts: dict[str, object] = {"takes": flag.takes}
    if flag.choices is not None:
        facts["choices"] = list(flag.choices)
    if flag.alias_of is not None:
        facts["alias_of"] = flag.alias_of
    if flag.deprecated:
        facts["deprecated"] = True
    return facts


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _order(wheel: ReadWheel) -> tuple[int, ...]:
    """`0.5.15` before `0.5.15.post1` before `0.5.16`."""
    base, _, post = wheel.version.partition(".post")
    return (*(int(part) for part in base.split(".")), int(post or 0))


if __name__ == "__main__":
    raise SystemExit(main())
