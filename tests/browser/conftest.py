"""A page of the report in headless Chromium. Without a browser the tests are skipped; `GRAPHREPRO_BROWSER=1` makes that
an error."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from report import html
from report.document import assemble
from report.load import load
from repro import baselines

UNIT = Path(__file__).parents[1] / "unit" / "report"


def _module(name: str, path: Path) -> ModuleType:
    """A module beside tests, which they cannot import."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def runs() -> ModuleType:
    """The run directories of the report's unit tests."""
    return _module("report_fixtures", UNIT / "conftest.py")


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    """Runs in which every free text is a string of the corpus."""
    return _module("hostile", UNIT / "hostile.py")


@pytest.fixture(scope="session")
def likeness() -> ModuleType:
    return _module("likeness", Path(__file__).with_name("likeness.py"))


@pytest.fixture(scope="module")
def page_path(runs: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the run in which everything happens, with the evidence of a crash."""
    evidence = _module("charts_fixtures", UNIT / "charts" / "conftest.py")
    root = runs.every_state(tmp_path_factory.mktemp("pictures") / "results")
    return _page(evidence.with_crash(root, evidence.samples_of()))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium: that of the system, or Playwright's own."""
    must = os.environ.get("GRAPHREPRO_BROWSER") == "1"
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        if must:
            raise
        pytest.skip("playwright is not installed")
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
        except Error as error:
            if must:
                raise
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


def _page(directory: Path) -> Path:
    document = assemble(load([directory]), None, baselines.load(), tool_version="0.1.0")
    path = directory.parent / f"{directory.name}.html"
    path.write_text(html.render(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def all_states_page(runs: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(runs.every_state(tmp_path_factory.mktemp("states") / "results"))


@pytest.fixture(scope="module")
def hostile_page(runs: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(runs.hostile_run(tmp_path_factory.mktemp("hostile") / "results"))


class Seen:
    """A page, and what it did that it should not: console errors, exceptions, dialogs, requests beyond itself."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.faults: list[str] = []
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._told(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self._asked(request.url, path.as_uri()))
        self.page.goto(path.as_uri())

    def _told(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.faults.append(f"console {kind}: {text}")

    def _asked(self, url: str, own: str) -> None:
        if url.partition("#")[0] != own:
            self.faults.append(f"request: {url}")


@pytest.fixture
def see(browser: Any) -> Iterator[Any]:
    """``see(path, **options)``: the page opened; at the end it must have done nothing that it should not."""
    opened: list[Seen] = []

    def open_page(path: Path, **options: Any) -> Any:
        opened.append(Seen(browser, path, **options))
        return opened[-1].page

    yield open_page
    for seen in opened:
        seen.context.close()
    assert [fault for seen in opened for fault in seen.faults] == []
