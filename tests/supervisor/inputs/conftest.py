from __future__ import annotations

from pathlib import Path

import pytest

from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.caches.tree_cache import TreeCache
from lading.client.retry import NO_RETRY
from lading.core.containers.mounting.mount_steps import GitTree
from lading.supervisor.inputs.collection_source import Inputs
from lading.testing.asgi import AsgiTransport
from lading.testing.supervising import FakeServer


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def inputs(server: FakeServer, tmp_path: Path) -> Inputs:
    transport = AsgiTransport(server)
    api = ApiClient(transport, "t", retry=NO_RETRY)
    return Inputs(
        api,
        BlockClient(transport, "t", retry=NO_RETRY),
        TreeCache(tmp_path / "trees", 1 << 30),
        no_git,
    )


async def no_git(tree: GitTree, directory: Path) -> None:
    raise AssertionError(f"{tree} is not wanted in {directory}")
