"""Collections that name blocks, in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from lading.blobs.collector import Hit, Named
from lading.core.errors import Unavailable


@dataclass
class MemoryReferences:
    """Implements lading.blobs.collector.References; `on_changed` is called when changes are asked
    for.
    """

    named: dict[str, Named] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    fails: bool = False
    on_changed: Callable[[], None] = lambda: None

    def save(
        self, name: str, *hashes: str, copies: int = 1, classes: Sequence[str] = ("default",)
    ) -> None:
        """Make or change a collection."""
        self.named[name] = Named(hashes, copies, classes)
        self.new.add(name)

    async def all(self) -> AsyncGenerator[Named]:
        """Every collection."""
        if self.fails:
            raise Unavailable("no database")
        for named in list(self.named.values()):
            yield named

    async def changed(self, since: float) -> AsyncGenerator[Named]:
        """Those made or changed since `new` was emptied."""
        self.on_changed()
        for name in sorted(self.new) if since else ():
            yield self.named[name]

    async def naming(self, hash: str) -> list[Hit]:
        """Those that name a block, each with a file of its own name."""
        return [
            Hit(name, name, ["file"]) for name, named in self.named.items() if hash in named.hashes
        ]
