"""Facts about the machine and the model that only the host knows: declared by the spec, or read from the weights."""

import hashlib
from pathlib import Path

from matrix.spec import Spec
from repro.model import Fact

_READ_WHOLE_BYTES = 64 * 1024 * 1024
_WEIGHTS = ("*.safetensors", "*.bin", "*.json")


def declared_facts(spec: Spec, *, model: str, draft_model: str | None, payload: Path) -> dict[str, Fact]:
    """Facts for the comparability key. ``payload`` fills the placeholder of that name in the model paths."""
    hardware = spec.hardware
    facts = {
        "architecture": _declared(hardware.architecture),
        "gpu_count": _declared(hardware.gpu_count),
        "model": _declared(spec.model.name),
        "dtype": _declared(spec.model.dtype),
        "draft_model": _declared(spec.model.draft_name),
        "max_running_requests": _declared(spec.deployment.max_running_requests),
        "method_version": _declared(str(spec.load.method_version)),
        "model_digest": _digest(model.replace("{payload}", str(payload))),
    }
    if hardware.gpu_name:
        facts["gpu_name"] = _declared(hardware.gpu_name)
    if spec.model.draft_name:
        draft = (draft_model or f"{model}/drafter").replace("{payload}", str(payload))
        facts["draft_digest"] = _digest(draft)
    return facts


def _declared(value: str | int | None) -> Fact:
    if value is None:
        return Fact(value=None, status="unknown", reason="not stated in the spec")
    return Fact(value=value, status="declared", reason=None)


def _digest(folder: str) -> Fact:
    """A digest over names and contents of the weights. Files over 64 MiB count by name and size only, and the digest
    then says `sizes`: reading a terabyte before a run would cost more than it tells."""
    path = Path(folder)
    if not path.is_dir():
        return Fact(value=None, status="unknown", reason="the model is not a folder on this host")
    digest, kind = hashlib.sha256(), "sha256"
    for file in sorted({f for pattern in _WEIGHTS for f in path.glob(pattern) if f.is_file()}):
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        if size <= _READ_WHOLE_BYTES:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            kind = "sizes"
    return Fact(value=f"{kind}:{digest.hexdigest()}", status="verified", reason=None)
