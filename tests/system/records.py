"""What the API says of the requests of a test, read without any client of ours or of Arvados."""

from __future__ import annotations

import json
import ssl
import urllib.parse
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.system.cluster import Cluster

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One request: its uuid, whether its container was there before it, and how long it took to
    become Final.
    """

    uuid: str
    reused: bool
    seconds: float


class Api:
    """Reads records as the cluster's own user."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, path: str, **parameters: Any) -> Record:
        """The answer to one GET below /arvados/v1/."""
        query = urllib.parse.urlencode(
            {name: json.dumps(value) for name, value in parameters.items()}
        )
        return self._send(f"{path}?{query}", None)

    def post(self, path: str, body: Record) -> Record:
        """The answer to one POST."""
        return self._send(path, json.dumps(body).encode())

    def _send(self, path: str, body: bytes | None) -> Record:
        environment = self._cluster.environment
        headers = {
            "Authorization": f"Bearer {environment['ARVADOS_API_TOKEN']}",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(
            f"https://{environment['ARVADOS_API_HOST']}/arvados/v1/{path}",
            data=body,
            headers=headers,
        )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            found: Record = json.load(answer)
            return found

    def list(self, kind: str, *filters: list[Any]) -> list[Record]:
        """Up to 1000 records."""
        items: list[Record] = self.get(kind, filters=filters, limit=1000)["items"]
        return items

    def requests(self) -> set[str]:
        """The uuids of all container requests."""
        return {one["uuid"] for one in self.list("container_requests")}

    def steps(self, *, since: Collection[str] = ()) -> dict[str, Step]:
        """The requests that are not among `since` and run no workflow, by name."""
        new = [one for one in self.list("container_requests") if one["uuid"] not in since]
        return {
            one["name"]: self._step(one) for one in new if one["command"][0] != "arvados-cwl-runner"
        }

    def _step(self, request: Record) -> Step:
        container = self.get(f"containers/{request['container_uuid']}")
        events = self.list("logs", ["object_uuid", "=", request["uuid"]])
        ends = [_moment(one["event_at"]) for one in events if _state(one) == "Final"]
        began = _moment(request["created_at"])
        return Step(
            request["uuid"],
            _moment(container["created_at"]) < began,
            (min(ends) - began).total_seconds(),
        )


def _state(event: Record) -> str:
    attributes = event["properties"].get("new_attributes") or {}
    return str(attributes.get("state", ""))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text[:26]}+00:00")
