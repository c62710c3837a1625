"""The faults of the fake cloud: chances and times."""

from __future__ import annotations

from dataclasses import dataclass


class Crashed(Exception):
    """A supervisor has died in the middle of its work."""


@dataclass(slots=True, kw_only=True)
class Troubles:
    """Chances from 0 to 1, times in seconds; may be changed while it runs."""

    create_fails: float = 0.0
    create_pretends: float = 0.0
    """`create` raises though the VM is made."""
    destroy_fails: float = 0.0
    list_fails: float = 0.0
    tag_fails: float = 0.0
    hangs: float = 0.0
    """A call is never answered."""
    missing: float = 0.0
    """A VM is left out of a list, and of up to two more."""
    doubled: float = 0.0
    quota: int = 0
    gap: float = 0.0
    """Shortest time between two creations; sooner ones are refused for their rate."""
    scarce: frozenset[str] = frozenset()
    boot: tuple[float, float] = (20.0, 60.0)
    never_boots: float = 0.0
    dies: float = 0.0
    """A VM stops answering some time after it was made."""
    breaks: float = 0.0
    """A VM marks itself as broken some time after it was made."""
    taken: float = 0.0
    """A VM vanishes some time after it was made."""
    loses_link: float = 0.0
    """A connection breaks at a request, which may have arrived."""
    freezes: float = 0.0
    """From a request on nothing comes over a connection any more, though it stays."""
    mute: float = 0.0
    """An attempt to reach a VM has no answer at all."""
    impostor: float = 0.0
    """At an attempt to reach a VM another machine answers, with another key."""
    slow_copy: float = 0.0
    """Longest time until a VM that is reached can be used."""
    late_tags: float = 0.0
    """Longest time until lists show new tags."""
    crash_before: float = 0.0
    crash_after: float = 0.0
    stuck: float = 0.0
    """A supervisor does not end when all is done; only a signal ends it."""
    lag: float = 0.0
    """Longest time that a supervisor takes to end when all is done."""
    life: float = 2000.0
    """Within which a VM dies, breaks or is taken."""
