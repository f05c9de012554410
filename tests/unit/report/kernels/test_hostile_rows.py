"""Whatever a row of the kernel checks says, nothing of it acts: on the page, in Markdown, in JUnit, on a terminal."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import html5lib
import pytest
from markdown_it import MarkdownIt

from report import console, html, junit, markdown
from report.document import Document

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200c-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
OURS = re.compile(r"</details>|<details><summary>[A-Za-z, ]+(: \d+)?</summary>")
ACTS = {"link_open", "image", "html_inline", "code_block", "s_open", "hr"}


def builder() -> ModuleType:
    """The planter of the report's other hostile tests."""
    spec = importlib.util.spec_from_file_location("hostile", Path(__file__).parents[1] / "hostile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hostile"] = module
    spec.loader.exec_module(module)
    return module


HOSTILE = builder()
TURNS = range(0, len(HOSTILE.corpus()), 8)


def planted(results: Path, texts: Callable[[], str]) -> Path:
    """Every free text of every row, and of the run's record, replaced."""
    for folder in sorted((results / "kernels").iterdir()):
        run = folder / "kernels.json"
        run.write_text(json.dumps(HOSTILE.plant(_read(run.read_text()), "kernel-run", texts)), encoding="utf-8")
        rows = folder / "rows.jsonl"
        whole = [line for line in rows.read_text().splitlines() if line.endswith("}") and '"cell"' in line]
        made = [json.dumps(HOSTILE.plant(_read(line), "kernel-result", texts)) for line in whole[:24] + whole[-3:]]
        rows.write_text("\n".join(made) + "\n", encoding="utf-8")
    return results


def _read(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def shape(found: Document) -> set[tuple[str, ...]]:
    return {(element.tag, *sorted(element.attrib)) for element in ET.fromstring(junit.render(found)).iter()}


def marks(page: str) -> set[tuple[str, str]]:
    tree = html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False)
    return {(str(e.tag), name) for e in tree.iter() for name in ("", *map(str, e.attrib))}


@pytest.mark.parametrize("turn", TURNS)
def test_nothing_acts(
    turn: int, make: SimpleNamespace, write: SimpleNamespace, tmp_path: Path, told: Callable[..., Document]
) -> None:
    twin, hostile = (
        told(planted(write.every_kernel_state(write.servers(make, tmp_path / name)), texts))
        for name, texts in (("plain", HOSTILE.plain), ("hostile", HOSTILE.in_turns(turn)))
    )
    assert hostile.kernels.rows
    assert any(one.kind.startswith("kernel_") for one in hostile.record.findings)
    page = html.render(hostile)
    assert marks(page) - marks(html.render(twin)) - {("td", "class")} == set()
    assert not CONTROL.search(page)
    assert shape(hostile) - shape(twin) == set()
    assert not CONTROL.search(junit.render(hostile).decode())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]", console.render(hostile))
    _check_markdown(markdown.render(hostile))


def _check_markdown(text: str) -> None:
    assert not CONTROL.search(text)
    assert len(text.encode()) <= markdown.LIMIT_BYTES
    parsed = MarkdownIt("gfm-like").parse(text)
    inline = [child for token in parsed for child in token.children or ()]
    assert not {token.type for token in [*parsed, *inline]} & ACTS
    assert all(OURS.fullmatch(token.content.strip()) for token in parsed if token.type == "html_block")
    words = " ".join(token.content for token in inline if token.type == "text")
    assert not re.search(r"@[A-Za-z0-9]|https?://|www\.|(?<![\w-])#\d|\bGH-\d", words)


@pytest.mark.parametrize("tile", ["abc", "x", "9999999999999999x64", "0x64"])
def test_a_tile_may_be_any_code(
    tile: str, write: SimpleNamespace, tmp_path: Path, told: Callable[..., Document]
) -> None:
    folder = write.every_kernel_state(tmp_path) / "kernels" / write.NEWEST / "rows.jsonl"
    folder.write_text(folder.read_text().replace('"tile":"64x64"', f'"tile":"{tile}"'), encoding="utf-8")
    assert tile in html.render(told(tmp_path))
