"""Commands of containers under test, and actions when they have come so far."""

from __future__ import annotations

import asyncio
from typing import Any

from lading.testing.pulse import Bell

FOREVER = "while :; do sleep 0.01; done"
WAIT_FOR_TERM = f"trap 'exit 9' TERM; echo up; {FOREVER}"


def ring(bell: Bell) -> str:
    """The shell command that rings a bell."""
    return f"echo > {bell.path}"


def then(waiting: Any, action: Any) -> None:
    """Do something when a wait is over."""
    task = asyncio.ensure_future(waiting)
    task.add_done_callback(lambda _: action())
