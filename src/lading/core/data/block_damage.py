"""Finds the files of a collection that have bytes of a given block, for reports of damaged or
missing blocks.
"""

from __future__ import annotations

from itertools import accumulate

from lading.core.data import manifest


def files_with(text: str, hash: str) -> list[str]:
    """Sorted paths of all files of a manifest that have bytes of the block. Raises Malformed."""
    found = set()
    for stream in manifest.parse(text).streams:
        ends = list(accumulate(int(locator.split("+")[1]) for locator in stream.locators))
        spans = [
            (begin, end)
            for begin, end, locator in zip([0, *ends[:-1]], ends, stream.locators, strict=True)
            if locator.startswith(hash)
        ]
        for token in stream.files:
            last = token.position + token.length
            if token.length and any(begin < last and token.position < end for begin, end in spans):
                found.add(f"{stream.name}/{token.name}".removeprefix("./"))
    return sorted(found)
