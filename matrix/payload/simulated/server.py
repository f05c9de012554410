"""The HTTP server around the engine."""

import asyncio
import os
import signal
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from simulated import death
from simulated.engine import Engine
from simulated.log import Log
from simulated.native import Native
from simulated.openai import OpenAi
from simulated.script import Behaviour


async def serve(engine: Engine, behaviour: Behaviour, log: Log, emissions: Path | None = None) -> int:
    """Listens until SIGTERM; the exit status."""
    stopped = asyncio.Event()
    _obey_signals(stopped, behaviour, log)
    native = Native(engine, emissions)
    app = web.Application(client_max_size=64 << 20, middlewares=[_access_log(log)])
    app.add_routes([*native.routes(), *OpenAi(engine).routes()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
    await runner.setup()
    host, port = engine.configuration.options["host"], engine.configuration.options["port"]
    if "port-in-use" in behaviour.faults:
        death.port_taken(log, host, port)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        death.port_taken(log, host, port)
    for line in ("Waiting for application startup.", "Application startup complete."):
        log.line(f"INFO:     {line}")
    log.line(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
    serving = asyncio.ensure_future(engine.run())
    warming = asyncio.ensure_future(_warm_up(native, behaviour, log))
    stopping = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()  # the engine never ends by itself: an error of this program
    warming.cancel()
    return 0


def _obey_signals(stopped: asyncio.Event, behaviour: Behaviour, log: Log) -> None:
    def end() -> None:
        if "ignore-sigterm" not in behaviour.faults:
            log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
            stopped.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    loop.add_signal_handler(signal.SIGINT, end)


async def _warm_up(native: Native, behaviour: Behaviour, log: Log) -> None:
    await asyncio.sleep(behaviour.phases_s["warmup"])
    if "hang-warmup" in behaviour.faults:
        return
    if "crash-warmup" in behaviour.faults:
        death.of_the_scheduler(log, "crash-warmup")
    native.ready = True
    log.line("The server is fired up and ready to roll!")


def _access_log(log: Log) -> Middleware:
    @web.middleware
    async def logged(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        peer = request.transport.get_extra_info("peername") if request.transport else None
        who = f"{peer[0]}:{peer[1]}" if peer else "-"
        log.line(f'INFO:     {who} - "{request.method} {request.path} HTTP/1.1" {response.status} {response.reason}')
        return response

    return logged


def leave(status: int) -> None:
    """Ends the process without Python's own tidying up, which takes longer than the rest of the stop."""
    os._exit(status)
