"""Whose a name of a host is: the label under which its domain was registered."""

import re

from repro.redact.places import is_public
from repro.redact.vocabulary import MODULES, NO_HOST, NOBODY

_SECOND = frozenset("co com org net ac gov edu or ne go".split())
_PROVIDERS = re.compile(
    r"(?:.*\.)?(?:amazonaws\.com(?:\.cn)?|windows\.net|azure\.(?:com|net)|azmk8s\.io|azurecr\.io|cloudapp\.net|googleusercontent\.com|googleapis\.com|gserviceaccount\.com"
    r"|appspot\.com|run\.app|mongodb\.net|sentry\.io|office\.com|ngrok(?:-free)?\.(?:io|app|dev)|vercel\.app|netlify\.app|herokuapp\.com|slack\.com|discord\.com|wandb\.ai"
    r"|oraclecloud\.com|digitaloceanspaces\.com|cloudflarestorage\.com|r2\.dev|atlassian\.net|jfrog\.io|modal\.run|runpod\.(?:io|net)|anyscale\.com|databricks\.com|snowflakecomputing\.com"
    r"|datadoghq\.com|gmail\.com|googlemail\.com|outlook\.com|hotmail\.com|icloud\.com|yahoo\.com|qq\.com|163\.com|proton\.me|protonmail\.com|users\.noreply\.github\.com)"
)
"""Names below these are rented: the label before them is the provider's."""
_GENERIC = frozenset(
    "example internal cluster service services registry models weights compute storage backend frontend private company"
    " corporate corp intranet university institute cloud network systems domain sample localdomain inference serving training"
    " research production staging develop testing tensor python ubuntu github gitlab google docker router gateway monitoring"
    " prometheus grafana default namespace invalid server client worker scheduler detokenizer engine cache index simple packages".split()
)


def owner_of(host: str) -> str | None:
    """The name of whom a domain is (`gpu-7.corp.acme.example` -> `acme`), if it is no common word; else None."""
    name = host.lower().rstrip(".")
    if name.endswith(".svc.cluster.local") or ".svc." in f"{name}.":
        parts = name.split(".")
        owner = parts[1] if len(parts) > 2 else ""
    elif _PROVIDERS.fullmatch(name) or is_public(name):
        return None
    else:
        labels = name.split(".")
        if len(labels) > 2 and labels[-2] in _SECOND and len(labels[-1]) == 2:
            labels.pop()
        owner = labels[-2] if len(labels) > 1 else ""
    if owner in _GENERIC | MODULES | NO_HOST | NOBODY or not re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", owner):
        return None
    return owner if len(owner) >= 6 or (len(owner) >= 5 and re.search(r"[\d-]", owner)) else None
