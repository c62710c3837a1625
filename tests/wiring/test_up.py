"""The parent: children are started, watched, started again and stopped."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.wiring.child_service import ChildService
from lading.wiring.up import main, start_all


@pytest.mark.parametrize("listen", ["", "9440", "host:", "host:port", "host:70000"])
def test_what_is_no_address(tmp_path: Path, listen: str) -> None:
    with pytest.raises(Invalid, match="not HOST:PORT"):
        main(tmp_path, listen, on_ready=lambda _: None)
    with pytest.raises(Invalid, match="not HOST:PORT"):
        main(tmp_path, "127.0.0.1:1", also=[listen], on_ready=lambda _: None)


async def test_being_told_to_stop_while_it_starts_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    services = [ChildService("child", command, tmp_path / "log")]
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    assert await start_all(services, stop) is False
    for service in services:
        await service.stop()
