"""What is said of the kernel checks, word for word. `GRAPHREPRO_UPDATE_GOLDEN=1 pytest tests/unit/report/kernels`
rewrites the files; read the difference before committing it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from report import markdown
from report.document import Document
from report.kernels_console import kernel_text

GOLDEN = Path(__file__).parents[3] / "golden" / "report"


def section(document: Document) -> str:
    """Of the Markdown file, without the tables that copy recorded rows."""
    _, _, behind = markdown.render(document).partition("## Kernel checks\n")
    return behind.partition("### Compiled code")[0]


def findings(document: Document) -> str:
    """Those of the kernel checks, and what stands by the others."""
    lines = [
        f"{one.severity} {one.kind}\n{one.statement}\nnext: {one.next}\nbundle: {one.bundle}"
        for one in document.record.findings
        if one.kind.startswith("kernel_")
    ]
    return "\n\n".join((*lines, *(near.text for near in document.near.values()))) + "\n"


RENDER = {
    "findings.md": section,
    "console.txt": lambda document: kernel_text(document) + "\n",
    "findings.txt": findings,
}


@pytest.mark.parametrize("name", RENDER)
def test_golden(name: str, beside_server: Path, told: Callable[..., Document]) -> None:
    text = RENDER[name](told(beside_server))
    path = GOLDEN / f"kernels-{name}"
    if os.environ.get("GRAPHREPRO_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
