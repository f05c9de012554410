"""The kernel's count of kills for want of memory, where each version of control groups keeps it."""

from pathlib import Path

import pytest
from attempt import memory

COUNTERS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"


def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str]) -> int | None:
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "OWN", tmp_path / "own")
    return memory.oom_kills()


@pytest.mark.parametrize(
    ("own", "files", "count"),
    [
        ("0::/user.slice/x\n", {"user.slice/x/memory.events": COUNTERS}, 2),
        ("0::/\n", {"memory.events": COUNTERS}, 2),  # a container with a namespace of its own
        ("4:memory:/docker/c\n0::/\n", {"memory/docker/c/memory.oom_control": CONTROL}, 4),
        ("4:memory:/docker/c\n0::/\n", {"memory/memory.oom_control": CONTROL}, 4),  # seen from inside
        ("0::/../x\n", {}, None),
        ("", {"memory.events": "max 1\n"}, None),
        ("", {"memory.events": "oom_kill many\n"}, None),
    ],
)
def test_the_count_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], count: int | None
) -> None:
    assert counted(tmp_path, monkeypatch, own, files) == count
