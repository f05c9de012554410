"""What a bundle must be: every byte of it is accounted for, and opening it costs nothing and executes nothing."""

import copy
import dataclasses
import hashlib
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import schemas
from repro.bundle import archive
from repro.bundle.inside import verify
from repro.bundle.inside.verify import Archive, RefusedError, checked, manifest_problems

PROGRAM = Path(verify.__file__)
RECORD = Path(__file__).parents[3] / "data" / "records" / "bundle-manifest-v1.json"


def refusal(data: bytes, digest: str | None = None) -> str:
    """Why these bytes are no bundle; "" if they are one."""
    try:
        return "; ".join(checked(Archive(data), digest).problems)
    except RefusedError as refused:
        return str(refused)


def rezipped(data: bytes, change: Callable[[list[tuple[zipfile.ZipInfo, bytes]]], Any]) -> bytes:
    """The bundle written anew by `zipfile`, after ``change`` to the list of its entries."""
    with zipfile.ZipFile(BytesIO(data)) as old:
        entries = [(info, old.read(info)) for info in old.infolist()]
    change(entries)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for info, content in entries:
            new.writestr(info, content)
    return buffer.getvalue()


def entry(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16
    return info


def test_bundle_verifies(small_bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(small_bundle)
    found = verify.verify(path)
    assert found.ok
    assert found.files == 5
    assert found.size_bytes == len(small_bundle)
    assert verify.verify(path, found.digest).ok
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None


def test_digest_can_be_computed_with_other_tools(small_bundle: bytes) -> None:
    """From `sha256sum` of the files and of the manifest's other facts as canonical JSON."""
    with zipfile.ZipFile(BytesIO(small_bundle)) as archive:
        hashes = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
        facts = json.loads(archive.read("manifest.json"))
    lines = [f"{hashes[name]}  {name}\n" for name in sorted(hashes) if name not in {"manifest.json", "ISSUE.md"}]
    rest = {key: value for key, value in facts.items() if key not in {"files", "digest", "archive_sha256"}}
    canonical = json.dumps({**rest, "cut": {}}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    lines.append(f"{hashlib.sha256(canonical.encode()).hexdigest()}  manifest.json\n")
    assert facts["digest"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert checked(Archive(small_bundle)).digest == facts["digest"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_version", "9"),
        ("redactions", []),
        ("left_out", []),
        ("subject", {"planted": True}),
        ("files", {"cut": "x"}),
    ],
)
def test_manifest_that_was_edited_has_another_digest(small_bundle: bytes, field: str, value: Any) -> None:
    def change(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> None:
        document = json.loads(entries[-1][1])
        if field == "files":
            document["files"][2].update(value)
        elif field == "subject":
            document["subject"]["planted"] = not document["subject"]["planted"]
        else:
            document[field] = value or [dict.fromkeys(("where", "reason"), "x") | {"size_bytes": 1, "sha256": None}]
            document[field] = (
                [{"category": "x", "count": 1, "files": 1, "pseudonyms": 0}]
                if field == "redactions"
                else document[field]
            )
        entries[-1] = (entries[-1][0], json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")

    assert "its digest is not the one of what it says" in refusal(rezipped(small_bundle, change))


def test_no_byte_is_free(small_bundle: bytes) -> None:
    """Every single byte, changed in its lowest and in all of its bits."""
    passed = []
    for place in range(len(small_bundle)):
        for mask in (1, 0xFF):
            changed = bytearray(small_bundle)
            changed[place] ^= mask
            if not refusal(bytes(changed)):
                passed.append((place, mask))
    assert passed == []


def test_no_prefix_passes(small_bundle: bytes) -> None:
    assert all(refusal(small_bundle[:size]) for size in range(len(small_bundle)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../x", "leads out of the bundle"),
        ("results/../../x", "leads out of the bundle"),
        ("/etc/passwd", "absolute path"),
        ("C:/x", "drive"),
        ("a\\b", "backslash"),
        ("a\x01b", "control characters"),
        ("naïve", "not plain ASCII"),
        ("verify.py", "there twice"),
        ("VERIFY.PY", "there twice"),
        ("verify.py/x", "lies below a file"),
        ("folder/", "is a folder"),
        ("a//b", "not the same on every system"),
        ("./a", "not the same on every system"),
        ("aux.txt", "some systems cannot have"),
        ("x.", "some systems cannot have"),
        ("x" * 500, "more than 400 characters"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names(small_bundle: bytes, name: str, said: str) -> None:
    data = rezipped(small_bundle, lambda entries: entries.insert(0, (entry("x"), b"x")))
    raw = name.encode("utf-8")
    flags = 0 if name.isascii() else 0x800
    data = _renamed(data, b"x", raw, flags)
    assert said in refusal(data)


def _renamed(data: bytes, old: bytes, new: bytes, flags: int) -> bytes:
    """The first entry under another name, in both of its headers; `zipfile` itself would not write all of these."""
    local, rest = data[:30], data[30:]
    assert rest.startswith(old)
    local = local[:6] + struct.pack("<H", flags) + local[8:26] + struct.pack("<H", len(new)) + local[28:]
    grown = len(new) - len(old)
    directory = struct.unpack("<L", data[-6:-2])[0]
    body = local + new + data[30 + len(old) : directory]
    central = bytearray(data[directory:-22])
    end = bytearray(data[-22:])
    first = bytes(central[:8]) + struct.pack("<H", flags) + bytes(central[10:28]) + struct.pack("<H", len(new))
    first += bytes(central[30:46]) + new
    others = bytearray(central[46 + len(old) :])
    place = 0
    while place < len(others):
        name, extra, comment = struct.unpack("<3H", others[place + 28 : place + 34])
        offset = struct.unpack("<L", others[place + 42 : place + 46])[0]
        others[place + 42 : place + 46] = struct.pack("<L", offset + grown)
        place += 46 + name + extra + comment
    end[12:16] = struct.pack("<L", len(first) + len(others))
    end[16:20] = struct.pack("<L", directory + grown)
    return body + first + bytes(others) + bytes(end)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entries: entries.append((entry("extra.txt"), b"x")), "manifest.json is not the last entry"),
        (lambda entries: entries.insert(0, (entry("zz"), b"x")), "not in order"),
        (lambda entries: entries.insert(0, (entry("A.txt"), b"x")), "in the bundle and not in the manifest"),
        (lambda entries: entries.pop(1), "in the manifest and not in the bundle"),
        (lambda entries: entries.insert(0, (entry("A", 0o120777), b"/etc/passwd")), "is a symbolic link"),
        (lambda entries: entries.insert(0, (entry("A", 0o100755), b"x")), "has mode 100755"),
        (lambda entries: entries.insert(0, (entry("A", 0o020644), b"x")), "has mode 20644"),
        (lambda entries: entries.pop(-1), "has no manifest.json"),
        (lambda entries: entries.pop(0), "ISSUE.md: is missing"),
        (lambda entries: entries.__setitem__(0, (entries[0][0], b"no digest")), "does not quote the digest"),
    ],
)
def test_entries(small_bundle: bytes, change: Callable[[Any], Any], said: str) -> None:
    assert said in refusal(rezipped(small_bundle, change))


def test_what_stands_around_the_archive(small_bundle: bytes) -> None:
    assert "before its first entry" in refusal(b"#!/bin/sh\n" + small_bundle)
    assert "behind its end" in refusal(small_bundle + b"more")
    commented = small_bundle[:-2] + struct.pack("<H", 3) + b"abc"
    assert "behind its end" in refusal(commented)
    assert "no zip archive" in refusal(b"plain text, and rather short")
    assert "cut off" in refusal(small_bundle[:-30])


def test_zip64_encryption_and_other_methods(small_bundle: bytes) -> None:
    many = bytearray(small_bundle)
    many[-14:-10] = b"\xff\xff\xff\xff"
    assert "zip64" in refusal(bytes(many))
    directory = struct.unpack("<L", small_bundle[-6:-2])[0]
    encrypted = bytearray(small_bundle)
    encrypted[directory + 8] |= 1
    assert "is encrypted" in refusal(bytes(encrypted))
    method = bytearray(small_bundle)
    method[directory + 10] = 12
    assert "packed by method 12" in refusal(bytes(method))


@pytest.mark.parametrize("honest", [True, False])
def test_bomb_costs_nothing(honest: bool) -> None:
    """10 GB of zeros, with its true size in the header or with a small one."""
    import zlib

    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    megabyte = compressor.compress(b"\0" * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    stream = megabyte * (10 * 1024) + compressor.flush()
    name, size = "bomb", 10 * (1 << 30) if honest else 1000
    size = min(size, 0xFFFFFFFE)
    local, central = verify.headers(name, method=8, crc=0, packed=len(stream), size=size, begins=0)
    end = verify.end_record(1, len(central), len(local) + len(stream))
    data = local + stream + central + end
    tracemalloc.start()
    if honest:
        assert "unpacks to 4,294,967,294 bytes" in refusal(data)
    else:
        archive = Archive(data)
        with pytest.raises(RefusedError, match="more than its header says"):
            archive.sha256(name)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_compressed_data_that_are_more_than_what_they_unpack_to(
    bundle_of: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deflate stream may have any number of empty blocks, which no hash of a file sees."""
    files = {"kernel/k.txt": b"one line\n" * 100}
    plain, append = bundle_of(files), archive._append

    def padded(file: archive.Packed, body: bytearray, directory: bytearray) -> None:
        empty = b"\x00\x00\x00\xff\xff" * (200 if file.path in files else 0)
        append(dataclasses.replace(file, data=empty + file.data), body, directory)

    monkeypatch.setattr(archive, "_append", padded)
    assert refusal(plain) == ""
    assert (
        refusal(bundle_of(files))
        == "'kernel/k.txt': is compressed, and takes no less for it, as no file of a bundle does"
    )


def test_high_ratio_and_many_files(bundle_of: Callable[..., bytes]) -> None:
    import zlib

    raw = b"\0" * 2_000_000
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    stream = compressor.compress(raw) + compressor.flush()
    local, central = verify.headers("z", method=8, crc=zlib.crc32(raw), packed=len(stream), size=len(raw), begins=0)
    data = local + stream + central + verify.end_record(1, len(central), len(local) + len(stream))
    assert "more than 100 times" in refusal(data)
    many = bundle_of({f"kernel/{number:04}": b"" for number in range(2100)})
    assert "2,103 entries" in refusal(many)


def test_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.zip"
    with path.open("wb") as stream:
        stream.truncate(1 << 34)
    tracemalloc.start()
    found = verify.verify(path)
    assert tracemalloc.get_traced_memory()[1] < 60_000_000
    tracemalloc.stop()
    assert found.problems == ("is larger than 25,000,000 bytes, the most that a bundle may have",)


def test_forged_bundle_passes_and_has_another_digest(bundle_of: Callable[..., bytes], small_bundle: bytes) -> None:
    """Whoever makes a bundle of their own, manifest and all, makes a bundle that verifies; the issue tells it apart."""
    quoted = checked(Archive(small_bundle)).digest
    forged = bundle_of(
        {"repro.sh": b"#!/bin/sh\nrm -rf ~\n", "results/c/1/evidence/server.log": b"a line of a log\n" * 40}
    )
    assert refusal(forged) == ""
    assert "it is another bundle, or a forged one" in refusal(forged, quoted)
    assert refusal(small_bundle, str(quoted).upper()) == ""


def test_replay_of_another_bundle_is_noticed(bundle_of: Callable[..., bytes]) -> None:
    files = {"repro.sh": b"#!/bin/sh\n"}
    digest = checked(Archive(bundle_of(files))).digest
    assert refusal(bundle_of({**files, "replay.json": json.dumps({"bundle_digest": digest}).encode()})) == ""
    assert "is of another bundle" in refusal(bundle_of({**files, "replay.json": b'{"bundle_digest": "00"}'}))


# --- the manifest -----------------------------------------------------------------------------------------------------


def manifest() -> Any:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def places(document: Any) -> list[tuple[Any, ...]]:
    """The path to each value of a document."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [(), *((key, *rest) for key, value in items for rest in places(value))]


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copied = copy.deepcopy(document)
    parent = copied
    for key in place[:-1]:
        parent = parent[key]
    if value is KeyError:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return copied


VALUES = (
    KeyError, None, True, 0, 1, 2, -1, 1.0, 1.5, 2**63, "", "x", "a/b", "/a", "../a", "..a/b", "a//b", "a\n", "a\\b",
    "ab" * 32, "AB" * 32, "start", "serving", " ", "é", "x" * 201, "x" * 1001, [], ["x"], [{}], {}, {"x": 1},
)  # fmt: skip


def test_manifest_is_judged_as_its_schema_judges_it() -> None:
    """Each value of the example replaced by each of many values; both judges are asked."""
    document = manifest()
    cases = [
        changed(document, place, value)
        for place in places(document)
        for value in VALUES
        if place or value is not KeyError
    ]
    cases += [
        changed(document, place, {**_at(document, place), "unknown": 1})
        for place in places(document)
        if isinstance(_at(document, place), dict)
    ]
    disagreed = [case for case in cases if bool(manifest_problems(case)) == _fits_schema(case)]
    assert disagreed == []
    assert len(cases) > 1000
    assert manifest_problems(document) == []


def _at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def _fits_schema(document: Any) -> bool:
    try:
        schemas.validate(document, "bundle-manifest", "")
    except schemas.SchemaViolation:
        return False
    return True


def test_schema_versions() -> None:
    assert (
        "of a newer graphrepro (version 2, this reads 1)" in manifest_problems({**manifest(), "schema_version": 2})[0]
    )
    for version in (0, -1, None, True, "1"):
        assert manifest_problems({**manifest(), "schema_version": version}) == [
            "/schema_version: is not a version number"
        ]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff{}", "is not UTF-8"),
        (b'{"a": 1, "a": 1}', "holds a key twice"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": 123456789012345678901234567890}', "more than 64 bits"),
        (b'{"a": "\\ud800"}', "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "is not a bundle-manifest record"),
    ],
)
def test_manifest_that_cannot_be_read(small_bundle: bytes, raw: bytes, said: str) -> None:
    assert said in refusal(rezipped(small_bundle, lambda entries: entries.__setitem__(-1, (entries[-1][0], raw))))


# --- unpacking, and on its own ----------------------------------------------------------------------------------------


def test_extracts_into_an_empty_directory_only(small_bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(small_bundle)
    place = tmp_path / "unpacked"
    found = verify.extract(path, place)
    assert sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()) == [
        "ISSUE.md",
        "manifest.json",
        "repro.sh",
        "results/c/1/evidence/server.log",
        "verify.py",
    ]
    assert os.access(place / "repro.sh", os.X_OK)
    assert not os.access(place / "verify.py", os.X_OK)
    assert verify.verify_folder(place, found.digest).ok
    with pytest.raises(RefusedError, match="is not an empty directory"):
        verify.extract(path, place)


def test_nothing_is_written_of_what_does_not_verify(small_bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(small_bundle + b"x")
    with pytest.raises(RefusedError):
        verify.extract(path, tmp_path / "unpacked")
    path.write_bytes(small_bundle)
    with pytest.raises(RefusedError, match="another bundle"):
        verify.extract(path, tmp_path / "unpacked", "00" * 32)
    assert list(tmp_path.iterdir()) == [path]


def test_unpacked_folder(small_bundle: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(small_bundle)
    place = tmp_path / "unpacked"
    verify.extract(path, place)
    (place / "extra").write_text("x")
    (place / "repro.sh").write_text("#!/bin/sh\nfalse\n")
    problems = verify.verify_folder(place).problems
    assert any("'extra': is in the bundle and not in the manifest" in problem for problem in problems)
    assert any("'repro.sh': its SHA-256" in problem for problem in problems)
    (place / "link").symlink_to(place / "repro.sh")
    assert "is no plain file" in verify.verify_folder(place).problems[0]
    assert "has no manifest.json" in verify.verify_folder(tmp_path / "nothing").problems[0]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=60)


def test_program_needs_nothing_but_python(bundle_of: Callable[..., bytes], tmp_path: Path) -> None:
    (tmp_path / "verify.py").write_bytes(PROGRAM.read_bytes())
    data = bundle_of({"verify.py": PROGRAM.read_bytes()})
    (tmp_path / "good.zip").write_bytes(data)
    (tmp_path / "bad.zip").write_bytes(data[:-1])
    digest = str(checked(Archive(data)).digest)
    good = run("verify.py", "good.zip", "--digest", digest, cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    assert f"digest {digest}" in good.stdout
    bad = run("verify.py", "bad.zip", cwd=tmp_path)
    assert (bad.returncode, bad.stdout.count("\n")) == (6, 1)
    assert run("verify.py", "missing.zip", cwd=tmp_path).returncode == 2
    verify.extract(tmp_path / "good.zip", tmp_path / "unpacked")
    assert run("verify.py", "--digest", digest, cwd=tmp_path / "unpacked").returncode == 0
    assert run("verify.py", "--digest", "00", cwd=tmp_path / "unpacked").returncode == 6


def test_program_keeps_to_python_3_10() -> None:
    import ast

    ast.parse(PROGRAM.read_text(encoding="utf-8"), feature_version=(3, 10))
    modules = {
        alias.name
        for node in ast.walk(ast.parse(PROGRAM.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert modules <= set(sys.stdlib_module_names)
