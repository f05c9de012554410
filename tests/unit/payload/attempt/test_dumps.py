"""What a server writes into `dumps` in its working directory becomes evidence, within a limit."""

import sys

from attempt import dumps


def test_dumps_become_evidence(lab):
    program = "import pathlib; p = pathlib.Path('dumps/host'); p.mkdir(); (p / 'crash.pkl').write_bytes(b'x')"
    lab.argv, lab.explains = [sys.executable, "-c", program], 1
    assert lab.run() == 0
    assert (lab.evidence / "dumps" / "host" / "crash.pkl").read_bytes() == b"x"


def test_no_folder_without_dumps(lab):
    lab.explains = 1
    assert lab.run() == 0
    assert not (lab.evidence / "dumps").exists()


def test_a_measured_launch_has_no_place_for_dumps(lab):
    lab.argv = [sys.executable, "-c", "import os; print(os.listdir())"]
    assert lab.run() == 0
    assert lab.log() == "[]\n"


def test_what_is_too_large_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "LIMIT_BYTES", 10)
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    for name, size in (("a", 4), ("below/b", 5), ("c", 6)):
        (source / name).write_bytes(b"x" * size)
    (source / "link").symlink_to("/etc/passwd")
    dumps.keep(source, target)
    kept = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    assert kept == ["a", "below/b", "left-out.txt"]
    assert (target / "left-out.txt").read_text() == "c: 6 bytes\n"
    dumps.keep(tmp_path / "none", target)
