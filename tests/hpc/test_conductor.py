"""A cluster conducted, with daemons that are acted; real ones are in tests/system."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.core.hpc.gang import LOST, FailurePolicy, Launcher
from lading.hpc import conductor, network, processes
from lading.hpc.conductor import COULD_NOT, Conductor, main
from lading.hpc.ranks import NativeGround, Rank
from tests.hpc.test_plan import PLAN


@dataclass
class Daemon:
    """Plays its states one after the other, the last for ever; an exception is raised instead."""

    states: list[Any]
    host: str = ""
    results: str = "Stopped"
    stdout: bytes = b""
    told: list[Any] = field(default_factory=list)
    configured: dict[str, Any] = field(default_factory=dict)

    async def ask(self, path: str) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.told.append("closed")

    async def follow(self, known: str, *, wait: float) -> tuple[str, dict[str, Any]]:
        state = self.states[0] if len(self.states) == 1 else self.states.pop(0)
        if isinstance(state, Exception):
            raise state
        code = 0 if state == "Stopped" else 7
        logs = {"stdout": len(self.stdout), "stderr": 0}
        return "", {
            "codeStatus": state, "resultStatus": self.results, "percentComplete": None,
            "codeExitStatus": code, "reason": "", "logs": logs,
        }  # fmt: skip

    async def tell(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.configured |= body
        return {}

    async def put_file(self, name: str, path: Path) -> None:
        self.configured.setdefault("files", {})[name] = path

    async def command(self, word: str, *, grace: float = 0.0) -> dict[str, Any]:
        del grace
        self.told.append(word)
        if word == "kill":
            self.states = ["Killed"]
        return {}

    async def log(self, name: str, offset: int) -> bytes:
        return self.stdout[offset:]


@dataclass
class Stage:
    """A conductor with its daemons, and what it has written and said."""

    conductor: Conductor
    daemons: list[Daemon]
    written: dict[str, bytes]
    said: list[str]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def make(
        *daemons: Daemon,
        launcher: Launcher = Launcher.FIRST,
        ready_time: float = 60.0,
        first_time: float = 15.0,
        look_time: float = 0.5,
    ) -> Stage:
        waiting = iter(daemons)

        def reach(host: str, _: object) -> Daemon:
            daemon = next(waiting)
            daemon.host = host
            return daemon

        monkeypatch.setattr(conductor, "DaemonClient", reach)
        bundles = tuple(f"/b/{n}" for n in range(len(daemons)))
        plan = replace(
            PLAN,
            bundles=bundles,
            launcher=launcher,
            spool=str(tmp_path),
            policy=FailurePolicy.ANY,
            stop_grace=2.5,
        )
        said: list[str] = []
        texts: dict[str, bytes] = {"stdout": b"", "stderr": b""}

        def write(name: str, data: bytes) -> None:
            texts[name] += data

        return Stage(
            Conductor(
                plan,
                ground=NativeGround("u", bundles, ()),
                write=write,
                say=said.append,
                ready_time=ready_time,
                first_time=first_time,
                look_time=look_time,
            ),
            list(daemons),
            texts,
            said,
        )

    async def nothing(*_: Any) -> None:
        return None

    async def start(self: Rank, *_: Any) -> None:
        return None

    monkeypatch.setattr(network, "make_bridge", nothing)
    monkeypatch.setattr(processes, "end_with_parent", lambda: None)
    monkeypatch.setattr(Rank, "start", start)
    monkeypatch.setattr(conductor, "PERIOD", 0.001)
    monkeypatch.setattr("lading.core.hpc.gang.PATIENCE", 0.05)
    return make


async def test_rank_0_runs_and_the_others_follow(stage: Any) -> None:
    it = stage(
        Daemon(["Running", "Stopped"], stdout=b"hello\n"), Daemon(["Waiting", "Running", "Stopped"])
    )
    assert await it.conductor.run(lambda: True) == 0
    assert it.written == {"stdout": b"hello\n", "stderr": b""}
    assert [one.told for one in it.daemons] == [["start", "closed"], ["closed"]]
    settings = it.daemons[1].configured["daemonParameters"]
    assert settings["sshAddresses"] == {"0": "10.77.0.1:22", "1": "10.77.0.2:22"}
    assert "codeName" not in settings
    assert settings["killGrace"] == 3
    assert it.daemons[0].configured["codeParameters"]["A"] == "b"
    assert [one.configured["files"] for one in it.daemons] == [{"mesh": Path("/s/1")}] * 2
    assert it.said[:2] == ["2 containers started", "all ranks are configured"]


async def test_one_rank_s_failure_ends_all(stage: Any, tmp_path: Path) -> None:
    it = stage(
        Daemon(["Running"], stdout=b"a\nb\n"),
        Daemon(["Error"], stdout=b"half"),
        launcher=Launcher.ALL,
    )
    assert await it.conductor.run(lambda: True) == 7
    assert [one.told for one in it.daemons] == [["start", "kill", "closed"], ["start", "closed"]]
    assert sorted(it.written["stdout"].splitlines()) == [b"[0] a", b"[0] b", b"[1] half"]
    assert it.written["stderr"] == b"lading: rank 1 failed: exit code 7\n"
    assert (tmp_path / "0.stdout").read_bytes() == b"a\nb\n"


async def test_a_full_disk_ends_what_is_kept_of_the_streams(
    stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor, "spool_room", lambda _: 3)
    it = stage(Daemon(["Running", "Stopped"], stdout=b"a\nb\n"), launcher=Launcher.ALL)
    assert await it.conductor.run(lambda: True) == 0
    assert it.written["stdout"] == b"[0] a\n[0] b\n"
    assert (tmp_path / "0.stdout").read_bytes().startswith(b"lading: the disk is full")
    assert any("the disk is full" in line for line in it.said)


async def test_a_rank_that_is_silent_is_lost(stage: Any) -> None:
    it = stage(Daemon(["Running"]), Daemon([Unavailable("gone")]))
    assert await it.conductor.run(lambda: True) == LOST
    assert it.daemons[0].told == ["start", "kill", "closed"]
    assert any("was lost" in line for line in it.said)


async def test_who_is_told_to_stop_ends_all(stage: Any) -> None:
    it = stage(Daemon(["Running"]), Daemon(["Waiting"]))
    it.conductor.stop.set()
    assert await it.conductor.run(lambda: True) == 143
    assert it.daemons[0].told == ["start", "kill", "closed"]


async def test_behind_a_closed_gate_nothing_starts(stage: Any) -> None:
    it = stage(Daemon(["Waiting"]), Daemon(["Waiting"]))
    assert await it.conductor.run(lambda: False) == COULD_NOT
    assert [one.told for one in it.daemons] == [[], []]


async def test_if_one_does_not_come_up_none_is_started(stage: Any) -> None:
    async def never(path: str) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    silent = Daemon(["Waiting"])
    silent.ask = never  # type: ignore[method-assign]
    it = stage(Daemon(["Waiting"]), silent, ready_time=0.01)
    with pytest.raises(ExecutionError, match="did not all answer") as caught:
        await it.conductor.run(lambda: True)
    assert caught.value.failure is Failure.INFRASTRUCTURE
    assert [one.told for one in it.daemons] == [[], []]


async def never(path: str) -> dict[str, Any]:
    raise Unavailable("refused")


async def test_an_image_without_the_daemon_is_to_blame(stage: Any) -> None:
    daemons = Daemon(["Waiting"]), Daemon(["Waiting"])
    for daemon in daemons:
        daemon.ask = never  # type: ignore[method-assign]
    it = stage(*daemons, ready_time=60.0, first_time=-0.99)
    with pytest.raises(ExecutionError, match="no rank has one that answers") as caught:
        await it.conductor.run(lambda: True)
    assert caught.value.failure is Failure.IMAGE


async def test_a_first_process_that_has_ended_is_noticed(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(self: NativeGround, number: int) -> str:
        return "hello"

    monkeypatch.setattr(NativeGround, "ended", ended)
    daemon = Daemon(["Waiting"])
    daemon.ask = never  # type: ignore[method-assign]
    it = stage(daemon, look_time=0.0)
    with pytest.raises(ExecutionError, match="rank 0 ended before: hello") as caught:
        await it.conductor.run(lambda: True)
    assert caught.value.failure is Failure.IMAGE


def test_why_nothing_was_run_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted", "network namespace")

    monkeypatch.setattr(network, "leave_network", refuse)
    monkeypatch.setattr(processes, "end_with_parent", lambda: None)
    plan = replace(PLAN, fault=str(tmp_path / "fault"))
    plan.write(tmp_path / "plan")
    assert main(str(tmp_path / "plan")) == COULD_NOT
    assert "the cluster cannot be made" in (tmp_path / "fault").read_text()
