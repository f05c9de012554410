"""The command `preflight`: the host against a plan."""

import argparse
import contextlib
import json
import os
from typing import cast

from matrix.engines.deployment import Deployment
from matrix.host.systemd import unit_name
from matrix.spec import Spec
from repro import codec
from repro.errors import GraphreproError
from repro.model import Preflight


def preflight_command(options: argparse.Namespace, spec: Spec, deployment: Deployment, *, launches: int) -> int:
    """0 if there is no problem, 4 if there is one. What is unknown is neither."""
    from matrix.preflight.checks import preflight
    from matrix.preflight.question import Question
    from matrix.preflight.this_host import this_host

    question = Question(
        spec=spec,
        runtime=options.runtime,
        image=_image(options, spec),
        engine_env=options.engine_env,
        model=deployment.model,
        draft_model=deployment.draft_model,
        results=options.results,
        launches=launches,
        port=options.port if options.port is not None else spec.deployment.port,
        own_network=options.runtime == "docker" and options.docker_network != "host",
        pause_unit=unit_name(options.pause_unit) if options.pause_unit is not None else None,
        pause_scope=options.pause_scope,
    )
    found = preflight(question, this_host(os.environ))
    if options.json:
        print(json.dumps(codec.encode(found), indent=2, ensure_ascii=False))
    else:
        for text in shown(found):
            print(text)
    return exit_code(found)


def _image(options: argparse.Namespace, spec: Spec) -> str | None:
    """The image that `run` would take without building one."""
    if options.runtime != "docker" or options.image is not None or spec.engine.name == "simulated":
        return cast("str | None", options.image)
    from matrix.promptset import payload_dir
    from matrix.runtimes.docker_daemon import connect
    from matrix.runtimes.docker_engines import ImageSearch

    with contextlib.suppress(GraphreproError):  # the lines about docker and the image say it
        search = ImageSearch(
            daemon=connect(os.environ, return_s=0.0),
            spec=spec,
            payload=payload_dir(),
            environment=os.environ,
            say=lambda _: None,
            allow_tag=True,
        )
        built = search.already_built()
        return None if built is None else built.id
    return None


def shown(found: Preflight) -> list[str]:
    """One line for each question."""
    width = max((len(line.check) for line in found.lines), default=0)
    return [
        _printable(
            f"{line.state:8}{line.check:{width + 2}}{line.detail}" + (f" -> {line.advice}" if line.advice else "")
        )
        for line in found.lines
    ]


def exit_code(found: Preflight) -> int:
    return 4 if any(line.state == "problem" for line in found.lines) else 0


def _printable(text: str) -> str:
    """Names come from files and daemons, which may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
