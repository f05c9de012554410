"""Containers of the docker daemon that only answers (`fake_daemon.py`): each is a process of this host.

A start really starts the container's program, with its environment and its stdin, which ends when the attached client
goes. There is no isolation, no image and no GPU: where a bind mount would show a folder of the host under another
path, that path is replaced in the words of the program and in `step.json`, and put back when the program has ended.
"""

import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


@dataclass
class Container:
    id: str
    name: str
    config: dict[str, Any]
    stdin: tuple[int, int]
    process: "subprocess.Popen[bytes] | None" = None
    said: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def mounted(self, text: str) -> str:
        for mount in self.config["HostConfig"]["Mounts"]:
            if mount["Type"] == "bind":
                text = text.replace(mount["Target"], mount["Source"])
        return text

    def tell(self, action: str, **attributes: str) -> None:
        actor = {"ID": self.id, "Attributes": attributes}
        self.events.append({"Type": "container", "Action": action, "Actor": actor, "timeNano": time.time_ns()})

    def run(self) -> None:
        """Until the program has ended."""
        mounts = {mount["Target"]: Path(mount["Source"]) for mount in self.config["HostConfig"]["Mounts"]}
        step = mounts["/attempt"] / "step.json"
        original = step.read_text()
        step.write_text(self.mounted(original))
        self.process = subprocess.Popen(
            [self.mounted(word) for word in self.config["Entrypoint"]],
            env=dict(entry.split("=", 1) for entry in self.config["Env"]),
            cwd="/",
            stdin=self.stdin[0],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.tell("start")

        def follow(process: "subprocess.Popen[bytes]") -> None:
            self.said, _ = process.communicate()
            step.write_text(original)
            self.tell("die", exitCode=str(self.code))
            self.ended.set()

        threading.Thread(target=follow, args=(self.process,), daemon=True).start()

    def kill(self, number: int) -> None:
        if self.process is not None and not self.ended.is_set():
            self.tell("kill", signal=str(number))
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    @property
    def code(self) -> int:
        status = self.process.returncode if self.process is not None else 0
        return 128 - status if status is not None and status < 0 else status or 0

    @property
    def document(self) -> dict[str, Any]:
        running = self.process is not None and not self.ended.is_set()
        state = {"Running": running, "ExitCode": self.code, "OOMKilled": False, "Error": ""}
        return {"Id": self.id, "Name": f"/{self.name}", "State": state, "Config": self.config}


class Containers:
    """What a daemon is asked about containers and volumes."""

    def __init__(self) -> None:
        self.all: dict[str, Container] = {}
        self.removed: list[Container] = []

    def answer(self, ask: BaseHTTPRequestHandler, key: str, query: dict[str, str], body: bytes) -> bool:
        """True if it was about containers, and is answered."""
        method, _, path = key.partition(" ")
        if path == "/containers/create":
            self._reply(ask, self._create(query["name"], json.loads(body)), status=201)
        elif path == "/containers/json":
            self._reply(ask, [self._listed(container) for container in self.all.values()])
        elif path == "/volumes/create":
            self._reply(ask, {"Name": json.loads(body)["Name"]}, status=201)
        elif path == "/events":
            found = [event for container in self.all.values() for event in container.events]
            self._send(ask, "".join(json.dumps(event) + "\n" for event in found).encode())
        elif path.startswith("/containers/"):
            self._about(ask, method, path.split("/")[2:], query)
        else:
            return False
        return True

    def _about(self, ask: BaseHTTPRequestHandler, method: str, path: list[str], query: dict[str, str]) -> None:
        container = self.all.get(path[0]) or next((c for c in self.all.values() if c.name == path[0]), None)
        if container is None:
            self._reply(ask, {"message": f"No such container: {path[0]}"}, status=404)
            return
        verb = path[1] if len(path) > 1 else ""
        if method == "DELETE":
            container.kill(signal.SIGKILL)
            self.removed.append(self.all.pop(container.id))
        elif verb == "attach":
            self._attach(ask, container)
            return
        elif verb == "start":
            container.run()
        elif verb == "wait":
            container.ended.wait()
            self._reply(ask, {"StatusCode": container.code})
            return
        elif verb == "kill":
            container.kill(signal.Signals[query["signal"]])
        elif verb == "stop":
            container.kill(signal.SIGTERM)
        elif verb == "json":
            self._reply(ask, container.document)
            return
        elif verb == "logs":
            self._send(ask, struct.pack(">BxxxL", 1, len(container.said)) + container.said)
            return
        self._send(ask, b"")

    def _create(self, name: str, config: dict[str, Any]) -> dict[str, str]:
        number = f"{len(self.all) + len(self.removed) + 1:064x}"
        self.all[number] = Container(number, name, config, os.pipe())
        self.all[number].tell("create")
        return {"Id": number}

    def _attach(self, ask: BaseHTTPRequestHandler, container: Container) -> None:
        """The container's stdin is open for as long as the client's connection."""
        ask.close_connection = True
        ask.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        ask.wfile.flush()
        with contextlib.suppress(OSError):
            while ask.connection.recv(1 << 10):
                pass
        os.close(container.stdin[1])

    @staticmethod
    def _listed(container: Container) -> dict[str, Any]:
        return {"Id": container.id, "Names": [f"/{container.name}"], "Labels": container.config["Labels"]}

    def _reply(self, ask: BaseHTTPRequestHandler, document: object, status: int = 200) -> None:
        self._send(ask, json.dumps(document).encode(), status)

    @staticmethod
    def _send(ask: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
        ask.send_response(status)
        ask.send_header("Content-Type", "application/json")
        ask.send_header("Content-Length", str(len(body)))
        ask.end_headers()
        ask.wfile.write(body)
