"""What the report says, word for word. `GRAPHREPRO_UPDATE_GOLDEN=1 pytest tests/unit/report/test_golden.py` rewrites
the files; read the difference before committing it."""

import os
from pathlib import Path

import pytest

from report import console, markdown
from report.document import assemble
from report.load import load
from repro import baselines, codec

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
RENDER = {
    "findings.md": markdown.render,
    "console.txt": console.render,
    "findings.json": lambda document: codec.dumps(document.record),
}


@pytest.mark.parametrize("fixture", ["all_states", "planted", "hostile"])
@pytest.mark.parametrize("name", RENDER)
def test_golden(name: str, fixture: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(fixture)
    text = RENDER[name](assemble(load([root]), None, baselines.load(), tool_version="0.1.0"))
    path = GOLDEN / f"{fixture}-{name}"
    if os.environ.get("GRAPHREPRO_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
