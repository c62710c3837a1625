from __future__ import annotations

from lading.blobs.collector import Hit, Named, References
from lading.testing.blocks import MemoryReferences


async def test_the_fake_keeps_to_the_protocol() -> None:
    fake = MemoryReferences()
    asked: References = fake
    fake.save("old", "a" * 32)
    fake.new.clear()
    fake.save("new", "b" * 32, copies=2, classes=("fast",))
    assert [one async for one in asked.all()] == [
        Named(("a" * 32,), 1, ("default",), "old"),
        Named(("b" * 32,), 2, ("fast",), "new"),
    ]
    assert [one.copies async for one in asked.changed(1.0)] == [2]
    assert await asked.naming("a" * 32) == [Hit("old", "old", ["file"])]
