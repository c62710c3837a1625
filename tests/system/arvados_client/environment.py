"""The environment of the Arvados client."""

from __future__ import annotations

from pathlib import Path

from tests.system.environments import environment


def client_environment() -> Path:
    """The directory of the client's programs, made if need be. Fails with what pip said."""
    return environment("arvados-client")
