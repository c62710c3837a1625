"""Differences between two JSON values, place by place, in the notation of users: `mounts./in.uuid`,
`command[3]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lading.core.json_values import Json, canonical, same

# Characters of a value in a message.
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One place where two values differ; None stands for an absent value."""

    field: str
    ours: Json
    theirs: Json

    def __str__(self) -> str:
        return (
            f"{self.field} differs ({_brief(self.ours)} is asked for, it has {_brief(self.theirs)})"
        )


def differing(field: str, ours: Json, theirs: Json) -> Iterator[FieldDifference]:
    """All differences between two values of `field`, in order."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key in ours and key in theirs:
                yield from differing(f"{field}.{key}", ours[key], theirs[key])
            else:
                yield FieldDifference(f"{field}.{key}", ours.get(key), theirs.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list):
        shared = min(len(ours), len(theirs))
        for position in range(shared):
            yield from differing(f"{field}[{position}]", ours[position], theirs[position])
        yield from (
            FieldDifference(f"{field}[{shared + n}]", one, None)
            for n, one in enumerate(ours[shared:])
        )
        yield from (
            FieldDifference(f"{field}[{shared + n}]", None, one)
            for n, one in enumerate(theirs[shared:])
        )
    elif not same(ours, theirs):
        yield _veiled(FieldDifference(field, ours, theirs))


def _veiled(difference: FieldDifference) -> FieldDifference:
    """The difference without secrets: it may be reported that they differ, not what they are."""
    if difference.field != "secret_mounts_md5":
        return difference
    return FieldDifference("secret_mounts", "(secret)", "(another secret)")


def _brief(value: Json) -> str:
    if value is None:
        return "nothing"
    text = canonical(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
