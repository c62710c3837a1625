"""The records of a simulated installation, which the model server changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lading.core.containers.container import Container
from lading.core.containers.request import ContainerRequest
from lading.core.policy.quotas import Quota

ADMIN_USER: Final = "zzzzz-tpzed-aaaaaaaaaaaaaaa"
PROJECT: Final = "zzzzz-j7d0g-ppppppppppppppp"
ADMIN_TOKEN: Final = "zzzzz-gj3su-aaaaaaaaaaaaaaa"
DISPATCHER_TOKENS: Final = ("zzzzz-gj3su-dispatcher00001", "zzzzz-gj3su-dispatcher00002")


@dataclass(frozen=True, slots=True)
class ContainerWrite:
    """An accepted write to a container: the token of the caller, and the container before it."""

    token_uuid: str
    before: Container


@dataclass(slots=True)
class RecordTables:
    """All records by uuid.

    `tokens`: the live tokens of containers, with the container of each. `saved`: the portable data
    hashes of stored outputs and logs. `writes`: the accepted writes to containers since the
    invariants were last checked.
    """

    containers: dict[str, Container] = field(default_factory=dict)
    requests: dict[str, ContainerRequest] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    saved: set[str] = field(default_factory=set)
    writes: list[ContainerWrite] = field(default_factory=list)
    quotas: dict[str, Quota] = field(default_factory=dict)
    """By subject."""

    def wanting(self, container_uuid: str) -> list[ContainerRequest]:
        """The Committed requests that point at a container."""
        return [
            one
            for one in self.requests.values()
            if one.container_uuid == container_uuid and one.state.value == "Committed"
        ]


def token_text(token_uuid: str) -> str:
    """A token of the installation as clients send it."""
    return f"v2/{token_uuid}/{'x' * 50}"


def uuid_of(token: str) -> str:
    """The uuid of a token `v2/uuid/secret`, "" for another text."""
    parts = token.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "v2" else ""
