"""The nodes of `make kubernetes`, played and real, bring no faults of their own."""

from __future__ import annotations

import asyncio
import base64
import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from lading.core.kubernetes.pod_manifest import ASSIGNMENT
from tests.system.kubernetes_control import ControlPlane
from tests.system.kubernetes_kubelet import BRIDGE, alone, bridge
from tests.system.kubernetes_nodes import playing_nodes

pytestmark = pytest.mark.quick

POD = {
    "metadata": {"name": "pod", "uid": "uid"},
    "spec": {"nodeName": "node0", "containers": [{"name": "supervisor"}]},
    "status": {"phase": "Pending"},
}
PORT = "lading-port0"
SECRET = {"data": {ASSIGNMENT: base64.b64encode(b"{}").decode()}}


class OnePod:
    """A control plane with one Pod, which is bound to a node and has its secret."""

    async def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request."""
        del body
        if method != "GET":
            return {}
        return SECRET if "/secrets/" in path else {"items": [POD]}


async def fail(files: Mapping[str, bytes]) -> int:
    """A supervisor that cannot be started."""
    raise AssertionError(f"no supervisor for {sorted(files)}")


async def test_a_fault_of_a_kubelet_ends_the_test() -> None:
    plane = cast("ControlPlane", OnePod())
    with pytest.raises(BaseExceptionGroup) as faults:
        async with asyncio.timeout(60), playing_nodes(plane, "work", fail, count=1, most=1):
            await asyncio.Event().wait()
    assert faults.group_contains(AssertionError, match="no supervisor for")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a bridge")
def test_the_bridge_of_the_pods_keeps_its_address() -> None:
    """Pods would send to an address that is no more, for up to a minute."""
    with alone(), bridge():
        address = Path(f"/sys/class/net/{BRIDGE}/address")
        before = address.read_text()
        # Of all possible addresses the lowest.
        ip = functools.partial(subprocess.run, check=True, timeout=30)
        ip(["ip", "link", "add", PORT, "address", "02:00:00:00:00:00", "type", "veth"])
        try:
            ip(["ip", "link", "set", PORT, "master", BRIDGE])
            assert address.read_text() == before
        finally:
            ip(["ip", "link", "delete", PORT])
