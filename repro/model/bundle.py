"""Bundles: what an archive holds, how its replay went, and the ledger of failures that are asked about again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from repro.model.result import Signature
from repro.model.words import CheckName, Outcome, Scalar


@dataclass(frozen=True, kw_only=True, slots=True)
class BundledFile:
    """``path`` within the bundle, with ``/`` between its parts. ``cut`` says in words what was left out of the file,
    None for a whole one."""

    path: str
    size_bytes: int
    sha256: str
    cut: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Evidence that stays where it is: too large, dropped to fit, or not to be shared. ``where`` is a path relative to
    the results directory."""

    where: str
    size_bytes: int
    sha256: str | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Redaction:
    """``count`` texts of one class were replaced in ``files`` files; the texts themselves are nowhere in the bundle.
    ``pseudonyms`` counts the different names given, such as `host-1`."""

    category: str
    count: int
    files: int
    pseudonyms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What a bundle reproduces: a finding, or a cell. ``cells`` and their ``attempts`` are those it holds."""

    finding: str | None
    target: str
    architecture: str | None
    cells: tuple[str, ...]
    attempts: tuple[str, ...]
    signature: Signature
    engine: str
    engine_version: str | None
    engine_source: str
    image: str | None
    planted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """`manifest.json` of a bundle. ``digest`` is over the paths and hashes of all files but the manifest and
    `ISSUE.md`, which quotes it."""

    tool_version: str
    subject: Subject
    digest: str
    files: tuple[BundledFile, ...]
    left_out: tuple[LeftOut, ...]
    redactions: tuple[Redaction, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPattern:
    """A regular expression of Python's `re` that a line of the server's log matches when the failure is there."""

    pattern: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleExpectation:
    """`expectation.json`: when a launch counts as having reproduced the failure, in terms that need no package.

    ``outcomes``: how the launch must end. ``patterns``: each must match a line of its log. ``differing_prompts``: at
    least so many prompts must be answered with other ids than `oracle.json` holds; None where content is no matter.
    ``acceptance_at_most``: tokens per verify step; None likewise. ``k`` of ``n`` launches did so where it was seen.
    """

    kind: str
    signature: Signature
    outcomes: tuple[Outcome, ...]
    patterns: tuple[LogPattern, ...]
    differing_prompts: int | None
    acceptance_at_most: float | None
    k: int
    n: int
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleAnswer:
    """One prompt and what both arms answered, in token ids. ``first_difference`` is an index into them, None where none
    differs; ``margin`` (nats) is the reference's own top-2 gap there."""

    prompt: str
    check: CheckName
    concurrency: int
    text: str | None
    input_ids: tuple[int, ...] | None
    expected_ids: tuple[int, ...]
    got_ids: tuple[int, ...]
    first_difference: int | None
    margin: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleOracle:
    """`oracle.json`: what the reference answered, and what the failing attempt did. Without a reference (both its
    fields None) ``expected_ids`` are empty."""

    reference_cell: str | None
    reference_attempt: int | None
    cell: str
    attempt: int
    answers: tuple[OracleAnswer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayLaunch:
    """One launch of a replay. ``state``: the failure of the bundle, another failure, none, or nothing that counts."""

    launch: int
    state: Literal["reproduced", "another_failure", "clean", "void"]
    outcome: Outcome
    signature: Signature | None
    detail: str
    wall_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """``reproduced`` of ``launches`` that count; ``upper`` is the exact one-sided 95 % bound on the probability of the
    failure when none was seen. ``blocked`` says why it could not run, None if it could. ``facts``: on what."""

    bundle_digest: str
    runtime: Literal["docker", "local"]
    image: str | None
    reproduced: int
    launches: int
    upper: float | None
    blocked: str | None
    statement: str
    runs: tuple[ReplayLaunch, ...]
    facts: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True, slots=True)
class BundleVerification:
    """What `verify` says. ``problems``: one line each; empty if the bundle is what its manifest says."""

    ok: bool
    digest: str | None
    files: int
    size_bytes: int
    problems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCheck:
    """One question asked again: a replay of an entry's bundle on an engine, on one architecture."""

    at: str
    architecture: str | None
    engine_version: str | None
    image: str | None
    reproduced: int
    launches: int
    another_failure: int
    upper: float | None
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """One failure. ``architectures`` are those it was seen on: it is closed only when all of them are clean.
    ``k`` of ``n``: the rate where it was first seen. ``bundle``: path relative to the ledger; ``bundle_sha256`` of the
    whole file."""

    id: str
    signature: Signature
    statement: str
    target: str
    architectures: tuple[str, ...]
    cells: tuple[str, ...]
    first_seen_at: str
    engine_versions_bad: tuple[str, ...]
    engine_versions_good: tuple[str, ...]
    k: int
    n: int
    bundle: str | None
    bundle_sha256: str | None
    issue: str | None
    status: Literal["open", "closed", "reopened"]
    checks: tuple[LedgerCheck, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """`ledger.json`, kept by the user beside their own code."""

    entries: tuple[LedgerEntry, ...]
