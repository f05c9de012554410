"""Sessions: they call `python -m …` in two environments, which `harness` and `engine-cpu` make once.

`nox -l` lists them; what follows `--` is passed on.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2.9"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "typecheck", "tests"]

BIN = Path(".nox/harness/bin")
ENGINE = Path(".nox/engine-cpu")
CPU = Path("containers/cpu")
# Ctrl-C leaves a run the time to stop its server.
LONG: dict[str, Any] = {"interrupt_timeout": 120.0, "terminate_timeout": 30.0}


def install_once(session: nox.Session, key: str, *commands: tuple[str, ...]) -> None:
    """pip install, unless this environment has had just this: a repeated start costs no time."""
    stamp = Path(session.virtualenv.location, f".installed-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
    if stamp.exists():
        return
    for command in commands:
        session.install(*command)
    stamp.touch()


def python(session: nox.Session, *arguments: str, **options: Any) -> None:
    """Python of the harness's environment."""
    session.run(str(BIN / "python"), *arguments, external=True, **options)


def run_matrix(session: nox.Session, target: str, *options: str, prepared: bool = False) -> None:
    """`run`, or the subcommand given first; after `run` always the report, then the run's own result. ``prepared``: the
    image and the preflight come first, and a problem of either stops it."""
    arguments = [*session.posargs]
    command = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "run"
    if command != "run":
        python(session, "-m", "matrix", command, "--spec", target, *arguments, **LONG)
        return
    failed: list[str] = []
    for stage in ("prepare", "preflight", "run") if prepared else ("run",):
        if stage == "run" and failed:
            break
        try:
            python(session, "-m", "matrix", stage, "--spec", target, *options, *arguments, **LONG)
        except CommandFailed:
            failed.append(stage)
    results = arguments[arguments.index("--results") + 1] if "--results" in arguments else "results"
    if Path(results).is_dir():
        python(session, "-m", "report", "build", "--results", results, "--target", target, success_codes=[0, 3])
    if failed == ["run"]:
        session.error("the run did not pass; its report says why")
    if failed:
        session.error(f"{' and '.join(failed)}: a problem, said above; nothing was run")


def run_on_gpus(session: nox.Session, target: str) -> None:
    """In containers, unless the options name a runtime or an environment of the host."""
    named = any(word.partition("=")[0] in {"--runtime", "--engine-env"} for word in session.posargs)
    run_matrix(session, target, *(() if named else ("--runtime", "docker")), prepared=True)


@nox.session
def harness(session: nox.Session) -> None:
    """graphrepro's own environment, with the tools of development; the sessions below make it when they need it."""
    project = Path("pyproject.toml")
    groups = nox.project.dependency_groups(nox.project.load_toml(project), "test", "lint", "typecheck")
    install_once(session, project.read_text(), ("-e", ".", *groups))


@nox.session(name="engine-cpu")
def engine_cpu(session: nox.Session) -> None:
    """The environment with SGLang's server for the CPU: about 700 MB of downloads, 3 GB on disk."""
    files = ("torch.txt", "requirements.txt", "test-requirements.txt")
    install_once(
        session,
        "".join((CPU / name).read_text() for name in files),
        ("-r", str(CPU / "torch.txt")),
        ("--no-deps", "--require-hashes", "-r", str(CPU / "requirements.txt")),
        ("--no-deps", "--require-hashes", "-r", str(CPU / "test-requirements.txt")),
    )


@nox.session(venv_backend="none", requires=["harness"])
def tests(session: nox.Session) -> None:
    """All tests; with `nox -s engine-cpu tests` those against the real SGLang server too."""
    environment = {"GRAPHREPRO_ENGINE_ENV": str(ENGINE.absolute())} if (ENGINE / "bin" / "python").exists() else {}
    if session.posargs:
        python(session, "-m", "pytest", *session.posargs, env=environment)
        return
    if environment:  # what needs torch runs where torch is
        session.run(str(ENGINE / "bin" / "python"), "-m", "pytest", "tests/engine", external=True)
    python(session, "-m", "pytest", "-n", "2", "--dist", "loadfile", "tests/unit", env=environment)
    python(session, "-m", "pytest", "--ignore", "tests/unit", env=environment)  # servers and containers: one at a time


@nox.session(venv_backend="none", requires=["harness"])
def lint(session: nox.Session) -> None:
    """ruff, the one-way imports, and hadolint over the Dockerfiles."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")
    session.run(str(BIN / "lint-imports"), external=True)
    session.run(str(BIN / "hadolint"), *sorted(map(str, Path("containers").glob("*/Dockerfile"))), external=True)


@nox.session(venv_backend="none", requires=["harness"])
def typecheck(session: nox.Session) -> None:
    """mypy --strict over the packages, the payload and this file."""
    payload = ("-p", "attempt", "-p", "probe", "-p", "simulated", "-p", "dummy", "--exclude", "^$")
    python(session, "-m", "mypy")
    python(session, "-m", "mypy", "noxfile.py")
    python(session, "-m", "mypy", *payload, env={"MYPYPATH": "matrix/payload"})


@nox.session(name="matrix-cpu", venv_backend="none", requires=["harness", "engine-cpu"])
def matrix_cpu(session: nox.Session) -> None:
    """The matrix on a CPU with the real SGLang server, and its report; `-- --runtime docker`: in containers."""
    run_matrix(session, "cpu", "--engine-env", str(ENGINE))


@nox.session(name="matrix-sim", venv_backend="none", requires=["harness"])
def matrix_sim(session: nox.Session) -> None:
    """The matrix on the simulated engine, and its report."""
    run_matrix(session, "sim")


@nox.session(name="matrix-b300", venv_backend="none", requires=["harness"])
def matrix_b300(session: nox.Session) -> None:
    """8 x B300 (sm_103) in containers: image, preflight, matrix, report; your engine: `--image` or `--engine-env`."""
    run_on_gpus(session, "b300")


@nox.session(name="matrix-rtxpro6000", venv_backend="none", requires=["harness"])
def matrix_rtxpro6000(session: nox.Session) -> None:
    """8 x RTX PRO 6000 (sm_120) in containers: image, preflight, matrix, report; options as for matrix-b300."""
    run_on_gpus(session, "rtxpro6000")


@nox.session(name="images-b300", venv_backend="none", requires=["harness"])
def images_b300(session: nox.Session) -> None:
    """The image for B300: `-- --wheelhouse DIR` builds without a network, `--source stock` the release as it is."""
    python(session, "-m", "matrix", "images", "build", "--spec", "b300", *session.posargs, **LONG)


@nox.session(name="images-rtxpro6000", venv_backend="none", requires=["harness"])
def images_rtxpro6000(session: nox.Session) -> None:
    """The image for RTX PRO 6000 Blackwell; options as for images-b300."""
    python(session, "-m", "matrix", "images", "build", "--spec", "rtxpro6000", *session.posargs, **LONG)


@nox.session(name="images-cpu", venv_backend="none", requires=["harness"])
def images_cpu(session: nox.Session) -> None:
    """The image with SGLang's server for the CPU; options as for images-b300."""
    python(session, "-m", "matrix", "images", "build", "--spec", "cpu", *session.posargs, **LONG)


@nox.session(venv_backend="none", requires=["harness"])
def matrix(session: nox.Session) -> None:
    """`python -m matrix`, for anything else: nox -s matrix -- list --spec b300."""
    python(session, "-m", "matrix", *session.posargs, **LONG)


@nox.session(venv_backend="none", requires=["harness"])
def report(session: nox.Session) -> None:
    """The findings report over results/: findings.html, findings.md, findings.json, junit.xml."""
    python(session, "-m", "report", "build", *session.posargs)


@nox.session(venv_backend="none", requires=["harness"])
def bundle(session: nox.Session) -> None:
    """One zip for the bug tracker, replayed before it leaves: `-- FINDING_OR_CELL --out FILE`."""
    python(session, "-m", "repro", "pack", *session.posargs, **LONG)


@nox.session(venv_backend="none", requires=["harness"])
def recheck(session: nox.Session) -> None:
    """Ask again whether the failures of ledger.json are there: `-- --image NEW`, `-- --engine-env DIR`."""
    python(session, "-m", "repro", "recheck", *session.posargs, **LONG)


def other_tritons(session: nox.Session, arguments: list[str]) -> list[str]:
    """The arguments with each version after `--triton` installed into a folder of its own, once, and named by it."""
    if "--triton" not in arguments:
        return arguments
    begin = arguments.index("--triton") + 1
    end = next((n for n in range(begin, len(arguments)) if arguments[n].startswith("-")), len(arguments))
    folders = [Path(f".nox/kernels-triton-{version}") for version in arguments[begin:end]]
    for version, folder in zip(arguments[begin:end], folders, strict=True):
        if not (folder / f"triton-{version}.dist-info").exists():
            wanted = ("--no-deps", "--target", str(folder), f"triton=={version}")
            session.run(str(ENGINE / "bin" / "python"), "-m", "pip", "install", "-q", *wanted, external=True)
    return [*arguments[:begin], *map(str, folders), *arguments[end:]]


def wheels_of_releases(session: nox.Session) -> Path:
    """Where the wheels of `repro/kernels/releases.toml` lie; those that are missing are fetched (250 MB in all)."""
    folder = Path(".nox/kernels-wheels")
    platform = ("--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux_2_34_x86_64")
    releases = nox.project.load_toml(Path("repro/kernels/releases.toml"))["release"]
    wanted = Path(session.create_tmp(), "wheel.txt")
    for release in releases:
        if not list(folder.glob(f"sglang-{release['version']}-*.whl")):
            wanted.write_text(f"sglang=={release['version']} --hash=sha256:{release['wheel_sha256']}\n")
            download = ("pip", "download", "-q", "--no-deps", "--require-hashes", "-d", str(folder))
            try:
                python(session, "-m", *download, *platform, "-r", str(wanted))
            except CommandFailed:
                session.warn(f"no wheel of sglang {release['version']}: what it needs of it is not run")
    return folder


@nox.session(venv_backend="none", requires=["harness", "engine-cpu"])
def kernels(session: nox.Session) -> None:
    """The verify-attention kernel alone, without a server: `-- --quick`, `-- --arm memory`, `-- --triton 3.7.1`."""
    folder = wheels_of_releases(session)
    where = ("--engine-env", str(ENGINE), "--wheels", str(folder))
    python(session, "-m", "repro", "kernels", *where, *other_tritons(session, [*session.posargs]), **LONG)


@nox.session(name="kill-test", venv_backend="none", requires=["harness"])
def kill_test(session: nox.Session) -> None:
    """kill -9 of the harness at 20 random moments: nothing lost, nothing left behind."""
    python(session, "tests/integration/kill_at_random.py", *(session.posargs or ["--kills", "20"]))


@nox.session(name="faults-cpu", venv_backend="none", requires=["harness", "engine-cpu"])
def faults_cpu(session: nox.Session) -> None:
    """Every fault planted in the real server, and the verdict it has to get (about fifteen minutes)."""
    python(session, "tests/integration/faults_cpu.py", "--engine-env", str(ENGINE), *session.posargs, **LONG)


@nox.session(name="fault-mix", venv_backend="none", requires=["harness"])
def fault_mix(session: nox.Session) -> None:
    """50 attempts in containers that crash, hang, flood, are killed …: each classified, nothing left (root, Docker)."""
    python(session, "tests/docker/fault_mix.py", *(session.posargs or ["--attempts", "50"]), **LONG)


@nox.session(name="benchmarks-docker", venv_backend="none", requires=["harness"])
def benchmarks_docker(session: nox.Session) -> None:
    """What the docker runtime adds to `docker run --rm`, and the time to the first container; needs a daemon."""
    python(session, "benchmarks/docker_overhead.py", *session.posargs)


@nox.session(venv_backend="none", requires=["harness"])
def benchmarks(session: nox.Session) -> None:
    """Ratios measured side by side: the harness's overhead, and the time of a plan."""
    python(session, "benchmarks/overhead.py", *session.posargs)
    python(session, "benchmarks/plan.py")


@nox.session(name="benchmarks-diagnose", venv_backend="none", requires=["harness"])
def benchmarks_diagnose(session: nox.Session) -> None:
    """The diagnosis of 0.1 and 1 GB of logs beside ripgrep (`rg`); `-- --sizes 0.1 1 4` for more."""
    python(session, "benchmarks/diagnose.py", *session.posargs)


@nox.session(name="benchmarks-load-client", venv_backend="none", requires=["harness", "engine-cpu"])
def benchmarks_load_client(session: nox.Session) -> None:
    """Our load client beside `sglang.bench_serving`, against a server whose emission times are known."""
    python(session, "benchmarks/load_client.py", "--engine-env", str(ENGINE), *session.posargs)


@nox.session(name="benchmarks-bundle", venv_backend="none", requires=["harness"])
def benchmarks_bundle(session: nox.Session) -> None:
    """A bundle from 1 GB of evidence, and 25 MB of it verified, beside `zip -9` and `unzip -t`."""
    python(session, "benchmarks/bundle.py", *session.posargs)


@nox.session(name="benchmarks-oracles", venv_backend="none", requires=["harness"])
def benchmarks_oracles(session: nox.Session) -> None:
    """Misses and false alarms of the oracles on recordings; `-- --live --out FILE`: on real servers (engine-cpu)."""
    python(session, "benchmarks/oracles.py", *session.posargs, **LONG)


@nox.session(name="benchmarks-report", requires=["harness"])
def benchmarks_report(session: nox.Session) -> None:
    """The report over 1,000, 10,000 and 50,000 launches and other shapes, beside `asv publish` (some minutes)."""
    install_once(session, "asv", ("asv>=0.6.5",))
    asv = str(Path(session.bin, "asv").absolute())
    python(session, "benchmarks/report.py", "--asv", asv, *session.posargs)


@nox.session(name="update-flags", venv_backend="none", requires=["harness"])
def update_flags(session: nox.Session) -> None:
    """SGLang's flags per release, read again from the wheels (300 MB); `-- 0.5.24` adds a release."""
    wheels = session.create_tmp()
    releases = json.loads(Path("matrix/engines/flags.json").read_text())["releases"]
    for release in [*(entry["version"] for entry in releases), *session.posargs]:
        python(session, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, f"sglang=={release}")
    python(session, "-m", "matrix.engines.update_flags", "--wheels", wheels)


@nox.session(name="update-images", venv_backend="none", requires=["harness"])
def update_images(session: nox.Session) -> None:
    """Digests and commits in containers/images.toml that are still unresolved, looked up."""
    python(session, "-m", "matrix", "images", "resolve", *session.posargs)


@nox.session(name="update-cpu-model", venv_backend="none", requires=["engine-cpu"])
def update_cpu_model(session: nox.Session) -> None:
    """Train the CPU target's tiny model and drafter again (about six minutes on one core)."""
    script = ("matrix/payload/cpu/train.py", "matrix/payload/cpu/model")
    session.run(str(ENGINE / "bin" / "python"), *script, *session.posargs, external=True)


@nox.session(name="update-golden", venv_backend="none", requires=["harness"])
def update_golden(session: nox.Session) -> None:
    """The golden files of the tests, written again; read the difference before you commit it."""
    golden = ("tests/unit", "tests/browser/test_golden_pictures.py")
    python(session, "-m", "pytest", "-q", *golden, env={"GRAPHREPRO_UPDATE_GOLDEN": "1"})


@nox.session(name="update-picture", venv_backend="none", requires=["harness"])
def update_picture(session: nox.Session) -> None:
    """docs/images/report.png from results/report/findings.html, or `-- PAGE`; needs Chromium (Debian: chromium)."""
    page = Path(*(session.posargs or ["results/report/findings.html"])).absolute().as_uri()
    quiet = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")
    size = ("--window-size=1280,860", "--hide-scrollbars", f"--user-data-dir={session.create_tmp()}")
    picture = Path("docs/images/report.png").absolute()
    session.run("chromium", "--headless", *quiet, *size, f"--screenshot={picture}", page, external=True)
    fewer_colours = "import sys, PIL.Image as I; p = sys.argv[1]; I.open(p).convert('RGB').quantize(256).save(p)"
    python(session, "-c", fewer_colours, str(picture))
