"""`python scripts/request_files.py [--list]`: source files that one container request executes.

Starts the installed `lading up` on a temporary directory, with the local fleet and the engine that
`Containers.RuntimeEngine` names by default, and sends one `POST container_requests`. A trace
function in the processes of `lading up` (server, dispatcher, forkserver, supervisor) notes each
file below the package `lading` of which a function is called until the request is Final in the
database. Bodies of modules and classes do not count, nor does the client that sends the request.

The first request of an installation unpacks the image; three further ones, which are measured, find
it unpacked. A file counts if each of the three executes it: periodic work of the server and the
dispatcher, such as a sweep, runs beside one of them by chance and is no part of a request's way.
Run it with the interpreter of the checkout that is to be measured, as root.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import inspect
import json
import mmap
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

_SHARED = "LADING_REQUEST_FILES"
_MEASURED = 3
"""Requests that are measured, one after another."""
_PATIENCE = 120.0
_PAUSE = 0.005
"""Seconds between two looks into the database; far below the 0.1 s or so that a request takes."""
_REQUEST = {
    "command": ["sh", "-c", "echo done > /out/result"],
    "container_image": "tools:1",
    "output_path": "/out",
    "mounts": {"/out": {"kind": "tmp"}},
    "runtime_constraints": {"vcpus": 1, "ram": 64 << 20},
    "priority": 1,
    "state": "Committed",
    "use_existing": False,
}


def main(arguments: list[str]) -> None:
    """Measure, and print the number of files in each package and in all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the files too")
    chosen = parser.parse_args(arguments)
    executed = measure(_sources())
    packages = Counter(path.split("/")[0] for path in executed)
    for package, number in sorted(packages.items()):
        print(f"{package:<24}{number:>4}")
    print(f"{'all':<24}{len(executed):>4}")
    if chosen.list:
        print("\n".join(executed))


def measure(sources: list[Path]) -> list[str]:
    """Paths below the package of the files that a request executes."""
    with tempfile.TemporaryDirectory(prefix="request-files-") as name:
        directory = Path(name)
        with _shared_map(directory / "map", 1 + len(sources)) as marks:
            hook = directory / "hook"
            hook.mkdir()
            (hook / "sitecustomize.py").write_text(_HOOK.format(script=str(Path(__file__))))
            with _running(directory / "data", hook, directory / "map") as environment:
                _lading(environment, "image", "add", "--name", "tools:1", "--from-host", "sh")
                database = directory / "data" / "db.sqlite"
                _run(environment, database)
                counted = set(range(1, 1 + len(sources)))
                for _ in range(_MEASURED):
                    time.sleep(2)  # The supervisor of the one before ends; its report is sent.
                    marks[:] = bytes(len(marks))
                    marks[0] = 1
                    _run(environment, database)
                    marks[0] = 0
                    counted = {at for at in counted if marks[at]}
            root = sources[0].parent
            return [str(sources[at - 1].relative_to(root)) for at in sorted(counted)]


def install(shared: str) -> None:
    """Trace the calls of this process and of all that it forks into a map in shared memory.

    Byte 0 of the map says whether to note calls; each further byte stands for one source file. A
    map needs no open file, so that it outlives what a supervisor does to its descriptors.
    """
    numbers = {str(path): number for number, path in enumerate(_sources(), 1)}
    with open(shared, "r+b") as file:
        marks = mmap.mmap(file.fileno(), 0)

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        if marks[0]:
            code = frame.f_code
            number = numbers.get(code.co_filename)
            if number and code.co_flags & inspect.CO_OPTIMIZED:
                marks[number] = 1

    threading.settrace(note)
    sys.settrace(note)


_HOOK = """\
import importlib.util
import os

spec = importlib.util.spec_from_file_location("request_files", {script!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.install(os.environ["LADING_REQUEST_FILES"])
"""


def _sources() -> list[Path]:
    found = importlib.util.find_spec("lading")
    assert found is not None
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0]).resolve()
    return [root / "__init__.py", *sorted(set(root.rglob("*.py")) - {root / "__init__.py"})]


@contextmanager
def _shared_map(path: Path, size: int) -> Iterator[mmap.mmap]:
    path.write_bytes(bytes(size))
    with path.open("r+b") as file, closing(mmap.mmap(file.fileno(), 0)) as marks:
        yield marks


@contextmanager
def _running(data: Path, hook: Path, shared: Path) -> Iterator[dict[str, str]]:
    """The environment of clients of a traced `lading up`."""
    paths = os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH"))))
    traced = {**os.environ, "PYTHONPATH": paths, _SHARED: str(shared)}
    command = [_program(), "up", "--data", str(data), "--listen", f"127.0.0.1:{_free_port()}"]
    with subprocess.Popen(command, env=traced, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if "ready" not in process.stdout.readline():
                raise SystemExit("lading up did not start")
            lines = (data / "env").read_text().splitlines()
            exported = (line.removeprefix("export ").split("=", 1) for line in lines)
            yield os.environ | dict(exported)
        finally:
            process.send_signal(signal.SIGTERM)


def _run(environment: dict[str, str], database: Path) -> None:
    """Send the request and wait until it is Final; the wait asks the database, not the server."""
    secure = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(environment["ARVADOS_API_HOST"], context=secure)
    headers = {
        "Authorization": f"Bearer {environment['ARVADOS_API_TOKEN']}",
        "Content-Type": "application/json",
    }
    body = json.dumps({"container_request": _REQUEST})
    with closing(connection):
        connection.request("POST", "/arvados/v1/container_requests", body, headers)
        answer = connection.getresponse()
        told = json.load(answer)
    if answer.status != 200:
        raise SystemExit(f"POST container_requests: {answer.status} {told}")
    until = time.monotonic() + _PATIENCE
    while _state(database, told["uuid"]) != "Final":
        if time.monotonic() > until:
            raise SystemExit(f"{told['uuid']} is not Final after {_PATIENCE:.0f} s")
        time.sleep(_PAUSE)


def _state(database: Path, uuid: str) -> str:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        query = "SELECT state FROM container_requests WHERE uuid = ?"
        return str(connection.execute(query, (uuid,)).fetchone()[0])


def _lading(environment: dict[str, str], *arguments: str) -> None:
    subprocess.run([_program(), *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


def _program() -> str:
    return str(Path(sys.executable).with_name("lading"))


if __name__ == "__main__":
    main(sys.argv[1:])
