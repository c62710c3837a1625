"""The texts of the server's explanations: the decision about a request's container, and the reasons
of its waiting.

The command line and the page show the same words, from these functions. The server's sentences are
unchanged; absent parts are left out (`core.containers.reuse` makes them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from lading.client.request_states import shown_container
from lading.core.quantities import duration, size
from lading.core.resources import format_bytes

Explanation = Mapping[str, Any]
Row = tuple[str, ...]
_SIZES: Final = frozenset({"memory", "ram", "keep_cache_ram", "keep_cache_disk", "capacity"})
_DURATIONS: Final = frozenset({"cpu", "max_run_time", "output_ttl"})


def why_fields(
    answer: Explanation, *, known_errors: set[str] | None = None
) -> list[tuple[str, str]]:
    """Names and texts of the response of `container_requests/{uuid}/why`; some texts are empty.

    `known_errors`: the errors that its reader has seen; errors of earlier attempts are added.
    """
    container = answer["container"] or {}
    decision = answer["decision"]
    reasons = [_text(wait["sentence"]) for wait in answer.get("waits") or ()]
    status = answer["scheduling_status"]
    return [
        ("request", _text(answer["request_uuid"])),
        ("outcome", _text(answer["outcome"])),
        # The status is shown once: it is often one of the reasons.
        ("waiting", "" if status in reasons else _text(status)),
        ("container", _text(container.get("uuid"))),
        *(("because", reason) for reason in reasons),
        *(
            ("expected", _text(sentence))
            for sentence in (answer.get("expected") or {}).get("sentences", ())
        ),
        *(
            ("waited", _text(wait["text"]).removeprefix("waited "))
            for wait in answer.get("waited") or ()
        ),
        *(("tried before", attempt) for attempt in _tried(answer, known_errors, reasons)),
        ("decision", decision_text(decision) if decision else ""),
        ("learned", learned_text(decision or {})),
        *evidence_fields(answer.get("evidence") or {}),
        *((("withdrawn", withdrawal),) if (withdrawal := withdrawal_text(container)) else ()),
    ]


def evidence_fields(evidence: Explanation) -> list[tuple[str, str]]:
    """Names and texts of the response of `containers/{uuid}/evidence`; none without evidence."""
    fields = []
    if evidence.get("of"):
        equal, of = evidence["reproduced"], evidence["of"]
        last = _text(evidence["replays"][-1]["finished_at"])[:19]
        mark = "" if equal == of else "; it does not repeat"
        fields.append(("reproduced", f"{equal} of {of}, last run {last}{mark}"))
    for proof in evidence.get("elsewhere") or ():
        where = _text(proof["properties"].get("instance")) or "another server"
        verdict = "reproduced" if proof["equal"] else "not reproduced"
        fields.append(("elsewhere", f"{verdict} on {where}, {_text(proof['at'])[:19]}"))
    for origin in evidence.get("made_from_withdrawn") or ():
        fields.append(("made from withdrawn", f"{origin['container_uuid']}: {origin['reason']}"))
    return fields


def withdrawal_text(container: Explanation) -> str:
    """Time and reason of the withdrawal of a container's result; "" if it is valid."""
    at = _text(container.get("withdrawn_at"))[:19]
    return f"{at}: {_text(container.get('withdrawn_reason'))}" if at else ""


def decision_text(resolution: Explanation, *, would: str = "") -> str:
    """The decision about a request, with the reason; `would` begins the text of a preview."""
    uuid = resolution.get("container_uuid")
    if resolution.get("decision") == "none":
        return f"{would}have no container: {_text(resolution.get('reason'))}"
    verb = {"reuse": "reuse", "new": "run"}.get(
        str(resolution.get("decision")), str(resolution.get("decision"))
    )
    other = "a container of another user" if verb == "reuse" else "a new container"
    return f"{would}{verb} {uuid or other}: {_text(resolution.get('reason'))}"


def rule_text(resolution: Explanation) -> str:
    """The rule about containers of other users, for a request that got a new one; else ""."""
    return _text(resolution.get("rule")) if resolution.get("decision") == "new" else ""


def dispatch_rows(decisions: Sequence[Explanation]) -> Iterator[Row]:
    """Time, container, decision and reason of each decision of a dispatcher."""
    for decision in decisions:
        yield (
            # Digits up to milliseconds.
            _text(decision["at"])[:23],
            _text(decision["container_uuid"]),
            _text(decision["event_type"]).replace("_", " "),
            _text(decision["text"]),
        )


def place_text(decisions: Sequence[Explanation], container_uuid: str) -> str:
    """A dispatcher's sentence about the machine of a container; "" if there is none."""
    started = [
        decision
        for decision in decisions
        if decision["event_type"] == "dispatched" and decision["container_uuid"] == container_uuid
    ]
    return _text(started[-1]["text"]) if started else ""


def candidate_rows(resolution: Explanation) -> Iterator[Row]:
    """Container, state, whether it is usable, and the reason, of each candidate for reuse."""
    for candidate in resolution.get("candidates") or ():
        usable = "yes" if candidate["usable"] else "no"
        yield (
            _text(candidate["container_uuid"]),
            shown_container(candidate),
            usable,
            _text(candidate["reason"]),
        )


def nearest_text(resolution: Explanation) -> str:
    """A sentence about the nearest earlier container; "" without one."""
    near = resolution.get("nearest")
    if not near:
        return ""
    how = "which differs in" if near["differences"] else "the same in every field"
    return f"nearest earlier container: {near['container_uuid']} ({shown_container(near)}), {how}"


def difference_rows(resolution: Explanation) -> Iterator[Row]:
    """Field, value of the request and value of the nearest container, of each difference."""
    near = resolution.get("nearest") or {}
    for difference in near.get("differences") or ():
        name, values = (
            _text(difference["field"]),
            (difference.get("request"), difference.get("container")),
        )
        shown = [_quantity(name, value) for value in values]
        # Amounts that differ by less than the words tell are shown exactly.
        ours, theirs = (
            shown if shown[0] != shown[1] else [_exact_quantity(name, value) for value in values]
        )
        yield name, ours, theirs


def further_text(resolution: Explanation) -> str:
    """The nearest containers after the first, with the first difference of each; "" without any."""
    descriptions = []
    for container in (resolution.get("near") or ())[1:]:
        difference = container["first_difference"]
        where = f"differs first in {difference['field']}" if difference else "in nothing"
        descriptions.append(f"{container['container_uuid']} ({shown_container(container)}) {where}")
    return f"further: {'; '.join(descriptions)}" if descriptions else ""


def _tried(answer: Explanation, known_errors: set[str] | None, reasons: Sequence[str]) -> list[str]:
    """The containers that were tried before, with their ends; the reasons are told before."""
    attempts = {attempt["uuid"]: attempt for attempt in answer.get("attempts") or ()}
    known_errors = set() if known_errors is None else known_errors
    known_errors.update(
        error
        for error in map(_error_of, attempts.values())
        if error and any(error in reason for reason in reasons)
    )
    uuids = answer["attempted_container_uuids"] or ()
    shown = [uuid for uuid in uuids if uuid in attempts]
    texts = attempt_texts([attempts[uuid] for uuid in shown], known_errors=known_errors)
    ends = dict(zip(shown, texts, strict=True))
    return [f"{uuid}: {ends[uuid]}" if uuid in ends else uuid for uuid in uuids]


def end_texts(
    containers: Sequence[Explanation], *, known_errors: set[str] | None = None
) -> list[str]:
    """Descriptions of the ends of containers: status, exit code, kind of failure and error.

    An error of several containers is shown once, with their number, and not at all if it is in
    `known_errors`, to which the errors are added.
    """
    known_errors = set() if known_errors is None else known_errors
    counts = Counter(map(_error_of, containers))
    texts = []
    for container in containers:
        error, end = _error_of(container), shown_container(container)
        if error and error in known_errors:
            end += ", the same error"
        elif error:
            end += f": {with_count(error, counts[error])}"
            known_errors.add(error)
        texts.append(end)
    return texts


def with_count(error: str, attempts: int) -> str:
    """An error, with the number of attempts that ended with it if these are several."""
    return f"{error} ({attempts} attempts)" if attempts > 1 else error


def shorten(sentence: str, known_errors: Iterable[str]) -> str:
    """A sentence without the errors that its reader has seen."""
    for error in filter(None, known_errors):
        sentence = sentence.replace(f" ({error})", "").replace(f": {error}", ", the same error")
    return sentence


def attempts_with(error: str, containers: Iterable[Explanation]) -> int:
    """Number of the containers that ended with this error."""
    return sum(_error_of(container) == error for container in containers)


def _error_of(container: Explanation) -> str:
    return _text((container["runtime_status"] or {}).get("error"))


def attempt_texts(
    containers: Sequence[Explanation], *, known_errors: set[str] | None = None
) -> list[str]:
    """Descriptions of attempts: their ends as in `end_texts`, the ram of each, its cost in
    dollars.
    """
    return [
        "; ".join(filter(None, (end, _amounts(container))))
        for container, end in zip(
            containers, end_texts(containers, known_errors=known_errors), strict=True
        )
    ]


def _amounts(container: Explanation) -> str:
    ram = (container.get("runtime_constraints") or {}).get("ram")
    cost = (container.get("cost") or 0) + (container.get("subrequests_cost") or 0)
    more = [f"{format_bytes(ram)} of ram"] if isinstance(ram, int) else []
    more += [f"cost {cost:.4f}"] if cost else []
    return ", ".join(more)


def learned_text(resolution: Explanation) -> str:
    """Needs of earlier containers of the tool, and their effect on this one; "" if nothing is
    known.
    """
    return _text((resolution.get("learned") or {}).get("sentence"))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _quantity(name: str, value: object) -> str:
    """The value of a field: bytes and seconds in the words that other lists have."""
    last = name.rpartition(".")[2]
    if not _is_amount(value):
        return _value(value)
    if last in _SIZES:
        return size(value)
    if last in _DURATIONS:
        return duration(value)
    return f"{value:.4f}" if last == "cost" else _value(value)


def _exact_quantity(name: str, value: object) -> str:
    """The value of a field with its unit, not rounded."""
    last = name.rpartition(".")[2]
    if not _is_amount(value):
        return _value(value)
    if last in _SIZES:
        return f"{size(value)} ({value:.0f} B)"
    return f"{value:.9g} s" if last in _DURATIONS else _value(value)


def _is_amount(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _value(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
