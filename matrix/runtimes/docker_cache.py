"""A volume for what engines compile at run time, shared between the attempts of one image.

A start that compiles its kernels takes minutes longer, so cells share them by default. A cache can hide a bug, or be
the bug: `--no-jit-cache` gives every attempt an empty one, and either choice is recorded.
"""

import io
import tarfile
from collections.abc import Mapping

import docker.errors

from matrix.runtimes.docker_daemon import Daemon

CACHE_LABEL = "graphrepro.jit-cache"
INSIDE = "/var/cache/graphrepro"
_FOLDERS: Mapping[str, str] = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "SGLANG_DG_CACHE_DIR": "deep_gemm",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variable -> folder. Triton's and torch's are in their documentation; DeepGEMM reads DG_JIT_CACHE_DIR, which SGLang
sets from its own; FlashInfer keeps `.cache/flashinfer` below its base; the driver's PTX cache is CUDA_CACHE_PATH."""


def cache_environment() -> dict[str, str]:
    return {variable: f"{INSIDE}/{folder}" for variable, folder in _FOLDERS.items()}


def cache_name(image_id: str, user: str | None) -> str:
    """The volume's name: kernels of one image are never another's, and files of one user not another's to write."""
    owner = (user or "image").replace(":", "-")
    return f"graphrepro-jit-{image_id.removeprefix('sha256:')[:16]}-{owner}"


def ensure_volume(daemon: Daemon, name: str, image_id: str) -> None:
    """Makes the volume; docker leaves one of that name as it is."""
    daemon.api.create_volume(name, labels={CACHE_LABEL: image_id})


def make_folders(daemon: Daemon, container: str, user: str | None) -> None:
    """Makes the volume's folders, as the attempt's user, through a container that has it and was not started.

    Each time, since a harness may have been killed between the volume and its folders; those that are there stay."""
    uid, _, gid = (user or "0:0").partition(":")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder in sorted(set(_FOLDERS.values())):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.uid, entry.gid = int(uid), int(gid or uid)
            archive.addfile(entry)
    daemon.api.put_archive(container, INSIDE, content.getvalue())


def remove_caches(daemon: Daemon) -> int:
    """Removes the volumes that no container uses. Returns how many were removed."""
    removed = 0
    for volume in daemon.api.volumes(filters={"label": [CACHE_LABEL]}).get("Volumes") or ():
        try:
            daemon.api.remove_volume(volume["Name"])
        except docker.errors.APIError as error:
            if error.status_code not in {404, 409}:
                raise
        else:
            removed += 1
    return removed
