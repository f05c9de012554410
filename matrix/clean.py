"""End what dead runs left behind: processes, containers and volumes that carry our label, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matrix.run import label_prefix
from matrix.runtimes.local import end_labelled
from repro import store
from repro.errors import RecordError, UnavailableError


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """How many of each were ended or removed; ``stuck`` are containers that could not be."""

    processes: int
    containers: int
    volumes: int
    stuck: tuple[str, ...]


def clean(results_root: Path, environment: Mapping[str, str]) -> Cleaned:
    """A run that another graphrepro holds is left alone. Docker is asked only if a run here used it; ``environment``
    may name its daemon.

    Raises SpecError if there is no such results directory, UnavailableError if docker is to be asked and does not
    answer."""
    directories, _ = store.scan(results_root, None)
    in_containers: list[str] = []
    processes = containers = volumes = 0
    stuck: list[str] = []
    for directory in directories:
        try:
            with store.lock(directory.path):
                processes += end_labelled(label_prefix(directory.path))
        except UnavailableError:
            continue
        if _used_docker(directory):
            in_containers.append(label_prefix(directory.path))
    if in_containers:
        from matrix.runtimes.docker_cache import remove_caches
        from matrix.runtimes.docker_daemon import connect

        daemon = connect(environment)
        for prefix in in_containers:
            found, left = daemon.remove_labelled(prefix)
            containers += found - len(left)
            stuck += [str(container["Names"][0]).lstrip("/") for container in left]
        volumes = remove_caches(daemon)
    return Cleaned(processes=processes, containers=containers, volumes=volumes, stuck=tuple(stuck))


def _used_docker(directory: store.RunDirectory) -> bool:
    try:
        return directory.run().runtime == "docker"
    except RecordError:
        return True  # unreadable: look, the label decides
