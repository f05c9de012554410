"""A bundle's replay from outside: verified, unpacked, run as a child with nothing of ours, and diagnosed afterwards.

The child is the `replay.py` of the bundle itself. It decides by the bundle's own rules; here its launches are diagnosed
as well and compared by signature, and where the two disagree, both are told.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, get_args

from repro import codec
from repro.bundle.inside import judging, launching
from repro.bundle.inside.verify import Archive, RefusedError, extract
from repro.bundle.records import REPLAYED, record_problem
from repro.canonical import sha256_file
from repro.causes import same_failure, unlocated
from repro.diagnose import Log, diagnose
from repro.errors import BundleError, InterruptedRunError, RecordError, SpecError, UnavailableError
from repro.jsontext import parse
from repro.model import BundleExpectation, Phase, Replay, ReplayLaunch, Signature

Tell = Callable[[str], None]
_INSIDE = Path(__file__).with_name("inside")
_OF_DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
_MOST_NAMED = 3
_NO_ANSWER = frozenset({129, 130})
"""Exit statuses of the bundle's `replay.py`: wrong usage, interrupted."""
_PHASES = frozenset(get_args(Phase))
_PATIENCE_S = 300.0
"""In so long a bundle's own `replay.py` has stopped any server and removed its container."""
_LONGEST_LINE_BYTES = 4000
_NO_CODE = frozenset({".json", ".md", ".sh"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a replay is to run on; None for what the bundle itself says. ``engine_env`` is an engine's environment with
    `bin/python`; ``script`` replaces that of the simulated engine; ``launches`` counts those that say something."""

    runtime: Literal["docker", "local"] | None = None
    launches: int | None = None
    engine_env: Path | None = None
    image: str | None = None
    model: str | None = None
    draft_model: str | None = None
    script: Path | None = None
    any_gpu: bool = False
    until_seen: bool = False


def replay(
    bundle: Path,
    asked: Asked | None = None,
    *,
    out: Path | None = None,
    digest: str | None = None,
    payload_root: Path | None = None,
    tell: Tell = lambda _text: None,
) -> Replay:
    """How the replay of the bundle (a file) went. ``out``, a directory that is not there or empty, keeps the unpacked
    bundle and the evidence; without it nothing is kept. ``payload_root`` is our own attempt program's folder, to say
    whether the bundle's is the same. ``tell`` gets progress, a line each.

    Raises `BundleError` if the bundle does not verify, `SpecError` for a place or script that cannot be used,
    `UnavailableError` if its replay gives no answer,
    `InterruptedRunError` when the user ends it.
    """
    usable(asked or Asked())
    with _place(out) as place:
        try:
            found = extract(bundle, place / "bundle", digest)
            problem = record_problem(Archive.read(bundle), REPLAYED)
            if problem is not None:
                raise RefusedError(problem)
        except RefusedError as refusal:
            raise BundleError(f"{bundle}: {refusal}") from None
        except OSError as error:
            raise UnavailableError(f"{bundle}: cannot be unpacked into {place} ({error.strerror or error})") from None
        code = code_of(place / "bundle", payload_root or own_payload())
        tell(f"digest {found.digest}; code out of the bundle now runs, with your rights: {code}")
        if out is None:
            tell("its evidence is removed afterwards: `repro replay --out DIR` keeps it")
        raw = _run(place, asked or Asked(), tell)
        return _diagnosed(raw, place, code)


def usable(asked: Asked) -> None:
    """Raises `SpecError` for what is not there, which a launch could only call a failure of the engine."""
    if asked.engine_env is not None and not (asked.engine_env / "bin" / "python").exists():
        raise SpecError(f"{asked.engine_env}: has no bin/python; give the folder of the engine's environment")
    if asked.script is None:
        return
    try:
        document = parse(asked.script.read_bytes(), str(asked.script))
    except OSError as error:
        raise SpecError(f"{asked.script}: cannot be read ({error.strerror}); give a script's file") from None
    except RecordError as problem:
        raise SpecError(str(problem)) from None
    if not isinstance(document, dict) or document.get("record") != "simulation":
        raise SpecError(f"{asked.script}: is no 'simulation' record; give a script of the simulated engine")


def code_of(bundle: Path, payload_root: Path | None) -> str:
    """Whether what runs out of an unpacked bundle is what this graphrepro has, in words."""
    pairs = [(path, bundle / path.name) for path in _INSIDE.glob("*.py") if path.name != "__init__.py"]
    known = {"payload", "results", "kernel", *(theirs.name for _, theirs in pairs)}
    places = [place for place in bundle.iterdir() if place.name not in known and place.suffix not in _NO_CODE]
    beside = [file for place in places for file in (place, *place.rglob("*")) if file.is_file()]
    unknown = sorted(file.relative_to(bundle).as_posix() for file in beside)  # an import could find it
    for theirs in sorted((bundle / "payload").rglob("*")):
        if theirs.is_file() and "__pycache__" not in theirs.parts:
            ours = payload_root / theirs.relative_to(bundle / "payload") if payload_root is not None else None
            if ours is not None and ours.is_file():
                pairs.append((ours, theirs))
            else:
                unknown.append(theirs.relative_to(bundle).as_posix())
    differing = [
        theirs.relative_to(bundle).as_posix()
        for ours, theirs in pairs
        if not theirs.is_file() or sha256_file(ours) != sha256_file(theirs)
    ]
    strange = [*differing, *unknown]
    if not strange:
        return "it is the code of this graphrepro"
    more = f" and {len(strange) - _MOST_NAMED} more" if len(strange) > _MOST_NAMED else ""
    return f"it is not the code of this graphrepro ({', '.join(strange[:_MOST_NAMED])}{more})"


def own_payload() -> Path | None:
    """The folder of the attempt program beside this package, found without importing it; None if it is not there."""
    found = importlib.util.find_spec("matrix")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return next((place for name in places if (place := Path(name) / "payload").is_dir()), None)


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    if out is None:
        place = Path(tempfile.mkdtemp(prefix="graphrepro-bundle-"))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        used = next(out.iterdir(), None) is not None
    except OSError as error:
        raise SpecError(f"{out}: cannot be used ({error.strerror}); give a new folder") from None
    if used:
        raise SpecError(f"{out}: is not empty; give a new folder")
    yield out.absolute()


def _run(place: Path, asked: Asked, tell: Tell) -> Replay:
    """Runs the bundle's own `replay.py` and reads its record, which is somebody else's text and validated as such."""
    ours, theirs = os.pipe()
    command = [sys.executable, "-I", str(place / "bundle" / "replay.py"), "--out", str(place / "replay")]
    environment = {**_environment(), launching.OWNER_FD: str(ours)}
    try:
        child = subprocess.Popen(
            [*command, *_words(asked)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(ours,),
            env=environment,
            cwd=place,
            start_new_session=True,
        )
    except OSError as error:
        os.close(theirs)
        raise UnavailableError(f"the bundle's replay.py cannot be started ({error.strerror})") from None
    finally:
        os.close(ours)
    assert child.stderr is not None  # noqa: S101  # it is a pipe
    said: list[str] = []
    reader = threading.Thread(target=_follow, args=(child.stderr, said, tell), daemon=True)
    reader.start()
    try:
        status = child.wait()
    except KeyboardInterrupt:
        raise InterruptedRunError("interrupted: the launch in flight was ended") from None
    finally:
        os.close(theirs)  # a child that still runs takes this for our death, and ends its launch
        _end(child)
        reader.join(_PATIENCE_S)
    if status in _NO_ANSWER or not (place / "replay" / "replay.json").is_file():
        raise UnavailableError(f"the bundle's replay.py ended with status {status}: {said[-1] if said else 'silent'}")
    return _read(place / "replay" / "replay.json", Replay)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Lets the child end its launch, and then ends the child and what it left in its group: its code is somebody
    else's. Who interrupts a second time need not wait for it."""
    try:
        child.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _follow(stream: IO[bytes], said: list[str], tell: Tell) -> None:
    for raw in iter(lambda: stream.readline(_LONGEST_LINE_BYTES), b""):
        line = raw.decode("utf-8", "replace").rstrip()
        said[:] = [line]
        tell(line.removeprefix("replay: "))


def _words(asked: Asked) -> list[str]:
    """The options of the bundle's `replay.py`."""
    python = None if asked.engine_env is None else asked.engine_env.absolute() / "bin" / "python"
    values = {
        "runtime": asked.runtime,
        "launches": asked.launches,
        "python": python,
        "image": asked.image,
        "model": asked.model,
        "draft-model": asked.draft_model,
        "script": asked.script and asked.script.absolute(),
    }
    given = [f"--{name}={_absolute(value)}" for name, value in values.items() if value is not None]
    flags = (("--any-gpu", asked.any_gpu), ("--until-seen", asked.until_seen))
    return [*given, *(flag for flag, wanted in flags if wanted)]


def _absolute(value: object) -> str:
    """A folder that is there by its absolute path, since the child runs elsewhere; all else as it is."""
    text = str(value)
    return str(Path(text).absolute()) if isinstance(value, str) and "/" in text and Path(text).exists() else text


def _environment() -> dict[str, str]:
    """What the child gets of our environment: places, and how docker is reached. No variable of ours can be a secret
    that it could send away."""
    kept = (*launching.KEPT, "PATH", *_OF_DOCKER)
    return {name: os.environ[name] for name in kept if name in os.environ}


def _diagnosed(raw: Replay, place: Path, code: str) -> Replay:
    """The record, with what our own diagnosis says of each launch."""
    expectation = _read(place / "bundle" / "expectation.json", BundleExpectation)
    seen = [_second_opinion(run, place / "replay" / "launches" / str(run.launch), expectation) for run in raw.runs]
    differing = sum(disagrees for _, disagrees in seen)
    more = (
        f"; graphrepro diagnoses {differing} of these launches otherwise than the bundle's rules" if differing else ""
    )
    return replace(
        raw,
        statement=raw.statement + more,
        runs=tuple(run for run, _ in seen),
        facts={**raw.facts, "code": code, "diagnosed_otherwise": differing},
    )


def _second_opinion(run: ReplayLaunch, folder: Path, expectation: BundleExpectation) -> tuple[ReplayLaunch, bool]:
    """The run with the signature that we diagnose, and whether that contradicts what the bundle's rules say of it."""
    signature = signature_of(folder)
    if signature is None:
        return run, False
    same = same_failure(signature, expectation.signature)
    comparable = expectation.signature.phase != "none" and run.state != "void"  # else it was not diagnosed from a log
    disagrees = comparable and same != (run.state == "reproduced")
    place = f"{signature.kind} in {signature.phase}"
    detail = f"{run.detail}; graphrepro's diagnosis: {place}, {'the same' if same else 'another'} failure"
    return replace(run, signature=signature, detail=detail if disagrees else run.detail), disagrees


def signature_of(folder: Path) -> Signature | None:
    """The signature of a launch that died or hung; None if it came to its end, or says nothing."""
    end = judging.end_of(folder)
    if end.how not in {"died", "hung"}:
        return None
    phase: Phase = end.phase if end.phase in _PHASES else "none"  # type: ignore[assignment]
    found = diagnose(
        [Log(path=folder / "evidence" / "server.log", name="evidence/server.log")],
        exit_status=end.status if end.how == "died" else None,
        phase=phase,
        timed_out=end.how == "hung",
        unasked=end.how == "died",
    )
    if found.kind not in {"ok", "unknown"}:
        return found.signature
    refused = end.how == "died" and end.phase == "launch" and end.status == judging.USAGE
    return unlocated("hung" if end.how == "hung" else "refused" if refused else "crashed")


def _read(path: Path, kind: type[codec.T]) -> codec.T:
    try:
        return codec.read(path, kind, where=path.name)
    except RecordError as problem:
        raise BundleError(f"the bundle's own {problem}") from None
