"""Redaction of everything that enters a bundle."""

from repro.redact.net import survivors
from repro.redact.policy import Policy, words_from
from repro.redact.redactor import Redactor, Shown

__all__ = ["Policy", "Redactor", "Shown", "survivors", "words_from"]
