"""Whether the parts of the site answer that a server needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from lading.api.server.features import FeatureKey
from lading.core.errors import LadingError, Unavailable
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.api")


class ReadinessChecks:
    """Whether the parts of the site answer that this server needs: asked without a token, so that
    nothing secret is told, and however often, each part is asked once at a time.

    `patience`: seconds for an answer. An answer counts for `fresh` seconds. The words of an error
    go to the server's log, when they change.
    """

    def __init__(self, *, patience: float = 3.0, fresh: float = 1.0) -> None:
        self.patience, self._fresh = patience, fresh
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}
        self._reported: dict[str, str] = {}

    async def faults(
        self, parts: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
    ) -> list[str]:
        """A sentence about each part that does not answer; a look raises a LadingError then."""
        sentences = await asyncio.gather(*(self._fault(*item) for item in parts.items()))
        return [sentence for sentence in sentences if sentence]

    async def close(self) -> None:
        """Cancel looks that are under way."""
        await cancel_all(*self._looks.values())

    async def _fault(self, part_name: str, look: Callable[[], Coroutine[Any, Any, None]]) -> str:
        loop = asyncio.get_running_loop()
        task = self._looks.get(part_name)
        # A look that hangs goes on: a further one would hang as well.
        if task is None or (task.done() and loop.time() >= self._due[part_name]):
            task = self._looks[part_name] = loop.create_task(look(), name=f"look at {part_name}")
            self._due[part_name] = loop.time() + self._fresh
        await asyncio.wait({task}, timeout=self.patience)
        if not task.done():
            return self._note(
                part_name, f"{part_name} does not answer within {self.patience:g} s", ""
            )
        if task.cancelled():
            return f"{part_name} is not asked any more: the server ends"
        match task.exception():
            case None:
                return self._note(part_name, "", "")
            case Unavailable() as error:
                return self._note(part_name, f"{part_name} cannot be reached", error.message)
            case LadingError() as error:
                return self._note(part_name, f"{part_name} is not in order", error.message)
            case error:
                raise error

    def _note(self, part_name: str, sentence: str, fault: str) -> str:
        if self._reported.get(part_name, "") != sentence:
            self._reported[part_name] = sentence
            name = "not ready" if sentence else "ready again"
            event(_logger, name, part=part_name, why=sentence, fault=fault)
        return sentence


READINESS: Final = FeatureKey("readiness", ReadinessChecks)
