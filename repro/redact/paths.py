"""Absolute paths: what is before the part that says which file of a package it is, and the users in it."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.models import named
from repro.redact.people import user
from repro.redact.places import _ENDPOINTS
from repro.redact.vocabulary import KEPT_FILE, PSEUDONYM, PUBLIC_MODEL, SYSTEM, TAIL

_COMPONENT = r"[\w@+~%=.,{}\[\]-]*[\w@+~%=}\]-]"
PATH = re.compile(
    rf"(?:(?<![\w/.)>\]}}*-])|(?<=file:/)(?<=/)|(?<=file://))/(?!/)(?:{_COMPONENT}/+)+(?:{_COMPONENT})?|(?<=-[IL])/(?:{_COMPONENT}/+)+(?:{_COMPONENT})?"
)
QUOTED = re.compile(
    r"(?<=[\"'`])(?P<path>/(?:home|Users|mnt|media|data|srv|nfs|export|scratch|lustre|gpfs|work|projects?|storage|Volumes)/[^\"'`\n\\]{1,400})(?=[\"'`])"
)
_HOME = re.compile(
    r"(?:^|(?<=/))(?:home|Users|users|user|people|staff|students|homes|u|personal|accounts)/(?P<user>[A-Za-z][\w.@-]*[A-Za-z0-9])(?=/|$)"
    r"|^/(?:scratch|work|lustre/scratch|gpfs/scratch|nfs/scratch|workdir|tmp/krb5cc|var/spool/mail|var/mail|fsx)/(?P<scratch>[A-Za-z][\w.-]*[A-Za-z0-9])(?=/|$)"
)
_WINDOWS = re.compile(
    r"(?<![A-Za-z0-9])(?P<drive>[A-Za-z]:(?:\\{1,2}|/)(?!/))(?P<rest>(?:[\w .@-]+(?:\\{1,2}|/))*[\w.@-]+)|(?<![\\\w])\\\\(?!\\)(?P<unc>[A-Za-z0-9][\w.-]+(?:\\[\w.$ -]+)+)"
)
_TILDE = re.compile(
    r"(?<![\w/])~(?:[a-z][\w.-]*)?/(?P<path>(?!\.(?:cache|triton|nv|local|config)\b)[\w.@-]+(?:/[\w.@-]+)*)"
)


def paths(text: str) -> Iterator[Find]:
    """The parts of paths that must not be shown. System paths stay, of others the package's part and file names that
    say nothing of their owner."""
    for found in PATH.finditer(text):
        yield from _path(found[0].rstrip(".,"), found.start())
    for found in QUOTED.finditer(text):
        if " " in found["path"]:
            yield from _path(found["path"], found.start("path"))
    for found in _WINDOWS.finditer(text):
        yield from _windows(found)
    for found in _TILDE.finditer(text):
        if not PSEUDONYM.match(found["path"]):
            yield from _below(found["path"], found.start("path"))


def whole(path: str, at: int) -> Iterator[Find]:
    """A value that is known to be a path, as that of a flag: one of a single part too; or the name of a model."""
    if "/" in path and not path.startswith(("/", ".", "~")):
        yield from named(path, at)
    if path.startswith("/") and not PSEUDONYM.match(path.lstrip("/")):
        if path.count("/") == 1 and len(path) > 1:
            yield Find(at, at + len(path), "path", path)
        else:
            yield from _path(path, at)


def _path(path: str, at: int) -> Iterator[Find]:
    for found in _HOME.finditer(path):
        name = found["user"] or found["scratch"]
        group = "user" if found["user"] else "scratch"
        if name and (find := user(name, at + found.start(group))) is not None:
            yield find
    bare = path.lstrip("/")
    if PSEUDONYM.match(bare) or not bare:
        return
    if SYSTEM.match(path) is not None:
        return
    if _is_request(path) or _is_no_path(path):
        return
    tail = TAIL.search(path)
    if tail:
        if tail.start() > 0:
            yield Find(at, at + tail.start(), "path", path[: tail.start()])
        return
    yield from _folder(path, at)


def _folder(path: str, at: int) -> Iterator[Find]:
    folder, _, name = path.rpartition("/")
    if not name:
        folder, name = path.rstrip("/"), ""
    if name and folder and (KEPT_FILE.fullmatch(name) or PUBLIC_MODEL.fullmatch(name)):
        yield Find(at, at + len(folder), "path", folder)
    else:
        end = len(path.rstrip("/"))
        yield Find(at, at + end, "path", path[:end])


def _is_request(path: str) -> bool:
    """True for the address within a server that a request names."""
    return bool(_ENDPOINTS.fullmatch(path)) or path.startswith("/v1/")


def _is_no_path(path: str) -> bool:
    if path.startswith("/,"):
        return True
    parts = [part for part in path.split("/") if part]
    return len(parts) < 2 or all(re.fullmatch(r"[\d.,%+=-]+[a-zA-Z]{0,3}", part) for part in parts)


def _windows(found: re.Match[str]) -> Iterator[Find]:
    if found["unc"]:
        yield Find(found.start(), found.end(), "path", found[0])
        return
    parts = re.split(r"\\+|/", found["rest"])
    if (
        len(parts) < 2
        or parts[0].lower() in {"windows", "program files", "program files (x86)"}
        or PSEUDONYM.fullmatch(parts[0])
    ):
        return
    if (
        parts[0].lower() == "users"
        and (find := user(parts[1], found.start("rest") + found["rest"].index(parts[1], 5))) is not None
    ):
        yield find
    name = parts[-1]
    end = found.end() - (len(name) + 1 if KEPT_FILE.fullmatch(name) else 0)
    yield Find(found.start("rest"), end, "path", found["rest"])


def _below(path: str, at: int) -> Iterator[Find]:
    folder, _, name = path.rpartition("/")
    if folder and KEPT_FILE.fullmatch(name):
        yield Find(at, at + len(folder), "path", folder)
    elif not KEPT_FILE.fullmatch(path):
        yield Find(at, at + len(path), "path", path)
