"""What systemd is asked for, asked of our double and of a real systemd in a container; and whole runs in the latter."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

import matrix
from matrix.host.commands import Answer
from matrix.host.systemd import Systemd
from repro.errors import UnavailableError

IMAGE = "graphrepro-systemd-user"
LABEL = "graphrepro-test=systemd"
ENVIRONMENT = ("--env", "XDG_RUNTIME_DIR=/run/user/0")
UNITS = {
    "production.service": "[Service]\nExecStart=/bin/sleep infinity\n",
    "broken.service": "[Service]\nType=oneshot\nExecStart=/bin/false\n",
}


class World(Protocol):
    """A systemd that can be asked, and waited for."""

    def path(self, program: str) -> str | None: ...
    def run(self, argv: Sequence[str], timeout_s: float) -> Answer: ...
    def sleep(self, seconds: float) -> None: ...


class Container:
    """A container that has booted systemd; its programs are run by `docker exec`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def path(self, program: str) -> str | None:
        return f"/usr/bin/{program}"

    def run(self, argv: Sequence[str], timeout_s: float) -> Answer:
        done = docker("exec", *ENVIRONMENT, self.name, *argv, timeout_s=timeout_s)
        return Answer(status=done.returncode, out=done.stdout, said=done.stderr.strip().partition("\n")[0])

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def shell(self, script: str) -> str:
        return docker("exec", *ENVIRONMENT, self.name, "bash", "-c", script).stdout

    def booted(self) -> None:
        for _ in range(120):
            if self.run(["systemctl", "is-system-running"], 30).out.strip() in {"running", "degraded"}:
                break
            time.sleep(0.25)
        for name, text in UNITS.items():
            self.shell(f"printf '%b' {json.dumps(text)} >/etc/systemd/system/{name}")
        self.shell("systemctl daemon-reload; systemctl reset-failed")
        self.shell(
            "cd /root; mkdir -p .config/systemd/user; cp /etc/systemd/system/production.service .config/systemd/user"
        )
        self.shell("systemctl start user@0.service; systemctl --user daemon-reload")


def docker(*arguments: str, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


def missing(what: str) -> None:
    if os.environ.get("GRAPHREPRO_DOCKER") == "1":
        pytest.fail(f"GRAPHREPRO_DOCKER=1, and {what}")
    pytest.skip(f"{what} (GRAPHREPRO_DOCKER=1 makes this a failure)")


def make_image() -> None:
    """A Debian that boots systemd; there is no registry to take one from."""
    if docker("image", "inspect", IMAGE).returncode == 0:
        return
    if shutil.which("mmdebstrap") is None:
        missing(f"there is no image {IMAGE}, and no mmdebstrap to make it with")
    include = "--include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3"
    with subprocess.Popen(["mmdebstrap", "--variant=minbase", include, "bookworm"], stdout=subprocess.PIPE) as made:
        subprocess.run(["docker", "import", "-", IMAGE], stdin=made.stdout, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    if shutil.which("docker") is None or docker("info").returncode != 0:
        missing("no Docker daemon answers")
    make_image()
    mounts = {sys.prefix, sys.base_prefix, str(Path(matrix.__file__).resolve().parents[1])}
    options = ["--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--cgroupns", "host"]
    options += [item for place in ("/run", "/run/lock", "/tmp") for item in ("--tmpfs", place)]
    options += ["-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--network", "none", "--label", LABEL]
    options += [item for path in sorted(mounts) for item in ("-v", f"{path}:{path}:ro")]
    started = docker("run", "--detach", *options, IMAGE, "/sbin/init")
    assert started.returncode == 0, started.stderr
    world = Container(started.stdout.strip())
    try:
        world.booted()
        yield world
    finally:
        docker("rm", "--force", world.name)


def fake_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fake_systemd", Path(__file__).with_name("fake_systemd.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["double", pytest.param("container", marks=pytest.mark.docker)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "double":
        fake = fake_module()
        double: World = fake.FakeSystemd(
            units={"production.service": fake.Unit(), "broken.service": fake.Unit(start_fails=True)}
        )
        return double
    real: Container = request.getfixturevalue("container")
    real.shell("systemctl stop production.service 'graphrepro-restore-*'; systemctl reset-failed")
    return real


def wait_for(world: World, systemd: Systemd, unit: str, active: str) -> None:
    for _ in range(300):
        if systemd.state(unit).active == active:
            return
        world.sleep(0.1)
    raise AssertionError(f"{unit} is {systemd.state(unit).active}")


# --- the contract


def test_states(world: World) -> None:
    systemd = Systemd(world, "system")
    assert not systemd.state("nonesuch.service").exists
    stopped = systemd.state("production.service")
    assert (stopped.exists, stopped.running) == (True, False)
    systemd.start("production.service", 30)
    running = systemd.state("production.service")
    assert running.running
    assert running.control_group.endswith("production.service")
    systemd.stop("production.service", 30)
    assert not systemd.state("production.service").running


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_what_is_not_there_can_neither_be_started_nor_stopped(world: World, verb: str) -> None:
    systemd = Systemd(world, "system")
    with pytest.raises(UnavailableError, match=r"nonesuch\.service.*(not found|not loaded)"):
        getattr(systemd, verb)("nonesuch.service", 30)


def test_a_start_that_fails_says_so(world: World) -> None:
    systemd = Systemd(world, "system")
    with pytest.raises(UnavailableError, match=r"`systemctl start broken\.service` failed: Job for"):
        systemd.start("broken.service", 30)
    assert systemd.state("broken.service").active == "failed"


def test_a_timer_starts_the_unit(world: World) -> None:
    systemd = Systemd(world, "system")
    systemd.arm("graphrepro-restore-t", "production.service", 1)
    wait_for(world, systemd, "production.service", "active")


def test_a_timer_is_armed_once_and_begun_again(world: World) -> None:
    systemd = Systemd(world, "system")
    assert not systemd.rearm("graphrepro-restore-t")
    systemd.arm("graphrepro-restore-t", "production.service", 600)
    systemd.arm("graphrepro-restore-t", "production.service", 600)
    assert systemd.rearm("graphrepro-restore-t")
    assert systemd.state("graphrepro-restore-t.timer").active == "active"


def test_a_disarmed_timer_is_gone(world: World) -> None:
    systemd = Systemd(world, "system")
    systemd.arm("graphrepro-restore-t", "production.service", 600)
    systemd.disarm("graphrepro-restore-t")
    systemd.disarm("graphrepro-restore-t")
    assert not systemd.rearm("graphrepro-restore-t")
    assert not systemd.state("production.service").running


# --- whole runs, beside a real systemd


PYTHON = f"{sys.executable} -P -m matrix"
# Without a reference nothing passes: a run that was well ends with 7.
RUN = f"{PYTHON} run --spec sim --no-references --pause-unit production --yes"


@pytest.fixture
def host(container: Container) -> Container:
    """Production runs, and nothing of an earlier test is left."""
    container.shell(
        "systemctl stop 'graphrepro-restore-*'; systemctl reset-failed; systemctl start production;"
        "rm -rf /var/lib/graphrepro /root/results /root/log"
    )
    return container


def begin(host: Container, options: str) -> None:
    """Start a run, and wait until its first attempt goes on while production is down."""
    inner = f"cd /root; (echo $BASHPID >pid; exec {RUN} {options}) >log 2>&1; echo $? >status"
    host.shell(f"rm -f /root/status; setsid bash -c {shlex.quote(inner)} >/dev/null 2>&1 &")
    until(host, "ls /root/results/sim/*/cells/*/1/evidence/timeline.jsonl")
    assert state(host) == "inactive"


def kill(host: Container, signal: str) -> None:
    host.shell(f"kill -{signal} $(cat /root/pid)")


def end(host: Container) -> tuple[int, str]:
    """Status and output of the run that was begun."""
    until(host, "test -s /root/status")
    return int(host.shell("cat /root/status")), host.shell("cat /root/log")


def until(host: Container, command: str) -> None:
    for _ in range(600):
        if host.run(["bash", "-c", command], 30).status == 0:
            return
        time.sleep(0.1)
    raise AssertionError(host.shell(f"{command} 2>&1; cat /root/log"))


def state(host: Container) -> str:
    return host.shell("systemctl is-active production").strip()


def records(host: Container) -> list[dict[str, Any]]:
    return [json.loads(text) for text in host.shell("cat /var/lib/graphrepro/*.json 2>/dev/null").split("\0") if text]


def timers(host: Container) -> str:
    return host.shell("systemctl list-units --all --plain --no-legend 'graphrepro-restore-*'").strip()


@pytest.mark.docker
@pytest.mark.slow
class TestRuns:
    def test_a_run_leaves_production_as_it_was(self, host: Container) -> None:
        done = host.run(["bash", "-c", f"cd /root && {RUN} --select '*b8t4-eager-nvls' 2>&1"], 120)
        assert done.status == 7, done.out
        assert "PRODUCTION production.service READY after" in done.out
        assert (state(host), records(host), timers(host)) == ("active", [], "")

    def test_a_killed_harness_costs_production_no_more_than_the_lease(self, host: Container) -> None:
        begin(host, "--pause-lease 5")
        kill(host, "KILL")
        wait_for(host, Systemd(host, "system"), "production.service", "active")
        (record,) = records(host)
        assert record["was_active"]
        assert "READY" in host.shell(f"{PYTHON} restore 2>&1")
        assert (state(host), records(host), timers(host)) == ("active", [], "")
        assert "nothing is paused" in host.shell(f"{PYTHON} restore 2>&1")

    @pytest.mark.parametrize("signal", ["INT", "TERM", "HUP"])
    def test_a_signal_brings_production_back(self, host: Container, signal: str) -> None:
        begin(host, "")
        kill(host, signal)
        status, log = end(host)
        assert status == 130, log
        assert "PRODUCTION production.service READY after" in log
        assert (state(host), records(host), timers(host)) == ("active", [], "")

    def test_after_a_power_cut_restore_brings_it_back(self, host: Container) -> None:
        begin(host, "")
        docker("kill", host.name)
        docker("start", host.name)
        host.booted()
        assert state(host) == "inactive"
        told = host.shell(f"{PYTHON} restore 2>&1")
        assert "PRODUCTION production.service READY after" in told
        assert (state(host), records(host)) == ("active", [])

    def test_a_run_that_is_resumed_after_a_power_cut_knows_that_production_ran(self, host: Container) -> None:
        begin(host, "--select '*b8t4-eager-nvls'")
        docker("kill", host.name)
        docker("start", host.name)
        host.booted()
        done = host.run(["bash", "-c", f"cd /root && {RUN} --select '*b8t4-eager-nvls' 2>&1"], 120)
        assert done.status == 7, done.out
        assert (state(host), records(host)) == ("active", [])

    def test_what_did_not_run_is_not_started(self, host: Container) -> None:
        host.shell("systemctl stop production")
        done = host.run(["bash", "-c", f"cd /root && {RUN} --select '*b8t4-eager-nvls' 2>&1"], 120)
        assert done.status == 7, done.out
        assert (state(host), records(host), timers(host)) == ("inactive", [], "")

    def test_production_that_is_started_during_a_run_ends_the_run(self, host: Container) -> None:
        begin(host, "--pause-lease 5")
        host.shell("systemctl start production")
        status, log = end(host)
        assert status == 4, log
        assert "runs again although this run goes on" in log
        assert (state(host), records(host), timers(host)) == ("active", [], "")

    def test_a_users_own_unit(self, host: Container) -> None:
        host.shell("systemctl --user start production")
        options = "--select '*b8t4-eager-nvls' --pause-scope user"
        done = host.run(["bash", "-c", f"cd /root && {RUN} {options} 2>&1"], 120)
        assert done.status == 7, done.out
        assert "PRODUCTION production.service READY after" in done.out
        assert host.shell("systemctl --user is-active production").strip() == "active"
        assert host.shell("systemctl --user list-units --all --plain --no-legend 'graphrepro-restore-*'").strip() == ""
        told = host.shell(f"{PYTHON} preflight --spec sim --pause-unit production --pause-scope user")
        assert "production.service is active" in told

    def test_preflight_knows_the_unit(self, host: Container) -> None:
        told = host.shell(f"{PYTHON} preflight --spec sim --pause-unit production")
        assert "ok      unit    production.service is active; this user may stop and start it" in told
        assert "systemd knows no such unit" in host.shell(f"{PYTHON} preflight --spec sim --pause-unit nonesuch")
