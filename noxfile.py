"""Sessions: they install, then call `python -m …`. `nox -l` lists them; what follows `--` is passed on."""

import hashlib
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2.9"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "typecheck", "tests"]

PROJECT = nox.project.load_toml("pyproject.toml")
HARNESS = ".nox/harness"  # one environment for all sessions but engine-cpu
ENGINE = Path(".nox/engine-cpu")
CPU = Path("containers/cpu")
LONG = {"interrupt_timeout": 120.0, "terminate_timeout": 30.0}  # Ctrl-C leaves a run the time to stop its server


def groups(*names: str) -> list[str]:
    """The packages of dependency groups in pyproject.toml."""
    return nox.project.dependency_groups(PROJECT, *names)


def install_once(session: nox.Session, key: str, *commands: tuple[str, ...]) -> None:
    """pip install, unless this environment has had just this: a repeated start costs no time."""
    stamp = Path(session.virtualenv.location, f".installed-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
    if stamp.exists():
        return
    for command in commands:
        session.install(*command)
    stamp.touch()


def harness(session: nox.Session, *names: str) -> None:
    """graphrepro itself, editable, with the named dependency groups."""
    key = Path("pyproject.toml").read_text() + " ".join(names)
    install_once(session, key, ("-e", ".", *groups(*names)))


def run_matrix(session: nox.Session, target: str, *options: str) -> None:
    """`run`, or the subcommand given first; after `run` always the report, then the run's own result."""
    harness(session)
    arguments = [*session.posargs]
    command = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "run"
    if command != "run":
        session.run("python", "-m", "matrix", command, "--spec", target, *arguments, **LONG)
        return
    failed = False
    try:
        session.run("python", "-m", "matrix", "run", "--spec", target, *options, *arguments, **LONG)
    except CommandFailed:
        failed = True
    results = arguments[arguments.index("--results") + 1] if "--results" in arguments else "results"
    session.run("python", "-m", "report", "build", "--results", results, "--target", target, success_codes=[0, 3])
    if failed:
        session.error("the run did not pass; its report says why")


@nox.session(venv_location=HARNESS)
def tests(session: nox.Session) -> None:
    """All tests; with `nox -s engine-cpu tests` those against the real SGLang server too."""
    harness(session, "test")
    environment = {"GRAPHREPRO_ENGINE_ENV": str(ENGINE.absolute())} if (ENGINE / "bin" / "python").exists() else {}
    session.run("python", "-m", "pytest", *session.posargs, env=environment)
    if environment and not session.posargs:  # what needs torch runs where torch is
        session.run(str(ENGINE / "bin" / "python"), "-m", "pytest", "tests/engine", external=True)


@nox.session(venv_location=HARNESS)
def lint(session: nox.Session) -> None:
    """ruff, the one-way imports, and hadolint over the Dockerfiles."""
    harness(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")
    session.run("hadolint", *sorted(map(str, Path("containers").glob("*/Dockerfile"))))


@nox.session(venv_location=HARNESS)
def typecheck(session: nox.Session) -> None:
    """mypy --strict over the packages, the payload and this file."""
    harness(session, "typecheck", "test")
    session.run("mypy")
    session.run("mypy", "noxfile.py")
    session.run(
        "mypy", "-p", "attempt", "-p", "probe", "-p", "simulated", "--exclude", "^$", env={"MYPYPATH": "matrix/payload"}
    )


@nox.session(name="engine-cpu", venv_location=str(ENGINE))
def engine_cpu(session: nox.Session) -> None:
    """The environment with SGLang's server for the CPU: about 700 MB of downloads, 3 GB on disk."""
    files = ("torch.txt", "requirements.txt", "test-requirements.txt")
    key = "".join((CPU / name).read_text() for name in files)
    install_once(
        session,
        key,
        ("-r", str(CPU / "torch.txt")),
        ("--no-deps", "--require-hashes", "-r", str(CPU / "requirements.txt")),
        ("--no-deps", "--require-hashes", "-r", str(CPU / "test-requirements.txt")),
    )


@nox.session(name="matrix-cpu", venv_location=HARNESS, requires=["engine-cpu"])
def matrix_cpu(session: nox.Session) -> None:
    """The embedded default: the matrix on a CPU with the real SGLang server, and its report."""
    run_matrix(session, "cpu", "--engine-env", str(ENGINE))


@nox.session(name="matrix-sim", venv_location=HARNESS)
def matrix_sim(session: nox.Session) -> None:
    """The matrix on the simulated engine, and its report."""
    run_matrix(session, "sim")


@nox.session(name="matrix-b300", venv_location=HARNESS)
def matrix_b300(session: nox.Session) -> None:
    """The matrix on 8 x B300 (sm_103), and its report; name your engine with `-- --engine-env DIR`."""
    run_matrix(session, "b300")


@nox.session(name="matrix-rtxpro6000", venv_location=HARNESS)
def matrix_rtxpro6000(session: nox.Session) -> None:
    """The matrix on 8 x RTX PRO 6000 (sm_120), and its report; name your engine with `-- --engine-env DIR`."""
    run_matrix(session, "rtxpro6000")


@nox.session(name="images-b300", venv_location=HARNESS)
def images_b300(session: nox.Session) -> None:
    """The image for B300: `-- --wheelhouse DIR` builds without a network, `--source stock` the release as it is."""
    harness(session)
    session.run("python", "-m", "matrix", "images", "build", "--spec", "b300", *session.posargs, **LONG)


@nox.session(name="images-rtxpro6000", venv_location=HARNESS)
def images_rtxpro6000(session: nox.Session) -> None:
    """The image for RTX PRO 6000 Blackwell; options as for images-b300."""
    harness(session)
    session.run("python", "-m", "matrix", "images", "build", "--spec", "rtxpro6000", *session.posargs, **LONG)


@nox.session(name="images-cpu", venv_location=HARNESS)
def images_cpu(session: nox.Session) -> None:
    """The image with SGLang's server for the CPU; options as for images-b300."""
    harness(session)
    session.run("python", "-m", "matrix", "images", "build", "--spec", "cpu", *session.posargs, **LONG)


@nox.session(name="update-images", venv_location=HARNESS)
def update_images(session: nox.Session) -> None:
    """Digests and commits in containers/images.toml that are still unresolved, looked up."""
    harness(session)
    session.run("python", "-m", "matrix", "images", "resolve", *session.posargs)


@nox.session(venv_location=HARNESS)
def matrix(session: nox.Session) -> None:
    """`python -m matrix`, for anything else: nox -s matrix -- list --spec b300."""
    harness(session)
    session.run("python", "-m", "matrix", *session.posargs, **LONG)


@nox.session(venv_location=HARNESS)
def report(session: nox.Session) -> None:
    """The findings report over results/: findings.html, findings.md, findings.json, junit.xml."""
    harness(session)
    session.run("python", "-m", "report", "build", *session.posargs)


@nox.session(name="kill-test", venv_location=HARNESS)
def kill_test(session: nox.Session) -> None:
    """kill -9 of the harness at 20 random moments: nothing lost, nothing left behind."""
    harness(session, "test")
    session.run("python", "tests/integration/kill_at_random.py", *(session.posargs or ["--kills", "20"]))


@nox.session(name="faults-cpu", venv_location=HARNESS, requires=["engine-cpu"])
def faults_cpu(session: nox.Session) -> None:
    """Every fault planted in the real server, and the verdict it has to get (about fifteen minutes)."""
    harness(session)
    session.run("python", "tests/integration/faults_cpu.py", "--engine-env", str(ENGINE), *session.posargs, **LONG)


@nox.session(venv_location=HARNESS)
def benchmarks(session: nox.Session) -> None:
    """Ratios measured side by side: the harness's overhead, and the time of a plan."""
    harness(session)
    session.run("python", "benchmarks/overhead.py", *session.posargs)
    session.run("python", "benchmarks/plan.py")


@nox.session(name="update-flags", venv_location=HARNESS)
def update_flags(session: nox.Session) -> None:
    """The table of SGLang's flags per release, read again from the wheels (downloads about 400 MB)."""
    harness(session)
    wheels = session.create_tmp()
    session.run("python", "-m", "matrix.engines.update_flags", "--wheels", wheels, "--download", *session.posargs)


@nox.session(name="update-cpu-model", venv_location=str(ENGINE))
def update_cpu_model(session: nox.Session) -> None:
    """Train the CPU target's tiny model and drafter again (about six minutes on one core)."""
    session.run("python", "matrix/payload/cpu/train.py", "matrix/payload/cpu/model", *session.posargs)


@nox.session(name="update-golden", venv_location=HARNESS)
def update_golden(session: nox.Session) -> None:
    """The golden files of the tests, written again; read the difference before you commit it."""
    harness(session, "test")
    session.run("python", "-m", "pytest", "-q", "tests/unit", env={"GRAPHREPRO_UPDATE_GOLDEN": "1"})
