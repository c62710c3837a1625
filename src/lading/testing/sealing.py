"""A seal for tests: a fixed key, nonces from a seeded source."""

from __future__ import annotations

import random

from lading.store.database import Seal


def make_seal(secret: str = "s" * 50) -> Seal:
    """A seal; those of the same secret open each other's texts."""
    return Seal(secret, entropy=random.Random(7).randbytes)  # a fake: seeded on purpose
