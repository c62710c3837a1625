from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

import lading
from lading.client.transport import HttpTransport
from lading.testing.asgi import ListeningServer, serving
from lading.wiring.directory import ensure_certificate
from tests.cli.site import Site


@pytest.fixture
async def serve() -> AsyncGenerator[Callable[..., Awaitable[ListeningServer]]]:
    """Serves an application for the rest of the test, on a loopback port or as the options of
    uvicorn say.
    """
    async with AsyncExitStack() as stack:

        async def start(app: ASGIApp, **options: Any) -> ListeningServer:
            return await stack.enter_async_context(serving(app, **options))

        yield start


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for the loopback address, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "tls.crt", folder / "tls.key"
    ensure_certificate(*paths, host="127.0.0.1", now=datetime.now(UTC))
    return paths


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server, and a stage for containers."""
    with Site(tmp_path_factory.mktemp("site")) as it:
        yield it


@pytest.fixture(scope="module")
def image(stage: Site) -> str:
    """An image that is in its store."""
    return stage.call(stage.world.ensure_image())


@pytest.fixture
def connecting(stage: Site) -> Callable[[], lading.Site]:
    """Connects to the server."""
    return lambda: lading.Site(HttpTransport(unix_socket=stage.socket), stage.world.admin)


@pytest.fixture
def site(connecting: Callable[[], lading.Site]) -> Iterator[lading.Site]:
    """The server, for Python."""
    with connecting() as it:
        yield it


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    """For all tests of this package."""
