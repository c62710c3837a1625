from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import NetworkAccess, native_network
from lading.supervisor.engines.native_network import NativeNetwork
from tests.reality import need_root
from tests.supervisor.network.namespaces import other_network

REACH = NetworkAccess(api=("127.0.0.1:7",))


async def runtime(script: str) -> asyncio.subprocess.Process:
    """A process in the place of crun."""
    return await asyncio.create_subprocess_exec("sh", "-c", script)


async def test_the_container_that_crun_tells_of_is_connected(tmp_path: Path) -> None:
    need_root()
    network = NativeNetwork(REACH, tmp_path)
    assert len(network.binds()) == 2
    with other_network() as pid:
        crun = await runtime(
            f'printf \'{{\\n"id": "x",\' > {network.notice}; sleep 0.1;'
            f"echo '\"pid\": {pid}}}' > {network.notice}; exec sleep 60"
        )
        await network.connect(crun.pid)
        assert "0100007F:0007" in Path(f"/proc/{pid}/net/tcp").read_text()
        with other_network() as another:
            await network.reconnect(another)
            assert "0100007F:0007" in Path(f"/proc/{another}/net/tcp").read_text()
            assert "0100007F:0007" not in Path(f"/proc/{pid}/net/tcp").read_text()
        crun.kill()
        await crun.wait()
    await network.close()
    await network.close()
    assert not (tmp_path / native_network.DIRECTORY).exists()


async def test_a_runtime_that_ends_at_once_says_why_elsewhere(tmp_path: Path) -> None:
    network = NativeNetwork(REACH, tmp_path)
    crun = await runtime("exit 1")
    await network.connect(crun.pid)
    await crun.wait()
    await network.close()


async def test_a_runtime_that_hangs_or_says_nonsense(tmp_path: Path) -> None:
    network = NativeNetwork(REACH, tmp_path)
    crun = await runtime("exec sleep 60")
    with pytest.raises(ExecutionError, match="in time"):
        await network.connect(crun.pid, timeout=0.1)
    Path(network.notice).write_text("nonsense\n")
    with pytest.raises(ExecutionError, match="too long"):
        await network.connect(crun.pid, most_bytes=3)
    crun.kill()
    await crun.wait()
    await network.close()
    assert os.path.lexists(tmp_path)
