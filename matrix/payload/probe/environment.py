"""All probes together: the content of `environment.json`."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from probe import changes, gpus, machine, packages
from probe.facts import Fact, gather, unknown

IMAGE_VARIABLE = "GRAPHREPRO_IMAGE_DIGEST"


def describe() -> dict[str, Any]:
    """`facts` (name -> value, status, reason) and `packages` (name -> version). Never raises, takes about a second
    without GPUs (the engine's files are hashed); each call of nvidia-smi has a limit of its own."""
    versions = packages.installed()
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(gather, gpus.NAMES, gpus.gpus),
            pool.submit(gather, ("cuda_driver",), gpus.driver_cuda),
            pool.submit(gather, ("gpu_topology",), gpus.topology),
            pool.submit(gather, ("engine_patches",), changes.engine_patches),
        ]
        facts: dict[str, Fact] = {}
        for name in packages.NAMED:
            facts |= gather((name,), lambda name=name: packages.version(versions, name))  # type: ignore[misc]
        facts |= gather(("nccl",), lambda: packages.nccl(versions))
        facts |= gather(("cuda_toolkit",), lambda: packages.torch_cuda(versions))
        facts |= gather(("python", "kernel", "machine", "libc"), machine.system)
        facts |= gather(("os",), machine.distribution)
        facts |= gather(("cpu_model", "cpu_count"), machine.processor)
        facts |= gather(("memory_mib",), machine.memory)
        facts |= gather(("shm_mib",), machine.shared_memory)
        facts |= gather(("ulimit_nofile", "ulimit_memlock", "ulimit_stack", "ulimit_core"), machine.limits)
        facts["image_digest"] = _image_digest(os.environ)
        for answer in asked:
            facts |= answer.result()
    return {"facts": {name: fact.fields() for name, fact in sorted(facts.items())}, "packages": versions}


def _image_digest(environment: Mapping[str, str]) -> Fact:
    """The one fact that is told to the probe: an image does not know its own digest."""
    digest = environment.get(IMAGE_VARIABLE)
    if not digest:
        return unknown("not run from an image, as far as the environment tells")
    return Fact(value=digest, status="declared", reason=None)
