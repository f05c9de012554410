"""A production service is stopped for a run and back after it, on every path; each failure says what to type."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from matrix.host.cli import production_from
from matrix.host.commands import HostCommands
from matrix.host.production import Around, PausedService, give_back, held, unfinished
from matrix.host.readiness import answers
from matrix.host.systemd import Systemd, timer_name, unit_name
from repro import codec
from repro.errors import SpecError, UnavailableError
from repro.model import Forecast, PausedUnit

UNIT = "sglang.service"
TIMER = timer_name(UNIT)


def _fake() -> Any:
    path = Path(__file__).parents[3] / "docker" / "fake_systemd.py"
    spec = importlib.util.spec_from_file_location("fake_systemd", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FAKE = _fake()


class Host:
    """A host whose production runs."""

    def __init__(self, state: Path) -> None:
        self.unit = FAKE.Unit("active")
        self.systemd = FAKE.FakeSystemd(units={UNIT: self.unit})
        self.told: list[str] = []
        self.ready = True
        self.state = state
        self.interrupts = 0

    def around(self, scope: Any = "system") -> Around:
        return Around(
            systemd=Systemd(self.systemd, scope),
            state=self.state,
            now=lambda: datetime(2026, 9, 14, 8, 15, 4, tzinfo=UTC),
            elapsed=self.systemd.elapsed,
            sleep=self.systemd.sleep,
            ready=lambda _url: self.ready,
            tell=self.told.append,
        )

    def service(self, url: str | None = None) -> PausedService:
        return PausedService(UNIT, url, self.around())

    @contextlib.contextmanager
    def paused(self, url: str | None = None) -> Iterator[PausedService]:
        service = self.service(url)
        with service.paused("b300/run", lambda: self.interrupts):
            yield service

    def record(self) -> PausedUnit | None:
        records = unfinished(self.state)
        return codec.read(records[0], PausedUnit) if records else None


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "state")


def test_stopped_inside_and_back_after(host: Host) -> None:
    with host.paused("http://127.0.0.1:30000/health"):
        assert host.unit.active == "inactive"
        assert list(host.systemd.timers) == [TIMER]
        assert host.record() == PausedUnit(
            unit=UNIT,
            scope="system",
            was_active=True,
            paused_at="2026-09-14T08:15:04Z",
            run="b300/run",
            timer=TIMER,
            ready_url="http://127.0.0.1:30000/health",
        )
    assert (host.unit.active, host.systemd.timers, host.record()) == ("active", {}, None)
    assert host.told[-1] == f"PRODUCTION {UNIT} READY after 0 s"


def test_the_record_stands_before_the_timer_and_the_timer_before_the_stop(host: Host) -> None:
    host.systemd.refuses = {"systemd-run": "no"}
    with pytest.raises(UnavailableError, match="no timer can be set"), host.paused():
        pass
    assert host.unit.active == "active"
    assert not any(" stop sglang" in line for line in host.systemd.asked)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, UnavailableError])
def test_back_after_any_exception(host: Host, error: type[BaseException]) -> None:
    with pytest.raises(error), host.paused():
        raise error
    assert (host.unit.active, host.systemd.timers, host.record()) == ("active", {}, None)


@pytest.mark.parametrize("before", ["inactive", "failed"])
def test_what_did_not_run_is_never_started(host: Host, before: str) -> None:
    host.unit.active = before
    with host.paused() as service:
        host.systemd.sleep(5000)
        service.hold()
    assert (host.unit.active, host.systemd.timers, host.record()) == (before, {}, None)
    assert "will not be started" in host.told[0]


def test_a_service_that_was_just_starting_counts_as_running(host: Host) -> None:
    host.unit.active = "activating"
    with host.paused():
        assert host.unit.active == "inactive"
    assert host.unit.active == "active"


def test_a_run_after_a_power_cut_knows_that_the_service_ran(host: Host) -> None:
    with host.paused("http://h/ready"):
        (path,) = unfinished(host.state)
        left = path.read_bytes()
    path.write_bytes(left)  # as if the power had gone inside the run
    again = Host(host.state)
    again.unit.active = "inactive"
    with again.paused():
        found = again.record()
        assert found is not None
        assert (found.was_active, found.ready_url) == (True, "http://h/ready")
    assert again.unit.active == "active"


def test_the_timer_starts_it_when_nobody_holds(host: Host) -> None:
    with contextlib.suppress(UnavailableError), host.paused():
        host.systemd.sleep(901)
        assert host.unit.active == "active"


def test_the_timer_is_begun_again_while_the_run_goes_on(host: Host) -> None:
    with host.paused() as service:
        for _ in range(3000):
            host.systemd.sleep(1)
            service.hold()
        assert host.unit.active == "inactive"


def test_the_timer_is_set_again_if_somebody_took_it_away(host: Host) -> None:
    with host.paused() as service:
        host.systemd.timers.clear()
        host.systemd.sleep(61)
        service.hold()
        assert list(host.systemd.timers) == [TIMER]


def test_a_systemd_that_does_not_answer_does_not_end_the_run(host: Host) -> None:
    with host.paused() as service:
        host.systemd.refuses = {"show": "Connection timed out"}
        host.systemd.sleep(61)
        service.hold()
        host.systemd.refuses = {}
    assert any("could not be begun again" in text for text in host.told)


def test_a_service_that_runs_again_ends_the_run(host: Host) -> None:
    with host.paused() as service:
        host.unit.active = "active"
        host.systemd.sleep(61)
        with pytest.raises(UnavailableError, match="runs again although this run goes on"):
            service.hold()
    assert (host.unit.active, host.systemd.timers, host.record()) == ("active", {}, None)


def test_a_stop_that_fails_leaves_it_running(host: Host) -> None:
    host.unit.stop_fails = True
    words = r"`systemctl stop sglang\.service` failed: Job for .*: `systemctl status"
    with pytest.raises(UnavailableError, match=words), host.paused():
        raise AssertionError("never reached")
    assert (host.unit.active, host.systemd.timers, host.record()) == ("active", {}, None)


def test_a_start_that_fails_says_what_to_type_and_is_not_forgotten(host: Host) -> None:
    host.unit.start_fails = True
    words = r"PRODUCTION .* IS NOT BACK: .*type `systemctl start sglang\.service`"
    with pytest.raises(UnavailableError, match=words), host.paused():
        pass
    assert host.record() is not None
    assert list(host.systemd.timers) == [TIMER]
    host.unit.start_fails = False
    bring_back(host)
    assert (host.unit.active, host.systemd.timers, host.record()) == ("active", {}, None)


def bring_back(host: Host, leave: Callable[[], bool] = lambda: False) -> None:
    paused = host.record()
    assert paused is not None
    with held(host.state, "system", UNIT) as record:
        give_back(paused, record, host.around(), leave=leave)


def test_a_service_that_dies_after_its_start_is_not_called_ready(host: Host) -> None:
    host.unit.dies_when_started = True
    with pytest.raises(UnavailableError, match="it started and is now failed: read `journalctl"), host.paused():
        pass
    assert host.record() is not None


def test_a_service_that_never_gets_ready(host: Host) -> None:
    host.ready = False
    words = "http://h/ready does not call it ready after 18"
    with pytest.raises(UnavailableError, match=words), host.paused("http://h/ready"):
        pass
    assert host.unit.active == "active"
    assert host.record() is not None


def test_another_interrupt_ends_the_waiting_and_not_the_service(host: Host) -> None:
    host.ready = False
    looks = iter([0, *[1] * 9])
    service = host.service("http://h/ready")
    with service.paused("b300/run", lambda: next(looks)):
        pass
    assert host.unit.active == "active"
    assert "STARTED, not waited for" in host.told[-1]
    assert host.record() is not None


def test_restore_twice(host: Host) -> None:
    host.unit.start_fails = True
    with pytest.raises(UnavailableError), host.paused():
        pass
    host.unit.start_fails = False
    bring_back(host)
    assert unfinished(host.state) == ()


def test_a_unit_is_paused_by_one_run_only(host: Host) -> None:
    with host.paused(), pytest.raises(UnavailableError, match="is paused by a run that still goes on"), host.paused():
        pass
    assert host.unit.active == "active"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda host: host.systemd.units.clear(), "systemd knows no such unit"),
        (
            lambda host: setattr(host.systemd, "installed", False),
            "systemctl is not installed: --pause-unit needs a host",
        ),
        (lambda host: setattr(host.unit, "active", "deactivating"), "being stopped right now"),
        (
            lambda host: host.systemd.refuses.update(
                {" stop ": "Failed to stop: Interactive authentication required."}
            ),
            "run as root, or allow",
        ),
        (
            lambda host: host.systemd.refuses.update({"systemd-run": "Failed to start transient timer: Access denied"}),
            "run as root, or allow",
        ),
        (
            lambda host: host.systemd.refuses.update(
                {"show": "System has not been booted with systemd as init system (PID 1)"}
            ),
            "stop the service yourself",
        ),
    ],
)
def test_each_refusal_is_one_line(host: Host, spoil: Callable[[Host], None], words: str) -> None:
    spoil(host)
    with pytest.raises(UnavailableError, match=words) as caught, host.paused():
        raise AssertionError("never reached")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_state_folder_that_cannot_be_written(host: Host) -> None:
    host.state.parent.mkdir(exist_ok=True)
    host.state.write_text("a file")
    with pytest.raises(UnavailableError, match="state"), host.paused():
        pass
    assert host.unit.active == "active"


def test_a_users_unit_is_asked_of_the_users_systemd(host: Host) -> None:
    with PausedService(UNIT, None, host.around("user")).paused("cpu/run", lambda: 0):
        pass
    assert all("--user" in line for line in host.systemd.asked)
    assert any(
        line.startswith("systemd-run --user") and "systemctl --user start" in line for line in host.systemd.asked
    )


@pytest.mark.parametrize("name", ["", "-x", "a b", "../x", "a/b", "x;reboot", "ü.service"])
def test_what_is_no_units_name(name: str) -> None:
    with pytest.raises(SpecError, match="is no unit's name"):
        unit_name(name)


def test_unit_names() -> None:
    assert unit_name("sglang") == "sglang.service"
    assert unit_name("sglang@kimi.service") == "sglang@kimi.service"
    assert unit_name("engine.socket") == "engine.socket"
    assert "@" not in timer_name("sglang@kimi.service")
    assert timer_name("a@b.service") != timer_name("a-b.service")


# --- the command line


def options(tmp_path: Path, **given: Any) -> Any:
    import argparse

    named = {"pause_unit": "sglang", "pause_scope": "system", "pause_ready_url": None, "pause_lease": 900.0}
    return argparse.Namespace(**{**named, "pause_state": tmp_path, "yes": False, **given})


FORECAST = Forecast(launches=24, hours=3.1, hours_worst=20.0)


class Terminal:
    def __init__(self, line: str | None) -> None:
        self._line = line

    def isatty(self) -> bool:
        return self._line is not None

    def readline(self) -> str:
        return self._line or ""


@pytest.mark.parametrize(("line", "yes"), [("yes\n", False), ("YES \n", False), (None, True)])
def test_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str | None, yes: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(line))
    assert isinstance(production_from(options(tmp_path, yes=yes), FORECAST), PausedService)
    assert "24 launches, about 3.1 h (20.0 h if all runs into its limits): for so long" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"), [(None, "give --yes"), ("no\n", "nothing was stopped"), ("", "nothing was")]
)
def test_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str | None, words: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(line))
    with pytest.raises(SpecError, match=words):
        production_from(options(tmp_path), FORECAST)


# --- programs and addresses


def test_programs_of_the_host() -> None:
    commands = HostCommands()
    assert commands.run(["sh", "-c", "echo out; echo no >&2"], 30).out == "out\n"
    assert commands.run(["sh", "-c", "echo one >&2; echo two >&2; exit 3"], 30).said == "one"
    assert commands.run(["sh", "-c", "exit 3"], 30).said == "exit status 3"
    assert commands.run(["no-such-program"], 30).said == "no-such-program is not installed"
    assert commands.run(["sleep", "60"], 0.01).status is None
    assert commands.path("no-such-program") is None


def test_ready_is_a_2xx_answer() -> None:
    import http.server
    import threading

    class Service(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/ready" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        assert answers(f"{base}/ready")
        assert not answers(f"{base}/loading")
        server.shutdown()
    assert not answers(f"{base}/ready")
