"""The same files give the same context, byte for byte, whoever packs them and when."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from matrix.images.context import Context, Entry, folder_entries
from repro.errors import SpecError


def packed(context: Context) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(context.tar())))


def test_the_tar_is_plain_and_complete(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"x" * 513)
    files = {"b": Entry(content=tmp_path / "b"), "deep/er/a.sh": Entry(content=b"echo", executable=True)}
    with packed(Context(files=files, folders=("wheels",))) as archive:
        members = {member.name: member for member in archive}
        assert list(members) == ["b", "deep", "deep/er", "deep/er/a.sh", "wheels"]
        assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {(0, 0, "", 315_532_800)}
        assert [members[name].mode for name in ("b", "deep/er/a.sh", "wheels")] == [0o644, 0o755, 0o755]
        assert members["wheels"].isdir()
        content = archive.extractfile("b")
        assert content is not None
        assert content.read() == b"x" * 513


def test_names_longer_than_the_header_survive() -> None:
    name = "wheels/" + "n" * 200 + ".whl"
    with packed(Context(files={name: Entry(content=b"1")})) as archive:
        assert name in archive.getnames()


def test_equal_files_give_equal_digests(tmp_path: Path) -> None:
    digests = set()
    for name, umask, order in (("one", 0o022, ["a", "b"]), ("two", 0o077, ["b", "a"])):
        before = os.umask(umask)
        folder = tmp_path / name
        (folder / "sub").mkdir(parents=True)
        for file in order:
            (folder / "sub" / file).write_text(file)
            os.utime(folder / "sub" / file, (1, len(digests)))
        os.umask(before)
        digests.add(Context(files=folder_entries(folder, "engine")).sha256())
    assert len(digests) == 1


@pytest.mark.parametrize("change", ["content", "name", "mode"])
def test_any_difference_shows(tmp_path: Path, change: str) -> None:
    def digest(content: bytes, name: str, executable: bool) -> str:
        return Context(files={name: Entry(content=content, executable=executable)}).sha256()

    before = digest(b"a", "f", False)
    after = digest(b"b" if change == "content" else b"a", "g" if change == "name" else "f", change == "mode")
    assert before != after


def test_byte_code_and_version_control_stay_out(tmp_path: Path) -> None:
    for path in ("a.py", "__pycache__/a.pyc", ".git/HEAD"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    assert list(folder_entries(tmp_path, "p")) == ["p/a.py"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("../secret")
    with pytest.raises(SpecError, match="leads out of"):
        folder_entries(tmp_path / "folder", "p")


def test_a_file_that_shrinks_while_it_is_packed_is_told(tmp_path: Path) -> None:
    class Shrinking(Entry):
        def size_bytes(self) -> int:
            return 5

    with pytest.raises(SpecError, match="changed while"):
        Context(files={"f": Shrinking(content=b"1")}).sha256()
    with pytest.raises(SpecError, match="the build needs it"):
        Context(files={"f": Entry(content=tmp_path / "absent")}).sha256()
