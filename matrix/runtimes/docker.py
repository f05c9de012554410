"""The docker runtime: every attempt in a fresh container, with the attempt program and the engine in it."""

import contextlib
import hashlib
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import docker.errors

from matrix.runtimes.docker_cache import INSIDE, cache_environment, cache_name, ensure_volume, make_folders
from matrix.runtimes.docker_container import GPUS_LABEL, LABEL, PAYLOAD, ContainerSettings, Place, create_options
from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_gpus import Gpus
from matrix.runtimes.docker_handle import ContainerHandle, RefusedHandle, Started
from matrix.runtimes.docker_images import Image, find_image
from matrix.runtimes.docker_problems import DOCKER_ERRORS, problem_of
from matrix.runtimes.protocol import AttemptOrder, Ended, Handle
from repro.errors import UnavailableError

REFUSALS = 3
"""After so many containers in a row that could not be started, no other would be: the run stops."""


@dataclass(kw_only=True, slots=True)
class DockerRuntime:
    """``image`` serves every step that names none or its digest; another digest is looked up. ``grace_s`` is how long
    an attempt may take to stop its server when it is asked to."""

    daemon: Daemon
    image: Image
    settings: ContainerSettings
    gpus: Gpus
    payload: Path
    grace_s: float
    jit_cache: bool = True
    name: Literal["docker"] = "docker"
    on_owner_death: Literal["reap"] = "reap"
    _refused: int = 0
    _no_program: bool = False

    def placeholders(self) -> Mapping[str, str]:
        return {"python": self.settings.python, "payload": PAYLOAD}

    def environment(self, image: str | None) -> Mapping[str, str]:
        """The image's own variables, and where compiled kernels are kept."""
        cache = cache_environment() if self.jit_cache else {}
        return {**self._image(image).environment, **cache}

    def reap_leftovers(self, prefix: str) -> int:
        """Removes containers whose label starts with the prefix. Only for a prefix whose owner is known to be dead.

        One that cannot be removed keeps its GPUs, and no attempt gets those. Raises UnavailableError if no daemon
        answers."""
        found, stuck = self.daemon.remove_labelled(prefix)
        for container in stuck:
            held = container["Labels"].get(GPUS_LABEL, "")
            self.gpus.quarantine([gpu for gpu in held.split(",") if gpu], container["Names"][0].lstrip("/"))
        return found

    @contextmanager
    def start(self, order: AttemptOrder) -> Iterator[Handle]:
        gpus = self.gpus.take()
        if self._no_program:
            raise UnavailableError(
                f"image {self.image.digest}: no {self.settings.python} in it: name its --image-python"
            )
        try:
            started = self._start(order, gpus)
        except DOCKER_ERRORS as error:
            yield RefusedHandle(self._refusal(error))
            return
        self._refused = 0
        handle = ContainerHandle(self.daemon, started, grace_s=self.grace_s)
        try:
            yield handle
        finally:
            handle.finish()
            if handle.abandoned:
                self.gpus.quarantine(gpus, started.name)
            self._no_program = handle.no_program

    def _image(self, digest: str | None) -> Image:
        if digest is None or digest in {self.image.digest, self.image.id}:
            return self.image
        return find_image(self.daemon, digest)

    def _refusal(self, error: BaseException) -> Ended:
        """How an attempt ends that could not be started. Raises UnavailableError if no other could be either."""
        problem = problem_of(error)
        self._refused += 1
        if problem.for_all or self._refused >= REFUSALS:
            raise UnavailableError(f"docker: {problem}") from None
        return Ended(status=None, detail=f"{problem.kind}: {problem}", reason="runtime_error")

    def _start(self, order: AttemptOrder, gpus: tuple[str, ...]) -> Started:
        """Makes the container and starts it. Raises what the SDK raises, and leaves nothing then."""
        image = self._image(order.image)
        cache = (cache_name(image.id, self.settings.user), INSIDE) if self.jit_cache else None
        place = Place(
            name=container_name(order.label),
            label=order.label,
            image_id=image.id,
            directory=order.directory.absolute(),
            payload=self.payload.absolute(),
            gpus=gpus,
            cache=cache,
        )
        since = time.time()
        if cache is not None:
            self.daemon.patiently(lambda: ensure_volume(self.daemon, cache[0], image.id))
        container = self._create(place)
        try:
            if cache is not None:
                make_folders(self.daemon, container, self.settings.user)
            hang_up = self._attach(container)
            self.daemon.api.start(container)
        except BaseException:
            with contextlib.suppress(*DOCKER_ERRORS):
                self.daemon.api.remove_container(container, force=True, v=True)
            raise
        return Started(
            id=container,
            name=place.name,
            directory=order.directory,
            since=since,
            hang_up=hang_up,
            limit_s=order.limit_s,
            memory_bytes=self.settings.memory_bytes,
        )

    def _create(self, place: Place) -> str:
        """The new container's id. One of the same name and label is what a dead harness left, and makes way."""
        options = create_options(place, self.settings, api_version=self.daemon.api_version)
        try:
            made = self.daemon.patiently(lambda: self.daemon.api.create_container(**options))
        except docker.errors.APIError as error:
            if problem_of(error).kind != "name_conflict" or not self._ours(place):
                raise
            self.daemon.api.remove_container(place.name, force=True, v=True)
            made = self.daemon.api.create_container(**options)
        return str(made["Id"])

    def _ours(self, place: Place) -> bool:
        try:
            there = self.daemon.api.inspect_container(place.name)
        except docker.errors.NotFound:
            return True
        return bool((there["Config"]["Labels"] or {}).get(LABEL) == place.label)

    def _attach(self, container: str) -> Callable[[], None]:
        """Holds the container's stdin open for as long as this process lives. The daemon closes it when the connection
        ends, however that comes: the attempt program's owner pipe. Returns what closes it."""
        attached = self.daemon.api.attach_socket(container, params={"stdin": 1, "stream": 1})
        line = attached if isinstance(attached, socket.socket) else getattr(attached, "_sock", attached)

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()
            attached.close()

        return hang_up


def container_name(label: str) -> str:
    """A name that docker takes, and that is the label's own: cell ids may hold what names may not."""
    readable = re.sub(r"[^a-zA-Z0-9_.-]+", "-", "-".join(label.split("/")[1:]))
    return f"graphrepro-{readable[:100]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
