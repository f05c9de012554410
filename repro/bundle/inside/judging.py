"""What one launch of a replay was: the bundle's failure, another one, none, or nothing that counts.

Read from what the attempt program leaves (`timeline.jsonl`, `server.log`, `checks/*.json`) and decided by the bundle's
`expectation.json` and `oracle.json`. Standard library only, Python 3.10 and newer: this file is part of every bundle.
"""

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator  # noqa: TC003
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLOOR = 1.01
"""At or below so many tokens a verify step nothing that was drafted is accepted."""
FEWEST_STEPS = 10
"""With fewer verify steps the floor may be the end of an answer."""
LONGEST_LINE_BYTES = 4096
MATCHING_S = 60.0
"""In so long all patterns are looked for in the largest log that is kept, many times over."""
USAGE = 2
"""The exit status with which a program refuses its command line."""
FAILED = {"crashed", "hung", "oom", "killed", "refused"}
_CONTENT_CHECKS = ("lossless", "throughput", "load")
_TELLING = re.compile(r"[Ee]rror|ERROR|[Ee]xception|Fatal|fatal|crashed|[Tt]imeout|Killed|unrecognized|assert")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TAIL_BYTES = 1 << 18


@dataclass(frozen=True)
class End:
    """How a launch ended. ``how``: `died` (unasked), `hung` (a phase or a check ran into its limit), `completed`, or
    `void`, which says nothing about the server. ``phase`` is the one it was in; ``status`` is the launcher's exit
    status, negative for a signal, None if it lived or nobody knows."""

    how: str
    phase: str
    status: "int | None"
    detail: str


@dataclass(frozen=True)
class Answers:
    """What the requests of a launch brought. ``differing`` counts prompts with an answer other than the reference's,
    ``compared`` those that could be compared; ``acceptance`` is tokens per verify step over ``steps`` of them."""

    requests: int
    failed: int
    empty: int
    compared: int
    differing: int
    acceptance: "float | None"
    steps: int
    incomplete: "str | None"


class PatternError(Exception):
    """A pattern of the bundle cannot be looked for; one line."""


@dataclass(frozen=True)
class Judged:
    """``state`` and ``outcome`` as a `replay` record has them."""

    state: str
    outcome: str
    detail: str


def judge(folder: Path, expectation: "dict[str, Any]", oracle: "dict[str, Any] | None") -> Judged:
    """What the launch in the folder was. Never raises for what the evidence holds."""
    end = end_of(folder)
    if end.how == "void":
        return Judged("void", "runtime_error", end.detail)
    if end.how == "completed":
        return _judge_completed(answers_of(folder, oracle), expectation)
    try:
        return _judge_failed(folder, end, expectation)
    except PatternError as problem:
        return Judged("void", "hung" if end.how == "hung" else "crashed", str(problem))


def end_of(folder: Path) -> End:
    """How the launch ended, from its timeline."""
    timeline = read_timeline(folder / "evidence" / "timeline.jsonl")
    phase = "launch"
    for entry in timeline:
        found = _decided(entry, phase, timeline)
        if found is not None:
            return found
        if entry.get("event") == "phase-begun":
            if entry.get("phase") == "shutdown":
                break
            phase = str(entry.get("phase"))
    events = {entry.get("event") for entry in timeline}
    if "attempt-ended" not in events:
        return End("void", phase, None, "the attempt program did not come to its end")
    if "server-exited" not in events:
        return End("void", phase, None, "nobody saw the server end")
    return End("completed", phase, 0, "the server started, answered and stopped")


def _decided(entry: "dict[str, Any]", phase: str, timeline: "list[dict[str, Any]]") -> "End | None":
    """The end that this entry means; None if it means none."""
    event, detail = entry.get("event"), str(entry.get("detail") or "")
    if event in ("port-taken", "not-started"):
        return End("void", "none", None, f"{event}: {detail}")
    if event == "interrupted":
        return End("void", phase, None, f"the launch was ended from outside: {detail}")
    if event == "phase-limit":
        status = next((e.get("status") for e in timeline if e.get("event") == "server-exited"), None)
        return End("hung", str(entry.get("phase") or phase), status, detail)
    if event == "server-exited":
        return End("died", phase, entry.get("status"), f"the server ended with status {entry.get('status')}")
    return None


def read_timeline(path: Path) -> "list[dict[str, Any]]":
    """The entries in order; a last line that a kill cut off, or what is no entry, is left out."""
    entries = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def answers_of(folder: Path, oracle: "dict[str, Any] | None") -> Answers:
    """What all requests of the launch's checks brought, beside the reference's ids where the oracle has them."""
    expected = expected_ids(oracle)
    compared: set[str] = set()
    differing: set[str] = set()
    requests = failed = empty = tokens = steps = 0
    incomplete = None
    for path in sorted((folder / "evidence" / "checks").glob("*.json")):
        check = _document(path)
        if not check.get("complete", False):
            incomplete = incomplete or f"{path.stem}: {check.get('stopped_because') or 'cannot be read'}"
        for request in check.get("requests", ()):
            ids, name = request.get("output_ids") or [], path.stem
            requests += 1
            failed += request.get("error") is not None
            empty += request.get("error") is None and name in _CONTENT_CHECKS and not ids
            if request.get("error") is not None or not ids:
                continue
            prompt = str(request.get("prompt"))
            if name in _CONTENT_CHECKS and prompt in expected:
                compared.add(prompt)
                if differs(ids, expected[prompt], may_be_cut=bool(request.get("cancelled")) or name == "load"):
                    differing.add(prompt)
            if name == "lossless" and request.get("verify_calls") and request.get("margins") is None:
                steps += int(request["verify_calls"])
                tokens += len(ids) - 1
    acceptance = tokens / steps if steps else None
    return Answers(requests, failed, empty, len(compared), len(differing), acceptance, steps, incomplete)


def expected_ids(oracle: "dict[str, Any] | None") -> "dict[str, list[int]]":
    """Prompt -> the reference's ids: the longest that the oracle holds for it. Zeros alone stand for ids withheld."""
    found: dict[str, list[int]] = {}
    for answer in (oracle or {}).get("answers", ()):
        ids = answer.get("expected_ids") or []
        if any(ids) and len(ids) > len(found.get(answer["prompt"], ())):
            found[answer["prompt"]] = ids
    return found


def differs(ids: "list[int]", expected: "list[int]", *, may_be_cut: bool) -> bool:
    """Whether an answer leaves the reference's; one that may be cut off early is held against its beginning."""
    shorter = min(len(ids), len(expected))
    return ids[:shorter] != expected[:shorter] or (not may_be_cut and len(ids) != len(expected))


def first_lines(log: Path, patterns: "list[str]") -> "list[str | None]":
    """For each pattern the first line of the log that it matches; None if there is none.

    Raises `PatternError` for what is no regular expression, or one that takes for ever on a line of this log."""
    try:
        compiled = [expression(pattern) for pattern in patterns]
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"a pattern of the bundle is no regular expression: {error}") from None
    found: list[str | None] = [None] * len(patterns)
    try:
        with _limited(MATCHING_S), log.open("rb") as stream:
            for raw in iter(lambda: stream.readline(1 << 16), b""):
                line = _COLOURS.sub("", raw[:LONGEST_LINE_BYTES].decode("utf-8", "replace")).rstrip()
                for place, pattern in enumerate(compiled):
                    if found[place] is None and pattern.search(line):
                        found[place] = line
                if None not in found:
                    break
    except OSError:
        pass
    return found


def expression(pattern: str) -> "re.Pattern[str]":
    """The pattern, compiled. Raises re.error, OverflowError or RecursionError for what is none."""
    return re.compile(pattern)


@contextlib.contextmanager
def _limited(limit_s: float) -> "Iterator[None]":
    """Ends a search that goes on for ever: a pattern is somebody else's, and so is the log. `re` lets signals through,
    and signals come to the main thread alone. An alarm that was set before goes off after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_number: int, _frame: object) -> None:
        raise PatternError(f"a pattern of the bundle was looked for in the log for {limit_s:.0f} s, without an end")

    handler, begun = signal.signal(signal.SIGALRM, over), time.monotonic()
    rest_s, interval_s = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if rest_s:
            signal.setitimer(signal.ITIMER_REAL, max(rest_s - (time.monotonic() - begun), 0.001), interval_s)


def _judge_failed(folder: Path, end: End, expectation: "dict[str, Any]") -> Judged:
    log = folder / "evidence" / "server.log"
    wanted = FAILED.intersection(expectation["outcomes"])
    patterns = [entry["pattern"] for entry in expectation["patterns"]]
    lines = first_lines(log, patterns)
    missing = [entry["says"] for entry, line in zip(expectation["patterns"], lines) if line is None]  # noqa: B905
    # A server's own watchdog ends what hangs, and a server that dies may first hang: where lines of the log tell the
    # failure, they decide; where none does, the way it ended.
    fits = bool(wanted) if patterns else end.how == "hung" if "hung" in wanted else bool(wanted) and end.how == "died"
    place = f"{'hung' if end.how == 'hung' else 'died'} in {end.phase} ({end.detail})"
    if fits and not missing and end.phase in (expectation["phases"] or [end.phase]):
        said = next((line for line in lines if line), None)
        outcome = next(name for name in expectation["outcomes"] if name in wanted)
        return Judged("reproduced", outcome, f"{place}{': ' + said.strip()[:200] if said else ''}")
    outcome = "hung" if end.how == "hung" else "crashed"
    if end.how == "died" and end.phase == "launch" and end.status == USAGE:
        outcome = "refused"
    said = last_telling_line(log)
    without = f"; not in its log: {missing[0]}" if fits and missing else ""
    return Judged("another_failure", outcome, f"{place}{': ' + said if said else ''}{without}")


def _judge_completed(answers: Answers, expectation: "dict[str, Any]") -> Judged:
    rules = content_rules(answers, expectation) if "completed" in expectation["outcomes"] else []
    if rules and all(holds for holds, _ in rules):
        state, detail = "reproduced", "; ".join(words for _, words in rules)
    else:
        other, unseen = _another(answers, expectation), _unseen(answers, expectation, rules)
        state = "another_failure" if other else "void" if unseen else "clean"
        detail = other or unseen or "; ".join(words for _, words in rules) or _said(answers)
    return Judged(state, "completed", detail)


def content_rules(answers: Answers, expectation: "dict[str, Any]") -> "list[tuple[bool, str]]":
    """(whether it holds, in words) for each rule of the expectation about a launch that came to its end."""
    rules = []
    least, most = expectation["differing_prompts"], expectation["acceptance_at_most"]
    if least is not None:
        rules.append((answers.differing >= least, _differing(answers)))
    if most is not None and answers.acceptance is not None:
        words = f"{answers.acceptance:.2f} tokens per verify step over {answers.steps} steps"
        rules.append((answers.acceptance <= most and answers.steps >= FEWEST_STEPS, words))
    if expectation["kind"] == "no_tokens":
        rules.append((answers.empty > 0, f"{answers.empty} of {answers.requests} requests brought no token"))
    if expectation["kind"] == "requests_failed":
        rules.append((answers.failed > 0, f"{answers.failed} of {answers.requests} requests failed"))
    return rules


def _another(answers: Answers, expectation: "dict[str, Any]") -> "str | None":
    """What else is wrong with a launch that did not show the bundle's failure; None if nothing is seen."""
    if answers.empty:
        return f"{answers.empty} of {answers.requests} requests succeeded and brought no token"
    if answers.incomplete is not None:
        return None
    if answers.failed:
        return f"{answers.failed} of {answers.requests} requests failed"
    if expectation["differing_prompts"] is None and answers.differing >= max(1, answers.compared / 2):
        return _differing(answers)
    at_floor = answers.acceptance is not None and answers.acceptance <= FLOOR and answers.steps >= FEWEST_STEPS
    if expectation["acceptance_at_most"] is None and at_floor:
        return f"{answers.acceptance:.2f} tokens per verify step: nothing that was drafted is accepted"
    return None


def _unseen(answers: Answers, expectation: "dict[str, Any]", rules: "list[tuple[bool, str]]") -> "str | None":
    """Why a launch without a failure does not show that there is none; None if it does."""
    if answers.incomplete is not None:
        return f"the launch was not seen through: {answers.incomplete}"
    if "completed" not in expectation["outcomes"]:
        return None
    if not rules:
        return str(expectation["undecided"] or "nothing of the launch tells the bundle's failure")
    if expectation["differing_prompts"] is not None and not answers.compared:
        return "no answer could be compared with the reference's"
    return None


def _differing(answers: Answers) -> str:
    return f"{answers.differing} of {answers.compared} prompts answered otherwise than the reference"


def _said(answers: Answers) -> str:
    few = f"; {_differing(answers)}" if answers.differing else ""
    return f"the server started, answered {answers.requests} requests and stopped{few}"


def engine_version(folder: Path) -> "str | None":
    """What the server said its version is; None if it came to no answer."""
    version = _document(folder / "evidence" / "server_info_start.json").get("version")
    return version[:100] if isinstance(version, str) and version else None


def last_telling_line(log: Path) -> str:
    """The last line of the log's end that sounds like an error, at most 200 characters of it; empty if none does."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if _TELLING.search(line)), "")


def _document(path: Path) -> "dict[str, Any]":
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
