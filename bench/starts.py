"""Processor time of the start and the command of one container: lading-start and crun in turns.

Both get the configuration of the native engine with a user namespace: the same walls. The command
does nothing. Needs root.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import Figure, absent, durations
from bench.floors import make_rootfs
from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent
from lading.hpc.processes import adopt_orphans
from lading.supervisor import linux
from lading.supervisor.engines import crun
from lading.supervisor.engines.bundle import OPEN_LINE, Bundle, make_config
from lading.supervisor.engines.seccomp import make_program
from lading.supervisor.starter import starter
from lading.supervisor.starter.plan import Gate, container_plan

STARTER_LIMIT = 4.0
"""Milliseconds of lading-start that are promised."""
_IDS = Extent(0, 3_000_000_000, 65_536)
_UNIFIED = "/sys/fs/cgroup/unified"


def measure(*, starts: int) -> list[Figure]:
    """The figures of so many starts of each, and of a program without a container."""
    if os.geteuid() != 0 or starter.fault():
        return [absent("lading-start", starter.fault() or "only root")]
    # In a process of its own, which other measurements do not share.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure, starts).result()


def _measure(starts: int) -> list[Figure]:
    # A container's first process ends as an orphan, and its time counts once it is collected.
    adopt_orphans()
    linux.leave_mount_namespace()
    # crun refuses version 2 of control groups beside version 1.
    subprocess.run(["umount", _UNIFIED], stderr=subprocess.DEVNULL, check=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The root of the containers enters it.
        folder.chmod(0o755)
        config = _config(make_rootfs(folder / "rootfs"))
        contenders: dict[str, Callable[[], float]] = {
            "/bin/true": lambda: _time(["/bin/true"]),
            "lading-start and /bin/true": lambda: _start(folder, config),
        }
        if shutil.which(crun.PROGRAM):
            crun.sealed.seal()
            contenders["crun and /bin/true"] = lambda: _crun(folder, config)
        return _in_turns(contenders, starts)


def _config(rootfs: Path) -> dict[str, Any]:
    process = ImageProcess(
        arguments=("/bin/true",), environment=(("PATH", "/bin"),), cwd="/", user=""
    )
    bundle = Bundle(
        rootfs=str(rootfs),
        process=process,
        account=Account(0, 0),
        binds=(),
        gate="",
        machine=os.uname().machine,
        ids=(_IDS,),
    )
    return make_config(bundle)


def _start(folder: Path, config: Mapping[str, Any]) -> float:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    plan = os.memfd_create("plan")
    starter.warm()
    with contextlib.ExitStack() as stack:
        for descriptor in (reading, plan):
            stack.callback(os.close, descriptor)
        os.write(writing, OPEN_LINE)
        os.close(writing)
        program = make_program(os.uname().machine)
        os.write(plan, container_plan(config, program, Gate(descriptor=reading)))
        status = folder / "status"
        status.unlink(missing_ok=True)
        words = [starter.NAME, "run", str(plan), str(status), str(folder / "log")]
        path, descriptors = starter.program()
        return _time(words, executable=path, descriptors=(reading, plan, *descriptors))


def _crun(folder: Path, config: Mapping[str, Any]) -> float:
    content = msgspec.json.encode({**config, "hooks": {}})
    (folder / "config.json").write_bytes(content)
    options = ["--root", str(folder / "crun"), "--cgroup-manager=disabled"]
    descriptor = crun.sealed.descriptor
    return _time(
        [crun.PROGRAM, *options, "run", "--bundle", str(folder), f"bench{os.getpid()}"],
        executable=f"/proc/self/fd/{descriptor}" if descriptor >= 0 else crun.PROGRAM,
        descriptors=[descriptor] if descriptor >= 0 else [],
    )


def _time(
    command: Sequence[str], *, executable: str = "", descriptors: Sequence[int] = ()
) -> float:
    """Seconds of processor time of a program and all that it starts. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # crun gives the files of its streams to the container's root; these are of a read-only mount.
    null = crun.null()
    subprocess.run(
        command,
        executable=executable or None,
        stdin=null,
        stdout=null,
        stderr=null,
        pass_fds=descriptors,
        check=True,
    )
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _in_turns(contenders: Mapping[str, Callable[[], float]], starts: int) -> list[Figure]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    # The first of each fills caches.
    for number in range(starts + 1):
        for name, start in contenders.items():
            seconds = start()
            if number:
                times[name].append(seconds)
    return [
        durations(
            f"{name}, processor time",
            seconds,
            p50_limit=STARTER_LIMIT if name.startswith(starter.NAME) else None,
        )
        for name, seconds in times.items()
    ]
