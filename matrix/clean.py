"""End what dead runs left behind: processes, containers and volumes that carry our label, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matrix.resolve import asks_tasks
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
    with_answers: list[str] = []
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
        elif _asked_tasks(directory):
            with_answers.append(label_prefix(directory.path))
    if with_answers and not in_containers:
        containers += _sandboxes(with_answers, environment)
    if in_containers:
        from matrix.runtimes.docker_cache import remove_caches
        from matrix.runtimes.docker_daemon import connect

        daemon = connect(environment)
        for prefix in (*in_containers, *with_answers):
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


def _asked_tasks(directory: store.RunDirectory) -> bool:
    """Whether answers of the run may have been run in containers, beside a server that ran in none."""
    try:
        return any(asks_tasks(step) for step in directory.plan().steps)
    except RecordError:
        return False


def _sandboxes(prefixes: list[str], environment: Mapping[str, str]) -> int:
    """Removes what is left of them; nothing where no daemon answers, since such a run needs none."""
    from matrix.runtimes.docker_daemon import connect

    try:
        daemon = connect(environment, return_s=0)
        return sum(daemon.remove_labelled(prefix)[0] for prefix in prefixes)
    except UnavailableError:
        return 0
