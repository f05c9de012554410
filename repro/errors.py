"""One exception tree for the three programs; each class carries the process exit code that its failure ends with."""

from typing import ClassVar


class GraphreproError(Exception):
    """A failure with one clear line: what is wrong, where, and what to do next."""

    exit_code: ClassVar[int] = 1


class SpecError(GraphreproError):
    """A spec, a selection or an argument is wrong (exit 2)."""

    exit_code = 2


class NothingToRunError(GraphreproError):
    """The selection leaves no step that could run (exit 3)."""

    exit_code = 3


class UnavailableError(GraphreproError):
    """A runtime, an engine environment, a port or a GPU is missing (exit 4)."""

    exit_code = 4


class RecordError(GraphreproError):
    """A stored record or a piece of evidence is invalid (exit 5)."""

    exit_code = 5


class NewerRecordError(RecordError):
    """A record was written by a newer version of graphrepro than this one (exit 5)."""


class BundleError(GraphreproError):
    """A bundle does not verify (exit 6)."""

    exit_code = 6


class InterruptedRunError(GraphreproError):
    """The user ended the run (exit 130); what was finished is kept."""

    exit_code = 130
