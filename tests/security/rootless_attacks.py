"""What code in a container of an ordinary user asks of the kernel; `test_rootless` runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.engines.rootless_engine import RootlessEngine
from lading.testing.conformance.engines import Kit
from tests.security.test_native_isolation import Attacks


class TestRootless(Attacks):
    """Against the native engine of an ordinary user."""

    counts = False

    @pytest.fixture
    def kit(self, tmp_path: Path) -> Kit:
        return Kit(RootlessEngine, tmp_path, is_of_user=True)

    @pytest.mark.attack("is root of the user namespace that starts all containers of a user")
    async def test_a_container_has_a_namespace_of_its_own(self, kit: Kit) -> None:
        async with kit.running() as engine:
            place = Path(f"/proc/{engine.first}")
            kinds = ("user", "mnt", "pid", "net", "ipc", "uts")
            shared = [
                kind
                for kind in kinds
                if (place / "ns" / kind).readlink() == Path("/proc/self/ns", kind).readlink()
            ]
            mapped = (place / "uid_map").read_text().split()
            groups = (place / "setgroups").read_text()
        assert shared == []
        assert (mapped, groups) == (["0", "0", "1"], "deny\n")

    @pytest.mark.attack("takes memory by many processes, none of which has much")
    async def test_memory_of_all_processes_counts(self, kit: Kit) -> None:
        one = "dd if=/dev/zero of=/dev/null bs=16M count=1000000"
        script = f"for i in 1 2 3 4 5 6; do {one} & done; wait"
        ended, _, _ = await kit.run(f"{{ {script}; }} 2>/dev/null", ram=64 << 20)
        assert (ended.code, ended.out_of_memory) == (137, True)
        assert ended.sampled_memory > 64 << 20

    @pytest.mark.attack("takes memory by files that no process has open")
    async def test_files_in_memory_count(self, kit: Kit) -> None:
        script = "dd if=/dev/zero of=/dev/shm/f bs=1M count=200; ls -l /dev/shm; sleep 5"
        ended, out, _ = await kit.run(script, ram=32 << 20)
        size = int(out.split()[6]) if len(out.split()) > 6 else 0
        assert ended.out_of_memory or size <= 32 << 20

    @pytest.mark.attack("writes what belongs to the user outside")
    async def test_files_outside_cannot_be_seen(self, kit: Kit) -> None:
        secret = kit.directory / "secret"
        secret.write_text("x")
        script = f"cat {secret} /proc/1/root{secret} /proc/self/root{secret}; ls /.mounts"
        _, out, _ = await kit.run(script)
        assert out == ""
        assert secret.stat().st_uid == os.geteuid()
