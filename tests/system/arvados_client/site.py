"""What every check is given: clients of two users, and short ways to make records. Runs in the
client's environment.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import arvados
import arvados.keep

Record = dict[str, Any]


@dataclass
class Site:
    """One server: `api` is the admin's client, `user` that of somebody without rights."""

    api: Any
    user: Any
    user_uuid: str
    user_token: str
    image: str
    numbers: list[int] = field(default_factory=lambda: [0])

    def name(self, what: str = "thing") -> str:
        """A name that nobody has yet."""
        self.numbers[0] += 1
        return f"{what} {os.getpid()}.{self.numbers[0]}"

    def collection(self, **attributes: Any) -> Record:
        """An empty collection."""
        return self.made("collections", {"name": self.name(), "manifest_text": "", **attributes})

    def made(self, plural: str, body: Record, **more: Any) -> Record:
        """A new record, its attributes sent bare."""
        found: Record = getattr(self.api, plural)().create(body=body, **more).execute()
        return found


def connect() -> Site:
    """Clients for the server of the environment."""
    host, insecure = os.environ["ARVADOS_API_HOST"], True
    api = client(host, os.environ["ARVADOS_API_TOKEN"], insecure=insecure)
    made = api.users().create(
        body={"user": {"username": "plain", "email": "plain@example.org", "is_active": True}}
    )
    user = made.execute()
    token = api.api_client_authorizations().create(body={"owner_uuid": user["uuid"]}).execute()
    text = f"v2/{token['uuid']}/{token['api_token']}"
    return Site(
        api=api,
        user=client(host, text, insecure=insecure),
        user_uuid=user["uuid"],
        user_token=text,
        image=os.environ["IMAGE"],
    )


def client(host: str, token: str, *, insecure: bool = True) -> Any:
    """A client that gives up after a few tries, so that a wrong status is found soon."""
    return arvados.api("v1", host=host, token=token, insecure=insecure, num_retries=1, cache=False)


class Heard:
    """Collects events, and waits for the one that is wanted."""

    def __init__(self) -> None:
        self.events: list[Record] = []
        self.changed = threading.Condition()

    def __call__(self, event: Record) -> None:
        """Take one event."""
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait(self, wanted: Callable[[Record], bool], seconds: float = 20.0) -> Record:
        """The first event, past or to come, that is wanted."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                found = next((one for one in self.events if wanted(one)), None)
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                assert left > 0, f"not heard; heard {self.events}"
                self.changed.wait(left)


def equal(found: object, wanted: object, what: str = "") -> None:
    """Say what differs."""
    assert found == wanted, f"{what}: {found!r} is not {wanted!r}"
