"""`python PAYLOAD_FOLDER dummy --model M --draft-model D --out DIR`: writes the model folders of the tier `dummy`.

DIR-dummy folders hold the rewritten config.json and copies of the small files beside it (tokenizer, code, template), so
they can be served with `--load-format dummy`. Exit status: 0 written, 2 wrong usage, 3 the configs do not fit.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dummy.config import BadConfigError, shrink_draft, shrink_target, target_layers

LEFT_OUT = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
LARGEST_BYTES = 64 << 20


def main(arguments: list[str]) -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    model, draft, out = Path(options.model), Path(options.draft_model), Path(options.out)
    try:
        target = _read(model)
        had = target_layers(target)
        written = [
            _write(out, model, shrink_target(target, layers=options.layers, ranks=options.tp)),
            _write(
                out,
                draft,
                shrink_draft(_read(draft), target_had=had, layers=options.layers, ranks=options.tp),
            ),
        ]
    except BadConfigError as problem:
        print(f"dummy: {problem}", file=sys.stderr)
        return 3
    except OSError as problem:
        print(f"dummy: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 3
    for folder in written:
        print(folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dummy", allow_abbrev=False, description="the model folders of tier `dummy`")
    parser.add_argument("--model", required=True, metavar="M", help="folder of the real model: its config is read")
    parser.add_argument("--draft-model", required=True, metavar="D", help="folder of the real draft")
    parser.add_argument("--out", required=True, metavar="DIR", help="where M-dummy and D-dummy are made")
    parser.add_argument("--layers", type=int, default=8, help="layers of the target that stay (default: 8)")
    parser.add_argument("--tp", type=int, default=8, help="as one rank of so many sees it (default: 8)")
    return parser


def _read(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        raise BadConfigError(f"{path} is no JSON") from None
    if not isinstance(document, dict):
        raise BadConfigError(f"{path} is no JSON object")
    return document


def _write(out: Path, source: Path, config: Mapping[str, Any]) -> Path:
    folder = out / f"{source.absolute().name}-dummy"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        small = path.is_file() and path.stat().st_size <= LARGEST_BYTES
        if small and path.name != "config.json" and not path.name.endswith(LEFT_OUT):
            shutil.copyfile(path, folder / path.name)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder
