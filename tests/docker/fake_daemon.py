"""A docker daemon that only answers: HTTP over a unix socket, from a table of `METHOD /path` to a JSON document.

    with serving(folder / "docker.sock", {"GET /version": {...}, "GET /info": {...}}) as asked: ...

A document may be `{"status": 404, "message": "no such image"}`. The version prefix of a path (`/v1.47`) does not count.
What is not in the table is answered 404, as a daemon does for what it does not have.
"""

import contextlib
import http.server
import json
import re
import socketserver
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def answer(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(re.sub(r"^/v\d+\.\d+(?=/)", "", parts.path))
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        key = f"{self.command} {path}"
        self.server.asked.append(key)
        containers = self.server.containers
        if containers is not None and containers.answer(self, key, dict(parse_qsl(parts.query)), body):
            return
        found = self.server.table.get(key, {"status": 404, "message": f"no such thing: {key}"})
        status = int(found["status"]) if isinstance(found, Mapping) and "status" in found else 200
        reply = b"OK" if key.endswith("/_ping") else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.send_header("Api-Version", "1.47")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    table: Mapping[str, Any]
    asked: list[str]
    containers: Any


@contextlib.contextmanager
def serving(socket_path: Path, table: Mapping[str, Any], containers: Any = None) -> Iterator[list[str]]:
    """The daemon at ``unix://{socket_path}``, until the context ends. Yields the list of what it was asked.

    ``containers`` answers what it can before the table does (`fake_containers.py`)."""
    with _Server(str(socket_path), _Answers) as server:
        server.containers = containers
        server.table, server.asked = {"GET /_ping": {}, "HEAD /_ping": {}, **table}, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.asked
        finally:
            server.shutdown()
            thread.join()
    socket_path.unlink(missing_ok=True)
