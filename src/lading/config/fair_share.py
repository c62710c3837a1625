"""The configuration of fair share between projects.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """The order between projects at equal priority."""

    Enabled: bool = key(
        False,
        "At equal priority, the project that used least of its share goes first, not the oldest.",
    )
    By: str = key("project", "Whose shares they are: `project` or `user`.")
    HalfLife: float = key(
        604800.0, "Time after which half of the past use is forgotten.", unit="seconds"
    )
    Weights: dict[str, float] = key(
        {},
        "Weights by uuid, 0.1 to 1000, of users and of projects that have none of their own.",
    )
