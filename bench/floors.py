"""What the machine takes for a container without Lading: `crun run` and `docker run` of no-op
programs.

Nothing is saved by either, so they are floors, not equals. crun refuses cgroup mounts of the hybrid
layout, so its loop runs in a mount namespace in which the version 2 hierarchy is taken away (lab
1); the loop is this module again:

    python -m bench.floors BUNDLE ACTION COUNT AT_ONCE     prints what each run took as JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

DATE: Final = ["/bin/date", "+%s%N"]
"""Prints when it began, nanoseconds since 1970."""
_DAEMON_START = 30.0
_IMAGE = "lading-bench:floor"


def crun_burst(bundle: Path, count: int) -> float:
    """Seconds of `count` runs of /bin/true by `crun run`, two at a time. Raises RuntimeError."""
    return float(_crun_loop(bundle, "true", count, at_once=2)["all"])


def crun_singles(bundle: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds of runs of /bin/date by `crun run`, one after another: until user code, and to the
    end. Raises RuntimeError.
    """
    found = _crun_loop(bundle, "date", count, at_once=1)
    return found["starts"], found["ends"]


@contextlib.contextmanager
def docker_image(work: Path) -> Iterator[list[str]]:
    """The command that runs /bin/date in a container of a docker daemon, one of this benchmark if
    none answers. Raises RuntimeError where there is none.
    """
    if shutil.which("docker") is None:
        raise RuntimeError("docker is not installed")
    with contextlib.ExitStack() as stack:
        host = find_daemon() or stack.enter_context(own_daemon(work))
        if not host:
            raise RuntimeError("no docker daemon answers and none could be started")
        docker = ["docker", "--host", host]
        rootfs = make_rootfs(work / "docker-rootfs", "date")
        tar = subprocess.run(
            ["tar", "-C", str(rootfs), "-c", "."], stdout=subprocess.PIPE, check=True
        ).stdout
        subprocess.run(
            [*docker, "import", "-", _IMAGE], input=tar, stdout=subprocess.DEVNULL, check=True
        )
        stack.callback(
            subprocess.run, [*docker, "rmi", "-f", _IMAGE], stdout=subprocess.DEVNULL, check=False
        )
        yield [*docker, "run", "--rm", "--network", "none", _IMAGE, *DATE]


def time_to_date(command: Sequence[str]) -> tuple[float, float]:
    """Seconds until the `date` that a command runs began, and to the end of the command. Raises
    CalledProcessError when it fails.
    """
    began = time.time()
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    ended = time.time()
    return int(done.stdout) / 1e9 - began, ended - began


def make_rootfs(target: Path, name: str = "true") -> Path:
    """A root file system with the program /bin/NAME and its libraries."""
    program = Path(shutil.which(name) or f"/bin/{name}").resolve()
    listed = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, check=True
    ).stdout
    needed = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    for source, inside in [(program, f"/bin/{name}"), *((Path(word), word) for word in needed)]:
        place = target / inside.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)
    for folder in ("proc", "dev", "sys", "tmp"):
        (target / folder).mkdir(exist_ok=True)
    return target


def make_bundle(folder: Path) -> Path:
    """An OCI bundle with a configuration for each action: `true.json` and `date.json`. Raises
    RuntimeError without crun.
    """
    if shutil.which("crun") is None:
        raise RuntimeError("crun is not installed")
    for name in ("true", "date"):
        make_rootfs(folder / "rootfs", name)
    subprocess.run(["crun", "spec"], cwd=folder, check=True, capture_output=True, text=True)
    spec = json.loads((folder / "config.json").read_text())
    spec["root"] = {"path": "rootfs", "readonly": False}
    spec["process"] |= {"terminal": False}
    spec["process"].pop("rlimits", None)
    for kind, names in spec["process"].get("capabilities", {}).items():
        spec["process"]["capabilities"][kind] = [
            name for name in names if name != "CAP_SYS_RESOURCE"
        ]
    for name, words in (("true", ["/bin/true"]), ("date", DATE)):
        spec["process"]["args"] = words
        (folder / f"{name}.json").write_text(json.dumps(spec))
    return folder


def beside_unified(command: Sequence[str]) -> list[str]:
    """The command in a mount namespace without the version 2 hierarchy of control groups."""
    script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]


def find_daemon() -> str:
    """The address of a docker daemon that answers, or nothing."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    return host if _answers(host) else ""


@contextlib.contextmanager
def own_daemon(work: Path) -> Iterator[str]:
    """A docker daemon with everything below `work`; yields its address, or nothing when it does not
    start.
    """
    if shutil.which("dockerd") is None:
        yield ""
        return
    folder = work / "docker"
    folder.mkdir()
    host = f"unix://{folder}/docker.sock"
    command = [
        "dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
        "--pidfile", f"{folder}/pid", "--iptables=false", "--ip6tables=false", "--bridge=none",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        limit = time.monotonic() + _DAEMON_START
        while not _answers(host) and daemon.poll() is None and time.monotonic() < limit:
            time.sleep(0.2)
        yield host if _answers(host) else ""
    finally:
        daemon.terminate()
        daemon.wait(60)


def time_command(command: Sequence[str]) -> float:
    """Seconds that a command takes. Raises CalledProcessError when it fails."""
    began = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return time.perf_counter() - began


def _answers(host: str) -> bool:
    done = subprocess.run(["docker", "--host", host, "version"], capture_output=True, check=False)
    return done.returncode == 0


def _crun_loop(bundle: Path, action: str, count: int, *, at_once: int) -> dict[str, Any]:
    loop = [sys.executable, "-m", "bench.floors", str(bundle), action, str(count), str(at_once)]
    done = subprocess.run(beside_unified(loop), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"crun run failed: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(bundle: Path, action: str, count: int, at_once: int) -> None:
    """The loop in the mount namespace."""
    crun = ["crun", "--cgroup-manager=disabled", "run", "--bundle", str(bundle)]
    crun += ["--config", str(bundle / f"{action}.json")]

    def run(number: int) -> tuple[float, float]:
        command = [*crun, f"lading-bench-{os.getpid()}-{number}"]
        return time_to_date(command) if action == "date" else (0.0, time_command(command))

    run(-1)
    with ThreadPoolExecutor(at_once) as pool:
        began = time.perf_counter()
        each = list(pool.map(run, range(count)))
        seconds = time.perf_counter() - began
    starts, ends = zip(*each, strict=True)
    print(json.dumps({"starts": starts, "ends": ends, "all": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
