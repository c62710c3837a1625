"""Whether the reader of a page may enter a container: the API decides, here it is only asked."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from lading.client.api import error_of
from lading.web.visit import Visit

# A gateway that does not answer by then cannot be reached.
_SECONDS: Final = 30.0


def session_path(container: str) -> str:
    """Path of the API that opens a session in a container."""
    return f"/arvados/v1/connect/{container}/ssh"


async def check(visit: Visit, container: str, login: str) -> None:
    """Ask whether a session would be possible now. Raises the refusal of the API."""
    answer = await visit.api.transport.request(
        "POST",
        session_path(container),
        headers={**visit.api.headers, "Content-Type": "application/x-www-form-urlencoded"},
        body=urlencode({"login_username": login, "probe": "true"}).encode(),
        timeout=_SECONDS,
    )
    if answer.status >= 400:
        raise error_of(answer, f"POST connect/{container}/ssh")
