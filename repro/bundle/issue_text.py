"""The sentences of `ISSUE.md`: what a person who files the bug would write, from the records alone."""

from collections.abc import Iterable, Mapping

from repro.bundle.contents import Contents
from repro.bundle.rivals import setting
from repro.escape import one_line
from repro.model import LedgerEntry, Replay, Result, Signature, Subject
from repro.shares import below, failed, launches, rate

_ACRONYMS = {
    "cuda": "CUDA", "gpu": "GPU", "oom": "out of memory", "nccl": "NCCL", "nvls": "NVLS", "nan": "NaN", "kv": "KV",
    "xid": "Xid", "ptx": "PTX", "ecc": "ECC", "abi": "ABI", "cdi": "CDI", "hf": "Hugging Face", "shm": "shared memory",
}  # fmt: skip
_PHASES: Mapping[str, str] = {
    "start": "while starting",
    "capture": "while capturing CUDA graphs",
    "serving": "while serving",
    "shutdown": "while shutting down",
}
_OUTCOMES: Mapping[str, str] = {
    "crashed": "The server crashes",
    "hung": "The server hangs",
    "oom": "The server runs out of memory",
    "completed": "The server answers, and what it answers is wrong",
}
_LONGEST_TITLE = 180
_ENGINES: Mapping[str, str] = {"sglang": "SGLang", "vllm": "vLLM", "simulated": "the simulated engine of graphrepro"}


def spoken(word: str) -> str:
    """A code as words: `cuda_illegal_memory_access` -> `CUDA illegal memory access`."""
    return " ".join(_ACRONYMS.get(part, part) for part in word.split("_"))


def engine_line(subject: Subject) -> str:
    """The first line: a stock release, or a patch and which."""
    version = _engine(subject.engine, subject.engine_version)
    source = subject.engine_source
    if subject.engine == "simulated":
        return f"Engine: {version}. It is a script, no inference engine: this is a test of the tool."
    if source == "stock":
        return f"Engine: stock release {version}, no patch."
    if source.startswith("pr") and source[2:].isdecimal():
        return f"Engine: {version} with an unmerged patch: pull request {source[2:]}. It is not a stock release."
    if source == "cpu-ddtree":
        return f"Engine: {version} with graphrepro's plugin cpu-ddtree (DDTREE for CPUs). It is not a stock release."
    return f"Engine: {version} with an unmerged patch: the build that is called {source}. It is not a stock release."


def _engine(name: str, version: str | None) -> str:
    spoken_name = _ENGINES.get(name, name)
    if version is None:
        return f"{spoken_name}, version not known"
    return f"{spoken_name}, version {version}" if name == "simulated" else f"{spoken_name} {version}"


def what(signature: Signature, result: Result) -> str:
    """`CUDA illegal memory access while capturing CUDA graphs in attention`, `GPU out of memory while serving`."""
    phase = _PHASES.get(signature.phase, "")
    code = signature.kind if signature.kind not in {"unknown", "ok"} else result.outcome
    if code.startswith("oom_gpu") and phase:  # oom_gpu_graph_capture: the phase is said anyway, and the memory
        kind, where = "GPU out of memory", ""
    else:
        kind, where = spoken(code), f"in {spoken(signature.subsystem)}" if signature.subsystem else ""
    return " ".join(part for part in (kind[:1].upper() + kind[1:], phase, where) if part)


def title(contents: Contents) -> str:
    """One line without the project's prefix."""
    result, subject = contents.first.result, contents.subject
    k, n = contents.k_of_n
    planted = "PLANTED FAULT (test): " if subject.planted else ""
    failure = "Nothing fails" if contents.healthy else what(subject.signature, result)
    return one_line(f"{planted}{failure}: {setting(result.coordinates)} ({k} of {launches(n)})", _LONGEST_TITLE)


def statement(contents: Contents) -> str:
    """What happens: the finding's own statement, or one made from the first attempt."""
    if contents.finding is not None:
        return contents.finding.statement
    result = contents.first.result
    if contents.healthy:
        return f"Nothing fails. {_told(contents)}"
    phase = _PHASES.get(contents.subject.signature.phase, "") if result.outcome != "completed" else ""
    return f"{_OUTCOMES.get(result.outcome, 'The launch fails')}{' ' + phase if phase else ''}: {_told(contents)}"


def expected(contents: Contents) -> str:
    """What should have happened instead."""
    result = contents.first.result
    if contents.healthy:
        return "Just this: every check passes."
    if _corrupt(contents):
        other = f" as {contents.reference.result.cell}" if contents.reference is not None else " as without speculation"
        return f"The same tokens{other} gives for the same prompts, at temperature 0."
    if contents.subject.signature.kind in {"accept_length_collapse", "acceptance_at_floor"}:
        return "Drafts that are accepted: more than one token a verify step."
    if result.outcome == "hung":
        return "Start, capture and every answer within their time limits."
    if result.outcome == "completed":
        return "Every check of the attempt passes."
    return "The server starts, answers every request of the checks, and ends when it is asked to."


def observed(contents: Contents) -> str:
    """The rate where it was seen, by cell if there are several."""
    k, n = contents.k_of_n
    if contents.healthy:
        return f"{failed(k, n)}."
    said = f"{rate(k, n)} of {_cells(contents.subject.cells)} failed. First launch: {_told(contents)}"
    return said[:1].upper() + said[1:]


def replayed(replay: Replay | None, file_name: str) -> str:
    """How the bundle did on its own before it left."""
    if replay is None:
        return f"{file_name} was packed without a replay: nobody has started it on its own yet."
    on = " in a container" if replay.runtime == "docker" else " without a container"
    if replay.blocked is not None:
        return f"Before it left, {file_name} could not be replayed{on}: {replay.blocked}"
    if not replay.launches:
        return f"Before it left, {file_name} was started on its own{on}: {replay.statement}"
    if replay.reproduced:
        said = f"reproduced the failure in {rate(replay.reproduced, replay.launches)}"
    else:
        said = f"did not reproduce the failure in {launches(replay.launches)}: {below(replay.launches)}"
    return f"Before it left, {file_name} was unpacked into an empty folder and started on its own{on}: it {said}."


def versions(contents: Contents, entry: LedgerEntry | None) -> tuple[str, ...]:
    """Engine versions on which these cells failed or did not: by launches, then what the ledger has seen since."""
    counted: dict[str, list[str]] = {}
    for result, verdict in contents.launches:
        if verdict.verdict in {"pass", "fail", "corrupt"}:
            name = f"{_engine(result.engine.name, result.engine.version)} ({result.engine.source})"
            counted.setdefault(name, []).append(verdict.verdict)
    lines: list[str] = []
    for name, verdicts in sorted(counted.items()):
        bad = sum(verdict != "pass" for verdict in verdicts)
        lines.append(f"{'bad' if bad else 'good so far'}: {name}: {failed(bad, len(verdicts))}")
    if entry is not None:
        lines += [f"bad, by the ledger: {version}" for version in entry.engine_versions_bad]
        lines += [f"good, by the ledger: {version}" for version in entry.engine_versions_good]
    if not any(line.startswith("good") for line in lines):
        lines.append("good: none is known; no other version was run")
    return tuple(lines)


def incidence(k: int, n: int) -> str:
    """`Once`, `Sometimes` or `Always`, as forms ask for it."""
    if n <= 1:
        return "Once"
    return "Always" if k == n else "Sometimes"


def impact(contents: Contents) -> str:
    """Of the choices in NCCL's form."""
    outcome = contents.first.result.outcome
    if _corrupt(contents):
        return "Data corruption"
    return "Application hang" if outcome == "hung" else "Application crash"


def _told(contents: Contents) -> str:
    """What the verdict of the first launch says; one with evidence hooks armed has none."""
    first = contents.first
    said = first.verdict.statement if first.verdict is not None else first.result.outcome_detail
    return said.removeprefix(f"{first.result.outcome}: ")


def _corrupt(contents: Contents) -> bool:
    verdict = contents.first.verdict
    return verdict is not None and verdict.verdict == "corrupt"


def _cells(cells: Iterable[str]) -> str:
    names = list(cells)
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
