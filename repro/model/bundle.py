"""Bundles: what an archive holds, how its replay went, and the ledger of failures that are asked about again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from repro.model.result import Fact, Signature
from repro.model.words import CheckName, Outcome, Phase, Scalar


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
    """`manifest.json` of a bundle, its last entry.

    ``digest`` is over the paths and hashes of all files but the manifest and `ISSUE.md`, which quotes it.
    ``archive_sha256`` is over the bytes of the archive before the manifest's own entry: a compressed stream can be
    changed without a change of what it unpacks to."""

    tool_version: str
    subject: Subject
    digest: str
    archive_sha256: str
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

    ``outcomes``: how the launch must end, and ``phases`` in which; empty for any. ``patterns``: each must match a line
    of its log. ``differing_prompts``: at least so many prompts must be answered with other ids than `oracle.json`
    holds; None where content is no matter. ``acceptance_at_most``: tokens per verify step; None likewise.
    ``undecided`` says why none of these can tell the failure; None if they can. ``k`` of ``n`` launches did so where it
    was seen.
    """

    kind: str
    signature: Signature
    outcomes: tuple[Outcome, ...]
    phases: tuple[Phase, ...]
    patterns: tuple[LogPattern, ...]
    differing_prompts: int | None
    acceptance_at_most: float | None
    undecided: str | None
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
class BundleNeeds:
    """`needs.json`: what a machine must have for a replay, and how its container is made.

    ``architecture`` as cells name it (`sm_103`, `cpu`, `sim`). ``runtime`` is the one it was seen in; ``image`` and
    ``image_python``, its interpreter, are None outside of containers. ``model`` and ``draft_model`` say in words which
    weights must be given; None if none must. ``modules``: what the engine's interpreter must be able to import.
    """

    architecture: str
    gpus: int
    runtime: Literal["docker", "local"]
    image: str | None
    image_python: str | None
    model: str | None
    draft_model: str | None
    modules: tuple[str, ...]
    ipc: Literal["private", "host"]
    shm_bytes: int
    ulimits: Mapping[str, int]


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
class PatchedFile:
    """A file of a package that is not the one its wheel brought. ``diff``: unified, from the wheel's to this one; None
    where the wheel's text is not at hand, or there is no such file on one side."""

    path: str
    state: Literal["changed", "added", "missing"]
    diff: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagePatches:
    """``reason`` says why ``files`` are not known, and is None exactly when they are."""

    package: str
    files: tuple[PatchedFile, ...]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """`environment.json` of a bundle: on what the failure was seen. ``container_flags`` is empty outside of containers;
    ``variables`` are those that the server was started with and that may leave."""

    facts: Mapping[str, Fact]
    packages: Mapping[str, str]
    patches: tuple[PackagePatches, ...]
    container_flags: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerBundle:
    """A bundle of an entry. ``path`` is relative to the ledger's folder, ``sha256`` of the whole file, ``digest`` that
    of its manifest. ``k`` of ``n`` launches showed the failure."""

    path: str
    sha256: str
    digest: str
    architecture: str | None
    engine_version: str | None
    image: str | None
    k: int
    n: int
    added_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCheck:
    """One question asked again: a replay of a bundle on an engine, on one architecture.

    ``needed``: launches that would have shown the failure with 95 % confidence at its old rate. ``upper``: the exact
    one-sided 95 % bound on its probability where it was not seen. ``other``: the failure seen in its place.
    """

    at: str
    bundle_sha256: str
    architecture: str | None
    engine_version: str | None
    image: str | None
    answer: Literal["still_there", "not_seen", "another_failure", "could_not_run"]
    reproduced: int
    launches: int
    another_failure: int
    void: int
    needed: int
    upper: float | None
    other: Signature | None
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """One failure. ``architectures`` are those it was seen on: it is closed only when all of them are clean.
    ``closed_at`` is given exactly when the status is `closed`."""

    id: str
    signature: Signature
    statement: str
    engine: str
    planted: bool
    targets: tuple[str, ...]
    architectures: tuple[str, ...]
    cells: tuple[str, ...]
    first_seen_at: str
    engine_versions_bad: tuple[str, ...]
    engine_versions_good: tuple[str, ...]
    bundles: tuple[LedgerBundle, ...]
    issue: str | None
    status: Literal["open", "closed", "reopened"]
    closed_at: str | None
    checks: tuple[LedgerCheck, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """`ledger.json`, kept by the user beside their own code."""

    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecheckAnswer:
    """What became of an entry. ``missing``: what still has to be clean before it is closed, a line each."""

    entry: str
    issue: str | None
    status_before: Literal["open", "closed", "reopened"]
    status: Literal["open", "closed", "reopened"]
    checks: tuple[LedgerCheck, ...]
    missing: tuple[str, ...]
    statement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Recheck:
    """What `recheck` says of each entry that it asked about."""

    answers: tuple[RecheckAnswer, ...]
