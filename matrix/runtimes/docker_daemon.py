"""The connection to a docker daemon, that outlasts a restart of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import docker
import docker.errors
from docker.utils import kwargs_from_env

from matrix.runtimes.docker_container import LABEL
from matrix.runtimes.docker_problems import DOCKER_ERRORS, no_contact, problem_of
from repro.errors import UnavailableError

T = TypeVar("T")

CALL_S = 120
"""No call to a daemon that is well takes longer; the start of a container with eight GPUs takes some seconds."""
RETURN_S = 90.0
"""How long a daemon may be away: systemd gives one 90 s to stop, and starts it again within seconds."""
PAUSE_S = 0.25


class Daemon:
    """A docker daemon. Calls go through `api`, docker's low-level client."""

    def __init__(self, api: docker.APIClient, *, return_s: float = RETURN_S) -> None:
        self.api = api
        self.return_s = return_s

    @property
    def api_version(self) -> str:
        return str(self.api.api_version)

    def patiently(self, call: Callable[[], T]) -> T:
        """What the call returns. While the daemon does not answer, it is called again; a refusal is raised at once, and
        in the end the last error."""
        until = time.monotonic() + self.return_s
        while True:
            try:
                return call()
            except DOCKER_ERRORS as error:
                if not no_contact(error) or time.monotonic() > until:
                    raise
            time.sleep(PAUSE_S)

    def answers(self) -> bool:
        try:
            return bool(self.api.ping())
        except DOCKER_ERRORS:
            return False

    def info(self) -> Mapping[str, Any]:
        """What the daemon says of itself. Raises UnavailableError if it does not answer."""
        try:
            told: Mapping[str, Any] = self.patiently(self.api.info)
        except DOCKER_ERRORS as error:
            raise UnavailableError(f"docker: {problem_of(error)}") from None
        return told

    def remove_labelled(self, prefix: str) -> tuple[int, list[Mapping[str, Any]]]:
        """Removes our containers with the prefix: (how many there were, those that could not be removed).

        Raises UnavailableError if the daemon does not answer."""
        try:
            found = self.patiently(lambda: self.labelled(prefix))
        except DOCKER_ERRORS as error:
            raise UnavailableError(f"docker: {problem_of(error)}") from None
        stuck = []
        for container in found:
            try:
                self.api.remove_container(container["Id"], force=True, v=True)
            except docker.errors.NotFound:
                continue
            except DOCKER_ERRORS:
                stuck.append(container)
        return len(found), stuck

    def labelled(self, prefix: str) -> list[Mapping[str, Any]]:
        """Our containers, running or not, whose label is the prefix, or starts with it and goes on with a slash."""
        listed: Sequence[Mapping[str, Any]] = self.api.containers(all=True, filters={"label": [LABEL]})
        begin = prefix.rstrip("/") + "/"
        return [c for c in listed if (label := c["Labels"].get(LABEL, "")) == prefix or label.startswith(begin)]


def connect(environment: Mapping[str, str], *, return_s: float = RETURN_S) -> Daemon:
    """The daemon that the variables DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH name, or the one at docker's
    usual socket.

    Raises UnavailableError, with what to do, if none answers or it will not speak to this user.
    """
    try:
        where = kwargs_from_env(environment=dict(environment))
        return Daemon(docker.APIClient(version="auto", timeout=CALL_S, **where), return_s=return_s)
    except DOCKER_ERRORS as error:
        raise UnavailableError(f"docker: {problem_of(error)}") from None
