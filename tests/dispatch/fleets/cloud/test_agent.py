from __future__ import annotations

import hashlib
import io
import json
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO, Any

import pytest

from lading.dispatch.fleets.cloud import agent

WARM = """#!{python}
import json, os, socket, sys
fd = int(sys.argv[sys.argv.index("--fd") + 1])
s = socket.socket(fileno=fd)
with open(sys.argv[sys.argv.index("--run") + 1] + "/arguments", "w") as file:
    json.dump(sys.argv, file)
while data := s.recv(1 << 20):
    m = json.loads(data)
    if m["op"] == "start":
        pid = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", m["seconds"]])
        out = {{"op": "started", "id": m["id"], "uuid": m["uuid"]}}
        socket.send_fds(s, [json.dumps(out).encode()], [os.pidfd_open(pid)])
    elif m["op"] == "finish":
        s.send(json.dumps({{"op": "ended", "uuid": m["uuid"]}}).encode())
    elif m["op"] == "ask":
        s.send(json.dumps({{"op": "asking", "uuid": m["uuid"]}}).encode())
    elif m["op"] == "signal":
        s.send(json.dumps({{"op": "signalled", "uuid": m["uuid"], "signal": m["signal"]}}).encode())
    elif m["op"] == "die":
        os._exit(1)
    else:
        s.send(json.dumps({{"op": "listed", "id": m["id"], "live": [], "dead": ["d"]}}).encode())
"""


def archive(tmp_path: Path) -> tuple[Path, str]:
    """A runner whose forkserver is a script."""
    packed = tmp_path / "runner.tgz"
    if packed.exists():
        # Made again a second later it would have another hash.
        return packed, hashlib.sha256(packed.read_bytes()).hexdigest()
    with tarfile.open(packed, "w:gz") as tar:
        data = WARM.format(python=sys.executable).encode()
        entry = tarfile.TarInfo("bin/python")
        entry.size, entry.mode = len(data), 0o755
        tar.addfile(entry, io.BytesIO(data))
    return packed, hashlib.sha256(packed.read_bytes()).hexdigest()


def run(*arguments: str, data: IO[bytes] | None = None) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, str(agent.__file__), *arguments]
    done = subprocess.run(
        command, stdin=data or subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def install(tmp_path: Path) -> str:
    packed, digest = archive(tmp_path)
    with packed.open("rb") as data:
        assert run("install", str(tmp_path / "vm"), digest, data=data) == (
            0,
            {"op": "installed", "runner": digest},
        )
    return digest


def test_a_machine_says_what_it_is(tmp_path: Path) -> None:
    code, told = run("check", str(tmp_path / "vm"))
    assert code == 0
    assert told["python"] == list(sys.version_info[:3])
    assert (told["runners"], told["broken"]) == ([], "")


def test_a_runner_is_unpacked_once_its_hash_is_right(tmp_path: Path) -> None:
    digest = install(tmp_path)
    assert install(tmp_path) == digest
    assert run("check", str(tmp_path / "vm"))[1]["runners"] == [digest]
    assert (tmp_path / f"vm/runner~{digest}/bin/python").stat().st_mode & stat.S_IXUSR
    assert [path.name for path in (tmp_path / "vm").iterdir()] == [f"runner~{digest}"]


def test_a_damaged_runner_is_refused(tmp_path: Path) -> None:
    packed, _ = archive(tmp_path)
    with packed.open("rb") as data:
        code, told = run("install", str(tmp_path / "vm"), "0" * 64, data=data)
    assert (code, told["op"]) == (3, "refused")
    assert list((tmp_path / "vm").iterdir()) == []


def test_a_machine_says_which_images_it_has(tmp_path: Path) -> None:
    images = tmp_path / "cache" / "images"
    images.mkdir(parents=True)
    (images / "d41d8cd98f00b204e9800998ecf8427e+0.json").touch()
    (images / "d41d8cd98f00b204e9800998ecf8427e+0.lock").touch()
    assert agent.images(str(tmp_path)) == ["d41d8cd98f00b204e9800998ecf8427e+0"]
    assert agent.images(str(tmp_path / "none")) == []


def test_a_broken_machine_says_why(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/crunch-run-broken").write_text("no crun\n")
    assert run("check", str(tmp_path))[1]["broken"] == "no crun"
    (tmp_path / "locks/crunch-run-broken").write_text("")
    assert run("check", str(tmp_path))[1]["broken"] == "no reason is given"


def test_the_end_of_the_log_of_supervisors_is_bounded(tmp_path: Path) -> None:
    assert agent.tail(str(tmp_path)) == ""
    (tmp_path / "supervisors.log").write_bytes(b"\xff" * (100 << 10) + b"the end")
    assert agent.tail(str(tmp_path)).endswith("the end")
    assert len(agent.tail(str(tmp_path))) == agent.TAIL


@pytest.fixture
def serving(tmp_path: Path) -> Any:
    command = [
        sys.executable,
        str(agent.__file__),
        "serve",
        str(tmp_path / "vm"),
        install(tmp_path),
        "native",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


def ask(process: Any, **request: Any) -> None:
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()


def hear(process: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def test_requests_and_answers_pass_through(serving: Any) -> None:
    ask(serving, op="list", id=1)
    assert hear(serving) == {"op": "listed", "id": 1, "live": [], "dead": ["d"]}
    ask(serving, op="ping", id=2)
    assert hear(serving) == {"op": "pong", "id": 2, "broken": "", "unremoved": 0, "images": []}


def test_prices_are_left_for_supervisors_who_are_told(serving: Any, tmp_path: Path) -> None:
    history = [{"StartTime": "2030-01-01T00:00:00Z", "Price": 0.25}]
    ask(serving, op="start", id=1, uuid="u", seconds="0.5")
    assert hear(serving)["op"] == "started"
    ask(serving, op="prices", id=2, history=history)
    assert hear(serving) == {"op": "priced", "id": 2}
    assert json.loads((tmp_path / "vm/locks/crunch-run-prices.json").read_text()) == history
    assert hear(serving) == {"op": "signalled", "uuid": "u", "signal": "USR2"}


def test_a_supervisor_that_is_prepared_goes_on_at_once(serving: Any) -> None:
    """The room that it has on the machine is its own while it is prepared: nobody else has to be
    asked.
    """
    ask(serving, op="ask", uuid="u")
    assert hear(serving) == {"op": "asking", "uuid": "u"}
    assert hear(serving) == {"op": "signalled", "uuid": "u", "signal": "CONT"}


def test_the_end_of_a_supervisor_is_told_at_once(serving: Any) -> None:
    ask(serving, op="start", id=1, uuid="u", seconds="0.05")
    assert hear(serving)["op"] == "started"
    assert hear(serving) == {"op": "ended", "uuid": "u"}


def test_one_that_ended_in_good_order_is_told_once(serving: Any) -> None:
    ask(serving, op="start", id=1, uuid="u", seconds="0.2")
    hear(serving)
    ask(serving, op="finish", uuid="u")
    assert hear(serving) == {"op": "ended", "uuid": "u"}
    ask(serving, op="start", id=2, uuid="v", seconds="0.3")
    assert hear(serving)["uuid"] == "v"
    assert hear(serving) == {"op": "ended", "uuid": "v"}


def test_it_ends_with_the_warm_parent(serving: Any) -> None:
    ask(serving, op="die")
    assert serving.wait(10) == 1
