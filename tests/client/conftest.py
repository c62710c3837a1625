from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from lading.testing.asgi import ListeningServer, serving
from lading.wiring.up import ensure_certificate


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
