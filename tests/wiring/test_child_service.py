"""One child process of `lading up`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.wiring.child_service import ChildService

READY = "import os,sys,time; os.write(int(sys.argv[-1]), b'ready\\n'); "


def _service(tmp_path: Path, code: str, **more: float) -> ChildService:
    command = [sys.executable, "-S", "-c", code]
    return ChildService("child", command, tmp_path / "log", **more)  # type: ignore[arg-type]


async def test_a_service_starts_and_stops(tmp_path: Path) -> None:
    service = _service(tmp_path, READY + "time.sleep(60)")
    await service.start()
    await service.stop()
    await service.stop()


async def test_a_service_that_fails_is_quoted(tmp_path: Path) -> None:
    service = _service(tmp_path, "print('first'); print('the port is taken'); raise SystemExit(1)")
    with pytest.raises(Unavailable, match="the child did not start: the port is taken"):
        await service.start()


async def test_a_service_says_why_it_fails_where_its_log_cannot(tmp_path: Path) -> None:
    service = _service(tmp_path, "import os,sys; os.write(int(sys.argv[-1]), b'no room\\n')")
    with pytest.raises(Unavailable, match="the child did not start: no room"):
        await service.start()


async def test_the_error_in_a_group_is_told(tmp_path: Path) -> None:
    code = "raise ExceptionGroup('two tasks', [OSError('no room')])"
    with pytest.raises(Unavailable, match="the child did not start: OSError: no room"):
        await _service(tmp_path, code).start()


async def test_a_service_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    mark = tmp_path / "starts"
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGKILL) if starts < 3 else None\n"
    code = f"import sys; {COUNT}\n{dies}{READY}time.sleep(60)"
    service = ChildService("child", [sys.executable, "-S", "-c", code, str(mark)], tmp_path / "log")
    await service.start_though_killed()
    assert mark.read_text() == "xxx"
    await service.stop()


async def test_a_service_that_says_nothing(tmp_path: Path) -> None:
    service = _service(tmp_path, "pass")
    with pytest.raises(Unavailable, match="no message"):
        await service.start()


async def test_a_service_that_is_too_slow(tmp_path: Path) -> None:
    service = _service(tmp_path, "import time; time.sleep(60)", start_timeout=0.2)
    with pytest.raises(
        Unavailable,
        match="did not start within 0 s: it reported nothing; is the machine overloaded",
    ):
        await service.start()


COUNT = (
    "mark = open(sys.argv[-3], 'a+'); mark.write('x'); mark.seek(0); "
    "starts = len(mark.read()); mark.close(); "
)


@pytest.mark.parametrize("second", ["", "sys.exit('no') if starts == 2 else "])
async def test_a_service_that_ends_is_started_until_it_stays(tmp_path: Path, second: str) -> None:
    mark = tmp_path / "starts"
    code = f"import sys; {COUNT}\n{second}None\n{READY}time.sleep(60 if starts >= 3 else 0)"
    service = ChildService("child", [sys.executable, "-S", "-c", code, str(mark)], tmp_path / "log")
    await service.start()
    keeper = asyncio.create_task(service.keep())
    async with asyncio.timeout(180):
        while mark.read_text() != "xxx":
            await asyncio.sleep(0)
    keeper.cancel()
    await service.stop()


async def test_a_big_log_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "log" / "child.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(17 << 20)
    service = _service(tmp_path, READY + "time.sleep(60)")
    await service.start()
    await service.stop()
    assert log.stat().st_size == 0
    assert log.with_suffix(".log.1").exists()


async def test_a_service_without_a_file_logs_to_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = "import os,sys; print('heard', flush=True); os.write(int(sys.argv[-1]), b'no room\\n')"
    service = ChildService("child", [sys.executable, "-c", code], None)
    with pytest.raises(Unavailable, match=r"did not start: no room \(log: above\)"):
        await service.start()
    assert "heard" in capfd.readouterr().err
