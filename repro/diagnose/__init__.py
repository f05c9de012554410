"""Logs, exit status, kernel log and probes -> one diagnosis: what failed, where, cause or consequence, and what to do.

What lines mean is data (`repro/signatures.toml`); `docs/diagnosis.md` says how a diagnosis comes about.
"""

from repro.diagnose.entry import diagnose
from repro.diagnose.sources import Log

__all__ = ["Log", "diagnose"]
