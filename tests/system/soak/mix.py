"""The load of a soak: small containers of six kinds, in a fixed mix, at a bounded rate.

A request is named "soak NUMBER KIND"; its container writes NUMBER to its output. The load itself,
the marks of the commands and the checks of outputs and logs are those of `tests.system.chaos`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Any, Final

from tests.system.chaos.load import ATTEMPTS, KILLED, MARK, request, script

PROGRAMS: Final = ("sh", "sleep", "cat", "curl", "date", "grep", "head", "sed")
FAILED: Final = 3
"""Exit code of the commands that fail by themselves."""
_KEYS = 12
"""Different commands among those that may be reused."""
_REUSED_FROM = 9_000_000
_LONG = 10.0
_UNTIL_CANCELLED = 600.0
_NUMBER: Final = re.compile(rf"{re.escape(MARK)}\d+")


class Kind(StrEnum):
    """What a container of the load does."""

    PLAIN = "plain"
    REUSED = "reused"
    LONG = "long"
    FAILING = "failing"
    CANCELLED = "cancelled"
    PARENT = "parent"
    CHILD = "child"


MIX: Final = {
    Kind.PLAIN: 45,
    Kind.REUSED: 25,
    Kind.LONG: 8,
    Kind.FAILING: 8,
    Kind.CANCELLED: 10,
    Kind.PARENT: 4,
}
"""Parts of the load; children are submitted by parents."""


class Mix:
    """Makes the requests; the same seed gives the same kinds in the same order."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._kinds = dict[int, Kind]()

    def kind(self, number: int) -> Kind:
        """The kind of a number."""
        if number not in self._kinds:
            self._kinds[number] = self._chance.choices(list(MIX), list(MIX.values()))[0]
        return self._kinds[number]

    def make(self, number: int, attempt: int) -> dict[str, object]:
        """The request of a number; `attempt` is another one for each that is sent."""
        kind = self.kind(number)
        if kind is Kind.REUSED:
            key = number % _KEYS
            return request(key, _REUSED_FROM + key, name=f"soak {key} {kind}", use_existing=True)
        then, more, constraints = "", 0.0, {"vcpus": 1, "ram": 64 << 20}
        if kind is Kind.LONG:
            more = _LONG
        elif kind is Kind.CANCELLED:
            more = _UNTIL_CANCELLED
        elif kind is Kind.PARENT:
            then, constraints = _submit_child(number), {**constraints, "API": True}
        text = script(number, attempt, then=then, more=more)
        if kind is Kind.FAILING:
            text = f"({text}); exit {FAILED}"
        return request(
            number,
            attempt,
            name=f"soak {number} {kind}",
            command=["sh", "-ec", text],
            runtime_constraints=constraints,
        )


def kind_of(row: Mapping[str, Any]) -> Kind:
    """The kind of a request, from its name."""
    return Kind(row["name"].split()[2])


def expect(row: Mapping[str, Any], container: Mapping[str, Any]) -> Sequence[int] | None:
    """The exit codes that a request may end with; None: it was cancelled.

    A child is cancelled with its parent when the parent's container is lost.
    """
    kind = kind_of(row)
    if kind is Kind.CANCELLED or (kind is Kind.CHILD and container.get("state") == "Cancelled"):
        return None
    return (FAILED, KILLED) if kind is Kind.FAILING else (0, KILLED)


def mark_of(container: Mapping[str, Any]) -> str:
    """The mark in the command of a container, or "" for none."""
    found = _NUMBER.search(" ".join(container["command"]))
    return found[0] if found else ""


def _submit_child(number: int) -> str:
    """Shell commands: submit a child, each time with a mark of its own, and wait until it is
    Final.
    """
    child = request(number, 0, name=f"soak {number} {Kind.CHILD}", container_count_max=ATTEMPTS)
    child["command"] = ["sh", "-ec", script(number, 0).replace(f"{MARK}{0:07d}", f"{MARK}@")]
    record = json.dumps({"container_request": child})
    return (
        "ask() { curl -sk -m 20 --retry 20 --retry-delay 1 --retry-all-errors "
        '-H "Content-Type: application/json"'
        ' -H "Authorization: Bearer $ARVADOS_API_TOKEN" "$@"; }; '
        'at="https://$ARVADOS_API_HOST/arvados/v1/container_requests"; mark=$(date +%s%N); '
        f"record=$(echo {shlex.quote(record)} | sed s/@/$mark/); "
        'child=$(ask -d "$record" "$at" | grep -o "[a-z0-9]*-xvhdp-[a-z0-9]*" | head -n 1); '
        'test -n "$child"; '
        'until ask "$at/$child" | grep -q "\\"state\\":\\"Final\\""; do sleep 0.5; done; '
    )
