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


def why_fields(answer: Explanation, *, told: set[str] | None = None) -> list[tuple[str, str]]:
    """Names and texts of the response of `container_requests/{uuid}/why`; some texts are empty.

    `told` are the errors that its reader has been told; those of earlier attempts are added.
    """
    container = answer["container"] or {}
    decision = answer["decision"]
    reasons = [_text(one["sentence"]) for one in answer.get("waits") or ()]
    status = answer["scheduling_status"]
    return [
        ("request", _text(answer["request_uuid"])),
        ("outcome", _text(answer["outcome"])),
        # The status is shown once: it is often one of the reasons.
        ("waiting", "" if status in reasons else _text(status)),
        ("container", _text(container.get("uuid"))),
        *(("because", text) for text in reasons),
        *(("expected", _text(one)) for one in (answer.get("expected") or {}).get("sentences", ())),
        *(
            ("waited", _text(one["text"]).removeprefix("waited "))
            for one in answer.get("waited") or ()
        ),
        *(("tried before", text) for text in _tried(answer, told, reasons)),
        ("decision", decision_text(decision) if decision else ""),
        ("learned", learned_text(decision or {})),
        *evidence_fields(answer.get("evidence") or {}),
        *((("withdrawn", said),) if (said := withdrawal_text(container)) else ()),
    ]


def evidence_fields(evidence: Explanation) -> list[tuple[str, str]]:
    """Names and texts of the response of `containers/{uuid}/evidence`; none without evidence."""
    fields = []
    if evidence.get("of"):
        equal, of = evidence["reproduced"], evidence["of"]
        last = _text(evidence["replays"][-1]["finished_at"])[:19]
        mark = "" if equal == of else "; it does not repeat"
        fields.append(("reproduced", f"{equal} of {of}, last run {last}{mark}"))
    for one in evidence.get("elsewhere") or ():
        where = _text(one["properties"].get("instance")) or "another server"
        what = "reproduced" if one["equal"] else "not reproduced"
        fields.append(("elsewhere", f"{what} on {where}, {_text(one['at'])[:19]}"))
    for one in evidence.get("made_from_withdrawn") or ():
        fields.append(("made from withdrawn", f"{one['container_uuid']}: {one['reason']}"))
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
    for one in decisions:
        yield (
            # Digits up to milliseconds.
            _text(one["at"])[:23],
            _text(one["container_uuid"]),
            _text(one["event_type"]).replace("_", " "),
            _text(one["text"]),
        )


def place_text(decisions: Sequence[Explanation], container_uuid: str) -> str:
    """A dispatcher's sentence about the machine of a container; "" if there is none."""
    started = [
        one
        for one in decisions
        if one["event_type"] == "dispatched" and one["container_uuid"] == container_uuid
    ]
    return _text(started[-1]["text"]) if started else ""


def candidate_rows(resolution: Explanation) -> Iterator[Row]:
    """Container, state, whether it is usable, and the reason, of each candidate for reuse."""
    for one in resolution.get("candidates") or ():
        usable = "yes" if one["usable"] else "no"
        yield _text(one["container_uuid"]), shown_container(one), usable, _text(one["reason"])


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
    for one in near.get("differences") or ():
        name, values = _text(one["field"]), (one.get("request"), one.get("container"))
        shown = [_quantity(name, value) for value in values]
        # Amounts that differ by less than the words tell are shown exactly.
        ours, theirs = (
            shown if shown[0] != shown[1] else [_exact_quantity(name, value) for value in values]
        )
        yield name, ours, theirs


def further_text(resolution: Explanation) -> str:
    """The nearest containers after the first, with the first difference of each; "" without any."""
    said = []
    for one in (resolution.get("near") or ())[1:]:
        difference = one["first_difference"]
        where = f"differs first in {difference['field']}" if difference else "in nothing"
        said.append(f"{one['container_uuid']} ({shown_container(one)}) {where}")
    return f"further: {'; '.join(said)}" if said else ""


def _tried(answer: Explanation, told: set[str] | None, reasons: Sequence[str]) -> list[str]:
    """The containers that were tried before, with their ends; the reasons are told before."""
    attempts = {one["uuid"]: one for one in answer.get("attempts") or ()}
    told = set() if told is None else told
    told.update(
        error
        for error in map(_error_of, attempts.values())
        if error and any(error in reason for reason in reasons)
    )
    uuids = answer["attempted_container_uuids"] or ()
    shown = [uuid for uuid in uuids if uuid in attempts]
    texts = attempt_texts([attempts[uuid] for uuid in shown], told=told)
    ends = dict(zip(shown, texts, strict=True))
    return [f"{uuid}: {ends[uuid]}" if uuid in ends else uuid for uuid in uuids]


def end_texts(containers: Sequence[Explanation], *, told: set[str] | None = None) -> list[str]:
    """Descriptions of the ends of containers: status, exit code, kind of failure and error.

    An error of several is told once, with their number, and not again if it is in `told`, to which
    the errors are added.
    """
    told = set() if told is None else told
    counts = Counter(map(_error_of, containers))
    texts = []
    for container in containers:
        error, text = _error_of(container), shown_container(container)
        if error and error in told:
            text += ", the same error"
        elif error:
            text += f": {with_count(error, counts[error])}"
            told.add(error)
        texts.append(text)
    return texts


def with_count(error: str, attempts: int) -> str:
    """An error, with the number of attempts that ended with it if these are several."""
    return f"{error} ({attempts} attempts)" if attempts > 1 else error


def shorten(text: str, told: Iterable[str]) -> str:
    """A text without the errors that its reader has been told."""
    for error in filter(None, told):
        text = text.replace(f" ({error})", "").replace(f": {error}", ", the same error")
    return text


def attempts_with(error: str, containers: Iterable[Explanation]) -> int:
    """Number of the containers that ended with this error."""
    return sum(_error_of(container) == error for container in containers)


def _error_of(container: Explanation) -> str:
    return _text((container["runtime_status"] or {}).get("error"))


def attempt_texts(containers: Sequence[Explanation], *, told: set[str] | None = None) -> list[str]:
    """Descriptions of attempts: their ends as in `end_texts`, the ram of each, its cost in
    dollars.
    """
    return [
        "; ".join(filter(None, (end, _amounts(container))))
        for container, end in zip(containers, end_texts(containers, told=told), strict=True)
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
