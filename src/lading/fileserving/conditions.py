"""Conditions of requests for files (RFC 9110, 8.8 and 13).

If-Match and If-Unmodified-Since refuse with 412. If-None-Match and If-Modified-Since answer a
reader with 304 and a writer with 412. If-Match and If-Range use the strong comparison of entity
tags, If-None-Match the weak one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum
from typing import Final

# An entity tag of RFC 9110, section 8.8.3.
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')


class ConditionResult(Enum):
    """Result of the conditions of a request."""

    GO_ON = 200
    NOT_MODIFIED = 304
    REFUSED = 412


@dataclass(frozen=True, slots=True)
class ResourceState:
    """Present state: entity tag without quotes, "" for no file; time of the last change, if
    known.
    """

    tag: str = ""
    modified: datetime | None = None


def judge_conditions(
    headers: Mapping[str, str], state: ResourceState, *, reads: bool
) -> ConditionResult:
    """Evaluate the conditions of a request."""
    wanted, unwanted = headers.get("if-match"), headers.get("if-none-match")
    # RFC 9110, 13.2.2: If-Unmodified-Since is ignored if there is an If-Match, and so below.
    if wanted is not None:
        if not _names(wanted, state, weak=False):
            return ConditionResult.REFUSED
    elif _changed_since(headers.get("if-unmodified-since"), state):
        return ConditionResult.REFUSED
    if unwanted is not None:
        if _names(unwanted, state, weak=True):
            return ConditionResult.NOT_MODIFIED if reads else ConditionResult.REFUSED
    elif reads and _changed_since(headers.get("if-modified-since"), state) is False:
        return ConditionResult.NOT_MODIFIED
    return ConditionResult.GO_ON


def range_holds(headers: Mapping[str, str], state: ResourceState) -> bool:
    """Whether If-Range permits a range of the present state."""
    condition = headers.get("if-range")
    if condition is None:
        return True
    match = _TAG.fullmatch(condition.strip())
    if match is not None:
        # If-Range requires a strong tag.
        return not match[1] and match[2] == state.tag
    moment = _moment(condition)
    return (
        moment is not None
        and state.modified is not None
        # HTTP dates have whole seconds.
        and moment == state.modified.replace(microsecond=0)
    )


def http_date(moment: datetime) -> str:
    """A time in the format of HTTP headers."""
    return format_datetime(moment.astimezone(UTC).replace(microsecond=0), usegmt=True)


def _names(header: str, state: ResourceState, *, weak: bool) -> bool:
    if header.strip() == "*":
        return bool(state.tag)
    return any(
        # "*" is any existing file.
        match[2] == state.tag and (weak or not match[1])
        for match in _TAG.finditer(header)
    ) and bool(state.tag)


def _changed_since(header: str | None, state: ResourceState) -> bool | None:
    moment = _moment(header) if header else None
    if moment is None or state.modified is None:
        # None: the header is invalid or the time is unknown, so the condition does not apply.
        return None
    return state.modified.replace(microsecond=0) > moment


def _moment(http_date: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
