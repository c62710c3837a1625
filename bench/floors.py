"""What the machine takes for a container without Lading: `crun run` and `docker run` of /bin/true.

Nothing is saved by either, so they are floors, not equals. crun refuses cgroup mounts of the hybrid
layout, so its loop runs in a mount namespace in which the version 2 hierarchy is taken away (lab
1); the loop is this module again:

    python -m bench.floors BUNDLE COUNT AT_ONCE     prints the seconds of each run as JSON
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

from bench.figures import Figure, absent, durations, throughput

_DAEMON_START = 30.0
_IMAGE = "lading-bench:floor"


def measure_crun(work: Path, *, count: int) -> list[Figure]:
    """`crun run` of /bin/true, one after another and two at a time."""
    name = "crun run alone"
    if shutil.which("crun") is None:
        return [absent(name, "crun is not installed")]
    try:
        bundle = make_bundle(work / "bundle")
        alone, _ = _crun_loop(bundle, count, at_once=1)
        pairs, seconds = _crun_loop(bundle, count, at_once=2)
    except subprocess.CalledProcessError as error:
        return [absent(name, f"failed: {(error.stderr or '').strip()[-200:]}")]
    return [
        durations(name, alone),
        throughput("crun run, two at a time", len(pairs), seconds, note="nothing is saved"),
    ]


def measure_docker(work: Path, *, count: int) -> Figure:
    """`docker run --rm --network none` of /bin/true, one after another; starts a daemon of its own
    if none answers.
    """
    name = "docker run alone"
    if shutil.which("docker") is None:
        return absent(name, "docker is not installed")
    with contextlib.ExitStack() as stack:
        host = find_daemon() or stack.enter_context(own_daemon(work))
        if not host:
            return absent(name, "no docker daemon answers and none could be started")
        docker = ["docker", "--host", host]
        rootfs = make_rootfs(work / "docker-rootfs")
        tar = subprocess.run(
            ["tar", "-C", str(rootfs), "-c", "."], stdout=subprocess.PIPE, check=True
        ).stdout
        subprocess.run(
            [*docker, "import", "-", _IMAGE], input=tar, stdout=subprocess.DEVNULL, check=True
        )
        stack.callback(
            subprocess.run, [*docker, "rmi", "-f", _IMAGE], stdout=subprocess.DEVNULL, check=False
        )
        command = [*docker, "run", "--rm", "--network", "none", _IMAGE, "/bin/true"]
        time_command(command)
        return durations(
            name, [time_command(command) for _ in range(count)], note="nothing is saved"
        )


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
    """An OCI bundle that runs /bin/true."""
    make_rootfs(folder / "rootfs")
    subprocess.run(["crun", "spec"], cwd=folder, check=True, capture_output=True, text=True)
    spec = json.loads((folder / "config.json").read_text())
    spec["root"] = {"path": "rootfs", "readonly": False}
    spec["process"] |= {"terminal": False, "args": ["/bin/true"]}
    spec["process"].pop("rlimits", None)
    for kind, names in spec["process"].get("capabilities", {}).items():
        spec["process"]["capabilities"][kind] = [
            name for name in names if name != "CAP_SYS_RESOURCE"
        ]
    (folder / "config.json").write_text(json.dumps(spec))
    return folder


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


def _crun_loop(bundle: Path, count: int, *, at_once: int) -> tuple[list[float], float]:
    loop = [sys.executable, "-m", "bench.floors", str(bundle), str(count), str(at_once)]
    script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *loop]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return measured["each"], measured["all"]


def _run_crun(bundle: Path, number: int) -> float:
    name = f"lading-bench-{os.getpid()}-{number}"
    return time_command(["crun", "--cgroup-manager=disabled", "run", "--bundle", str(bundle), name])


def main(bundle: Path, count: int, at_once: int) -> None:
    """The loop in the mount namespace."""
    _run_crun(bundle, -1)
    with ThreadPoolExecutor(at_once) as pool:
        began = time.perf_counter()
        each = list(pool.map(lambda number: _run_crun(bundle, number), range(count)))
        print(json.dumps({"each": each, "all": time.perf_counter() - began}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
