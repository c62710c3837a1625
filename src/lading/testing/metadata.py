"""Small fakes of the metadata services of EC2, Azure and Google, as ASGI applications: what a spot
machine can ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass
class FakeMetadata:
    """Answers by path; `faults` are the statuses of the next answers. EC2's paths want a token that
    was given out.
    """

    documents: dict[str, Any] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI."""
        del receive
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        status, body = self._answer(scope["method"], scope["path"], headers)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self.calls.append(f"{method} {path}")
        if self.faults:
            return self.faults.pop(0), b""
        if (method, path) == ("PUT", "/latest/api/token"):
            self.tokens.append(f"token{len(self.tokens)}")
            known = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            return (200, self.tokens[-1].encode()) if known else (400, b"")
        if (
            path.startswith("/latest/")
            and headers.get("x-aws-ec2-metadata-token") not in self.tokens[-1:]
        ):
            return 401, b""
        if path.startswith("/metadata/") and headers.get("metadata") != "true":
            return 400, b""
        if path.startswith("/computeMetadata/") and headers.get("metadata-flavor") != "Google":
            return 403, b""
        found = self.documents.get(path)
        if found is None:
            return 404, b""
        return 200, found.encode() if isinstance(found, str) else msgspec.json.encode(found)
