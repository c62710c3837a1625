from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.net import rpc
from lading.net.certificates import make_certificate
from lading.supervisor import journal, linux
from lading.supervisor.rootless import MOUNTS
from lading.testing.supervising import CONTAINER, SUPERVISOR_TOKEN
from tests.reality import need_root
from tests.supervisor.warm import PATIENCE, Parent, end, start_parent

OTHER = "zzzzz-dz642-000000000000002"


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    parent = start_parent(tmp_path)
    yield parent
    parent.connection.close()
    assert parent.process.wait(PATIENCE) == 0
    for uuid in (CONTAINER, OTHER):
        holder = (
            journal.read_holder(parent.run / uuid) if journal.is_held(parent.run / uuid) else None
        )
        if holder:
            os.kill(holder.PID, signal.SIGKILL)


def test_a_supervisor_is_started_with_its_pidfd(parent: Parent) -> None:
    message, (pidfd,) = parent.start()
    assert (message["op"], message["uuid"]) == ("started", CONTAINER)
    assert journal.is_held(parent.run / CONTAINER)
    parent.ask("list")
    assert os.getsid(message["pid"]) == message["pid"]
    end(pidfd)


def test_a_process_serves_the_next_container_and_ends_with_the_warm_parent(tmp_path: Path) -> None:
    parent = start_parent(tmp_path)
    started, (pidfd,) = parent.start(unreachable_timeout=0.01)
    assert parent.answer() == ({"op": "ended", "uuid": CONTAINER}, [])
    assert not (parent.run / CONTAINER).exists()
    again, (same,) = parent.start(OTHER, unreachable_timeout=0.01)
    assert again["pid"] == started["pid"]
    os.close(same)
    assert parent.answer()[0] == {"op": "ended", "uuid": OTHER}
    assert parent.ask("signal", uuid=OTHER, signal="KILL")[0]["delivered"] is False
    assert not select.select([pidfd], [], [], 0)[0]
    parent.connection.close()
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)
    assert parent.process.wait(PATIENCE) == 0


def test_it_serves_on_a_full_disk_too(tmp_path: Path) -> None:
    need_root()
    (tmp_path / "run").mkdir()
    linux.mount("tmpfs", str(tmp_path / "run"), "tmpfs", "nr_inodes=1")
    try:
        parent = start_parent(tmp_path)
        assert parent.ask("list")[0]["dead"] == []
        parent.connection.close()
        assert parent.process.wait(PATIENCE) == 0
    finally:
        linux.unmount(str(tmp_path / "run"))


def test_the_next_warm_parent_answers_when_the_last_one_has_ended(tmp_path: Path) -> None:
    first = start_parent(tmp_path)
    first.ask("list")
    second = start_parent(tmp_path)
    rpc.send_packet(second.connection, {"op": "list", "id": 7})
    assert not select.select([second.connection], [], [], 0)[0]
    message, (pidfd,) = first.start()
    first.connection.close()
    assert first.process.wait(PATIENCE) == 0
    listed, (again,) = second.answer()
    assert listed["live"] == [{"uuid": CONTAINER, "pid": message["pid"]}]
    os.close(again)
    end(pidfd)
    second.connection.close()
    assert second.process.wait(PATIENCE) == 0


def test_a_second_one_is_refused(parent: Parent) -> None:
    _, (pidfd,) = parent.start()
    message, descriptors = parent.start()
    assert (message["op"], descriptors) == ("refused", [])
    assert "already" in message["error"]
    end(pidfd)


def test_nothing_starts_where_an_earlier_supervisor_left_something(parent: Parent) -> None:
    (parent.run / CONTAINER).mkdir(parents=True)
    (parent.run / CONTAINER / "journal").touch()
    message, descriptors = parent.start()
    assert (message["op"], descriptors) == ("refused", [])
    assert "clean it first" in message["error"]
    assert parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""


@pytest.mark.parametrize(
    "changes", [{"run_directory": "/elsewhere"}, {"cache_size": "x"}, {"api_socket": ""}]
)
def test_what_cannot_be_started_is_refused(parent: Parent, changes: dict[str, Any]) -> None:
    message, _ = parent.start(**changes)
    assert message["op"] == "refused"
    assert SUPERVISOR_TOKEN not in message["error"]
    # The parent of an ordinary user has that directory from its start.
    assert [path for path in parent.run.iterdir() if path.name != MOUNTS] == []


def test_signals_reach_the_living(parent: Parent) -> None:
    _, (pidfd,) = parent.start()
    for name in ("USR1", "USR2"):
        assert parent.ask("signal", uuid=CONTAINER, signal=name)[0]["delivered"] is True
    assert not select.select([pidfd], [], [], 0)[0]
    assert parent.ask("signal", uuid=CONTAINER, signal="KILL")[0]["delivered"] is True
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)
    assert parent.ask("signal", uuid=CONTAINER, signal="TERM")[0]["delivered"] is False


def test_the_living_and_the_dead_are_listed_and_the_dead_cleaned(parent: Parent) -> None:
    _, (dying,) = parent.start()
    started, (living,) = parent.start(OTHER)
    (parent.run / "not a container").mkdir()
    end(dying)
    message, (pidfd,) = parent.ask("list")
    assert message["live"] == [{"uuid": OTHER, "pid": started["pid"]}]
    assert (message["dead"], message["more"]) == ([CONTAINER], False)
    os.close(pidfd)
    assert parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""
    assert parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""
    assert not (parent.run / CONTAINER).exists()
    assert "alive" in parent.ask("clean", uuid=OTHER)[0]["error"]
    end(living)


def test_supervisors_outlive_the_warm_parent_and_are_found_by_the_next(tmp_path: Path) -> None:
    first = start_parent(tmp_path)
    started, (pidfd,) = first.start()
    first.process.kill()
    first.process.wait(PATIENCE)
    first.connection.close()
    second = start_parent(tmp_path)
    message, (again,) = second.ask("list")
    assert message["live"] == [{"uuid": CONTAINER, "pid": started["pid"]}]
    end(pidfd)
    assert select.select([again], [], [], PATIENCE)[0]
    os.close(again)
    assert second.ask("clean", uuid=CONTAINER)[0]["error"] == ""
    second.connection.close()
    assert second.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    "data",
    [
        b"not JSON",
        b"[]",
        b"{}",
        b'{"op":"dance"}',
        b'{"op":"signal","uuid":"x","signal":"TERM"}',
        b'{"op":"clean"}',
    ],
)
def test_anything_else_is_an_error_of_one_line(parent: Parent, data: bytes) -> None:
    parent.connection.send(data)
    message, _ = parent.answer()
    assert message["op"] == "error"
    assert "\n" not in message["error"]


def test_an_unknown_signal_is_an_error(parent: Parent) -> None:
    assert parent.ask("signal", uuid=CONTAINER, signal="STOP")[0]["op"] == "error"


def test_many_are_listed_in_several_answers(parent: Parent) -> None:
    holders = []
    for number in range(205):
        uuid = f"zzzzz-dz642-{number:015d}"
        held = journal.acquire_lock(parent.run / uuid)
        journal.write_holder(held, journal.LockHolder(UUID=uuid, PID=os.getpid()))
        holders.append(held)
    first, some = parent.ask("list")
    last, rest = parent.answer()
    assert (len(some), len(rest), first["more"], last["more"]) == (200, 5, True, False)
    assert len(first["live"]) == 200
    for descriptor in (*holders, *some, *rest):
        os.close(descriptor)


def test_an_outpost_is_listed_until_it_is_cleared_away(parent: Parent) -> None:
    certificate, key = make_certificate("gang", now=datetime.now(UTC))
    known = {"uuid": CONTAINER, "ranks": 2, "certificate": certificate, "key": key}
    admitted, descriptors = parent.ask("admit", **known)
    assert (admitted["op"], descriptors, admitted["port"] > 0) == ("admitted", [], True)
    refused, _ = parent.ask("admit", **known)
    assert (refused["op"], "already" in refused["error"]) == ("refused", True)
    listed, _ = parent.ask("list")
    assert (listed["live"], listed["dead"], listed["outposts"]) == (
        [],
        [],
        [{"uuid": CONTAINER, "ranks": 2}],
    )
    assert parent.ask("clean", uuid=CONTAINER)[0]["error"] == ""
    assert parent.ask("list")[0]["outposts"] == []
    assert list((parent.run.parent / "outposts").iterdir()) == []
