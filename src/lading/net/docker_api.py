"""The API version of a daemon with Docker's API: Docker, podman.

aiodocker queries it with `version`, which takes podman a second, as it runs other programs to find
their versions. The response to a ping has it too.
"""

from __future__ import annotations

import asyncio
import re

import aiodocker

_UNKNOWN = "auto"
"""aiodocker's version string that lets it ask the daemon."""
# A version of Docker's API: `1.43`.
_VERSION = re.compile(r"\d+\.\d+")
_TIMEOUT = 60.0
"""Seconds for the answer: as long as a busy daemon may take for any short call."""


async def learn_version(docker: aiodocker.Docker) -> None:
    """Let the client use the version that the daemon names in its response to a ping, unless it
    has one. A daemon that names none is asked by aiodocker.

    Raises aiohttp.ClientError, TimeoutError.
    """
    if docker.api_version != _UNKNOWN:
        return
    async with (
        asyncio.timeout(_TIMEOUT),
        docker.session.get(f"{docker.docker_host}/_ping") as answer,
    ):
        version = answer.headers.get("Api-Version", "")
    if _VERSION.fullmatch(version):
        docker.api_version = f"v{version}"
