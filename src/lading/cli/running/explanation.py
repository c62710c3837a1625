"""Output of the server's explanations: why a request got its container, similar containers, and
differences.

The server's texts are shown unchanged; absent parts are left out (`core.containers.reuse` makes
them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from lading.cli import display

Explanation = Mapping[str, Any]
# Characters of a value in the table of differences.
_LONGEST = 48


def show_preview(answer: Explanation) -> None:
    """Show the response of `container_requests/preview`: what a request would do."""
    click.echo(_decision(answer, would="would "))
    show_trail(answer)


def show_why(answer: Explanation) -> None:
    """Show the response of `container_requests/{uuid}/why`: its progress, and the decision behind
    it.
    """
    container = answer["container"] or {}
    decision = answer["decision"]
    reasons = [_text(one["sentence"]) for one in answer.get("waits") or ()]
    display.fields(
        (
            ("request", _text(answer["request_uuid"])),
            ("outcome", _text(answer["outcome"])),
            (
                # The status is shown once: it is often one of the reasons.
                "waiting",
                ""
                if answer["scheduling_status"] in reasons
                else _text(answer["scheduling_status"]),
            ),
            ("container", _text(container.get("uuid"))),
            *(("because", text) for text in reasons),
            *(
                ("waited", _text(one["text"]).removeprefix("waited "))
                for one in answer.get("waited") or ()
            ),
            *(("tried before", text) for text in _tried(answer)),
            ("decision", _decision(decision) if decision else ""),
        )
    )
    show_trail(decision or {})
    if answer.get("dispatch"):
        click.echo()
        show_decisions(answer["dispatch"])


def show_decisions(decisions: Sequence[Explanation]) -> None:
    """Show the decisions of dispatchers about the containers of a request, in order of time."""
    display.table(
        ("AT", "CONTAINER", "DECISION", "WHY"),
        (
            (
                # To milliseconds.
                _text(one["at"])[:23],
                _text(one["container_uuid"]),
                _text(one["event_type"]).replace("_", " "),
                _text(one["text"]),
            )
            for one in decisions
        ),
    )


def _tried(answer: Explanation) -> list[str]:
    """The containers that were tried before, with their ends."""
    attempts = {one["uuid"]: one for one in answer.get("attempts") or ()}
    return [
        f"{uuid}: {_ended(attempts[uuid])}" if uuid in attempts else uuid
        for uuid in answer["attempted_container_uuids"] or ()
    ]


def _ended(container: Explanation) -> str:
    status = container["runtime_status"] or {}
    code = "" if container["exit_code"] is None else f" with exit code {container['exit_code']}"
    kind = f" ({status['failure']})" if status.get("failure") else ""
    error = f": {status['error']}" if status.get("error") else ""
    return f"{container['state']}{code}{kind}{error}"


def show_trail(resolution: Explanation) -> None:
    """Show each candidate with its reason, then the nearest earlier container and the
    differences.
    """
    candidates: Sequence[Explanation] = resolution.get("candidates") or ()
    if candidates:
        click.echo()
        display.table(
            ("CANDIDATE", "STATE", "USABLE", "REASON"),
            (
                (
                    _text(one["container_uuid"]),
                    _text(one["state"]),
                    "yes" if one["usable"] else "no",
                    _text(one["reason"]),
                )
                for one in candidates
            ),
        )
    near = resolution.get("nearest")
    if near and not near["differences"]:
        click.echo()
        click.echo(
            f"nearest earlier container: {near['container_uuid']} ({near['state']}), "
            "the same in every field"
        )
    elif near:
        click.echo()
        click.echo(
            f"nearest earlier container: {near['container_uuid']} ({near['state']}), "
            "which differs in"
        )
        display.table(
            ("FIELD", "THIS REQUEST", "THAT CONTAINER"),
            (
                (_text(one["field"]), _value(one.get("request")), _value(one.get("container")))
                for one in near["differences"]
            ),
        )
    if len(resolution.get("near") or ()) > 1:
        click.echo(f"further: {_further(resolution['near'][1:])}")


def _further(near: Sequence[Explanation]) -> str:
    """The nearest containers after the first, with the first difference of each."""
    said = []
    for one in near:
        difference = one["first_difference"]
        where = f"differs first in {difference['field']}" if difference else "in nothing"
        said.append(f"{one['container_uuid']} ({one['state']}) {where}")
    return "; ".join(said)


def _decision(resolution: Explanation, *, would: str = "") -> str:
    uuid = resolution.get("container_uuid")
    if resolution.get("decision") == "none":
        return f"{would}have no container: {_text(resolution.get('reason'))}"
    verb = {"reuse": "reuse", "new": "run"}.get(
        str(resolution.get("decision")), str(resolution.get("decision"))
    )
    what = f"{would}{verb} {uuid}" if uuid else f"{would}{verb} a new container"
    return f"{what}: {_text(resolution.get('reason'))}"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _value(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return display.shorten(text, _LONGEST)
