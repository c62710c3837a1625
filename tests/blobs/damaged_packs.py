"""Damage to blocks in the packs of a directory."""

from __future__ import annotations

from pathlib import Path

from lading.blobs.packs import Packs
from lading.core.data.pack_format import HEADER_SIZE


def damage_packed(root: Path, hash: str) -> None:
    """Damage the last copy of a block in the packs of a directory."""
    packs = Packs(root)
    packs.refresh()
    block = packs.find(hash)
    assert block is not None
    with (root / "packs" / f"{block.pack:08d}.pack").open("r+b") as file:
        file.seek(block.position + HEADER_SIZE)
        file.write(b"!")
