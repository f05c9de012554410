"""The archived earlier results, one file for each row of the written account of the B300 investigation.

The five result files themselves are not available; these records hold what the account states of them, and null with
a reason for everything else.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from repro import codec
from repro.model import Baseline

ARCHIVED_FILES: Mapping[str, tuple[str, ...]] = {
    "b8t4_w2048": ("b8t4_w2048",),
    "auto": ("auto",),
    "nvls_b8t4": ("nvls_b8t4",),
    "b16t8": ("b16t8_eager", "b16t8_graph"),
    "b32t8": ("b32t8_graph",),
}
"""Archived result file -> the records here that stand for it. The account does not say which of the two runs of b16t8
its file holds. The other records come from the account's text and stand for no file."""


def archived_file(baseline: str) -> str | None:
    """The archived result file that a record stands for; None when it comes from the account's text alone."""
    return next((file for file, names in ARCHIVED_FILES.items() if baseline in names), None)


def load() -> tuple[Baseline, ...]:
    """All archived baselines, by name. Raises RecordError if one of the shipped files is damaged."""
    with resources.as_file(resources.files(__name__)) as folder:
        return load_folder(folder)


def load_folder(folder: Path) -> tuple[Baseline, ...]:
    """The baselines in a folder of `<name>.json` files, by name. Raises RecordError for one that is not valid."""
    return tuple(codec.read(path, Baseline, where=path.name) for path in sorted(folder.glob("*.json")))
