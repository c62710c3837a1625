"""`python scripts/request_files.py [--list] [--functions]`: the code that one request executes.

Starts the installed `lading up` on a temporary directory, with the local fleet and the engine that
`Containers.RuntimeEngine` names by default, and sends one `POST container_requests`. A trace
function in the processes of `lading up` (server, dispatcher, forkserver, supervisor) notes each
function below the package `lading` that is called until the request is Final in the database.
Bodies of modules and classes do not count, nor do lambdas and comprehensions, nor does the client
that sends the request.

The first request of an installation unpacks the image; three further ones, which are measured, find
it unpacked. A function counts if each of the three calls it, and so does its file: periodic work of
the server and the dispatcher, such as a sweep, runs beside one of them by chance and is no part of
a request's way.

A climb is a step of `create_request` up a layer: within the handler, the function that is entered
next is of a higher layer (api, store, net, core) than the one that was entered before.
Run it with the interpreter of the checkout that is to be measured, as root.
"""

from __future__ import annotations

import argparse
import dis
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
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

_SHARED = "LADING_REQUEST_FILES"
_MEASURED = 3
"""Requests that are measured, one after another."""
_HANDLER = "create_request"
_LAYERS = ("api", "store", "net", "core")
"""Layers of the climbs, the highest first."""
_ENTERED = 1 << 14
"""Functions that the handler enters, at most."""
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


@dataclass(frozen=True)
class Way:
    """What each measured request executes: functions as `path:line name`, and their files; those
    that the handler of the call enters, in the order of the last request.
    """

    functions: list[str]
    entered: list[str]

    @property
    def files(self) -> list[str]:
        """The files of the functions."""
        return sorted({function.partition(":")[0] for function in self.functions})

    @property
    def climbs(self) -> int:
        """Steps of the handler up a layer."""
        layers = [function.partition("/")[0] for function in self.entered]
        ranks = [_LAYERS.index(layer) for layer in layers if layer in _LAYERS]
        return sum(1 for before, after in pairwise(ranks) if after < before)


def main(arguments: list[str]) -> None:
    """Measure, and print the number of files in each package and in all, functions and climbs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the files too")
    parser.add_argument("--functions", action="store_true", help="print the functions too")
    parser.add_argument("--entered", action="store_true", help="print what the handler enters too")
    chosen = parser.parse_args(arguments)
    way = measure()
    packages = Counter(path.split("/")[0] for path in way.files)
    for package, number in sorted(packages.items()):
        print(f"{package:<24}{number:>5}")
    print(f"{'files':<24}{len(way.files):>5}")
    print(f"{'functions':<24}{len(way.functions):>5}")
    print(f"{'climbs':<24}{way.climbs:>5}")
    if chosen.list:
        print("\n".join(way.files))
    if chosen.functions:
        print("\n".join(way.functions))
    if chosen.entered:
        print("\n".join(way.entered))


def measure() -> Way:
    """The way of a request through the installed package."""
    functions = _functions()
    numbers = range(1, 1 + len(functions))
    with tempfile.TemporaryDirectory(prefix="request-files-") as name:
        directory = Path(name)
        with _shared_map(directory / "map", _size(len(functions))) as marks:
            hook = directory / "hook"
            hook.mkdir()
            (hook / "sitecustomize.py").write_text(_HOOK.format(script=str(Path(__file__))))
            with _running(directory / "data", hook, directory / "map") as environment:
                _lading(environment, "image", "add", "--name", "tools:1", "--from-host", "sh")
                database = directory / "data" / "db.sqlite"
                _run(environment, database)
                counted = set(numbers)
                for _ in range(_MEASURED):
                    time.sleep(2)  # The supervisor of the one before ends; its report is sent.
                    marks[:] = bytes(len(marks))
                    marks[0] = 1
                    _run(environment, database)
                    marks[0] = 0
                    counted = {at for at in counted if marks[at]}
            entered = _read_entered(marks, len(functions))
            titles = [f"{path}:{line} {name}" for path, line, name in functions]
            return Way(
                [titles[at - 1] for at in sorted(counted)],
                [titles[at - 1] for at in entered],
            )


def install(shared: str) -> None:
    """Trace the calls of this process and of all that it forks into a map in shared memory.

    Byte 0 of the map says whether to note calls; each further byte stands for one function; after
    them comes the number of the functions that the handler of the call entered, and then the
    functions. A map needs no open file, so that it outlives what a supervisor does to its
    descriptors.
    """
    root, functions = str(_root()) + os.sep, _functions()
    numbers = {
        (root + path, line, name): number for number, (path, line, name) in enumerate(functions, 1)
    }
    handler = numbers[next(key for key in numbers if key[2] == _HANDLER)]
    with open(shared, "r+b") as file:
        marks = mmap.mmap(file.fileno(), 0)
    log = 1 + len(functions)

    def number_of(frame: FrameType) -> int | None:
        code = frame.f_code
        return numbers.get((code.co_filename, code.co_firstlineno, code.co_name))

    def is_handled(frame: FrameType | None) -> bool:
        while frame is not None:
            if number_of(frame) == handler:
                return True
            frame = frame.f_back
        return False

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        if not marks[0] or (number := number_of(frame)) is None:
            return
        marks[number] = 1
        if _begins(frame) and is_handled(frame):
            length = int.from_bytes(marks[log : log + 4], "big")
            if length < _ENTERED:
                at = log + 4 + 4 * length
                marks[at : at + 4] = number.to_bytes(4, "big")
                marks[log : log + 4] = (length + 1).to_bytes(4, "big")

    threading.settrace(note)
    sys.settrace(note)


def _begins(frame: FrameType) -> bool:
    """Whether the call of this frame is its first, and no resumption of a coroutine."""
    code = frame.f_code.co_code
    return code[frame.f_lasti] == dis.opmap["RESUME"] and code[frame.f_lasti + 1] == 0


def _size(functions: int) -> int:
    return 1 + functions + 4 + 4 * _ENTERED


def _read_entered(marks: mmap.mmap, functions: int) -> list[int]:
    log = 1 + functions
    length = int.from_bytes(marks[log : log + 4], "big")
    places = range(log + 4, log + 4 + 4 * length, 4)
    return [int.from_bytes(marks[at : at + 4], "big") for at in places]


_HOOK = """\
import importlib.util
import os
import sys

spec = importlib.util.spec_from_file_location("request_files", {script!r})
module = importlib.util.module_from_spec(spec)
sys.modules["request_files"] = module
spec.loader.exec_module(module)
module.install(os.environ["LADING_REQUEST_FILES"])
"""


def _root() -> Path:
    found = importlib.util.find_spec("lading")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]).resolve()


def _functions() -> list[tuple[str, int, str]]:
    """All functions of the package: path below it, first line, name."""
    root = _root()
    return [
        (str(path.relative_to(root)), code.co_firstlineno, code.co_name)
        for path in sorted(root.rglob("*.py"))
        for code in _codes(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    ]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


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
