"""The corpora of planted and of harmless texts."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / "data" / "redaction"


@dataclass(frozen=True)
class Planted:
    """A text, and what of it must be gone."""

    id: str
    text: str
    secrets: tuple[str, ...]


def _planted(name: str) -> list[Planted]:
    texts = []
    for line in (DATA / name).read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        id_, marked = line.split("\t", 1)
        marked = marked.replace("␤", "\n").replace("␛", "\x1b").replace("‖", "")
        secrets = tuple(re.findall("⟦(.*?)⟧", marked, re.DOTALL))
        texts.append(Planted(f"{name}:{id_}", marked.replace("⟦", "").replace("⟧", ""), secrets))
    return texts


def _blind(name: str) -> list[Planted]:
    """Lines of JSON; ``gone`` holds what must not be there, some of it only after decoding. ‖ is nothing here too."""
    texts = []
    for line in (DATA / name).read_text("utf-8").splitlines():
        entry = json.loads(line.replace("‖", ""))
        texts.append(Planted(f"{name}:{entry['id']}", entry["text"], tuple(entry["gone"])))
    return texts


PLANTED = [*_planted("planted.txt"), *_planted("held_out.txt"), *_blind("blind_1.jsonl"), *_blind("blind_2.jsonl")]
HARMLESS = (DATA / "harmless.txt").read_text("utf-8").splitlines()[1:]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "planted" in metafunc.fixturenames:
        metafunc.parametrize("planted", PLANTED, ids=[planted.id for planted in PLANTED])
    if "harmless" in metafunc.fixturenames:
        metafunc.parametrize("harmless", HARMLESS, ids=range(len(HARMLESS)))


@pytest.fixture(scope="session")
def all_planted() -> list[Planted]:
    return PLANTED
