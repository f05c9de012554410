"""One statement about the configuration that really ran, and the sources in which statements are looked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from matrix.engines.readback import LogFacts, Passes
from repro.model import Expectation, Proof, Scalar

INFO = "/server_info"
LOG = "server.log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    expectation: Expectation
    info: object
    log: LogFacts
    passes: Passes | None
    argv: Sequence[str]


def judged(fact: str, expected: Scalar, observed: Scalar, source: str) -> Proof:
    """Proven if they agree or nothing is expected, contradicted otherwise."""
    agrees = expected is None or expected == observed
    return Proof(
        fact=fact,
        expected=expected,
        observed=observed,
        state="proven" if agrees else "contradicted",
        source=source,
    )


def unknown(fact: str, expected: Scalar, looked_in: str) -> Proof:
    return Proof(fact=fact, expected=expected, observed=None, state="unknown", source=looked_in)
