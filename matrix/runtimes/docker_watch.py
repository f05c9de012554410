"""Waits for the end of one container, also while its daemon is away."""

import threading
from typing import TYPE_CHECKING, Any

import docker.errors

from matrix.runtimes.docker_daemon import Daemon
from matrix.runtimes.docker_problems import DOCKER_ERRORS, no_contact

if TYPE_CHECKING:
    from collections.abc import Mapping


class Watch(threading.Thread):
    """``ended`` is set when the container is no longer running, or nothing more can be learned of it.

    ``state`` is then docker's `State` of it, None if that could not be learned: then ``gone`` says why, and
    ``removed`` is True if it was removed while it ran.
    ``code`` is the exit code if docker told it before the container was removed. ``contact_lost`` is set for good once
    the daemon did not answer.
    """

    def __init__(self, daemon: Daemon, container: str) -> None:
        super().__init__(name="graphrepro-watch", daemon=True)
        self._docker = daemon
        self._container = container
        self.ended = threading.Event()
        self.contact_lost = threading.Event()
        self.state: Mapping[str, Any] | None = None
        self.gone: str | None = None
        self.code: int | None = None
        self.removed = False

    def run(self) -> None:
        try:
            while not self._look():
                pass
        except docker.errors.NotFound:
            self.removed = True
            self.gone = "the container was removed by somebody else"
        except DOCKER_ERRORS as error:
            self.gone = f"the docker daemon did not come back: {error}"
        self.ended.set()

    def _look(self) -> bool:
        """Whether the container has ended. Raises what the daemon says if it came back, or never will."""
        try:
            self.code = int(self._docker.api.wait(self._container, timeout=None)["StatusCode"])
        except DOCKER_ERRORS as error:
            if not no_contact(error):
                raise
            self.contact_lost.set()
        state = self._docker.patiently(lambda: self._docker.api.inspect_container(self._container))["State"]
        if state["Running"]:
            return False
        self.state = state
        return True
