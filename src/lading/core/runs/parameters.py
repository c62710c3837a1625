"""Parameters of calls about runs, checked. Source: docs/spec/api, section Runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lading.core.errors import Invalid
from lading.core.quantities import parse_time
from lading.core.runs.states import RunState


def parse_number(value: object, *, name: str = "attempt") -> int | None:
    """A whole number of 1 or more, also as a text; None for null and "". Raises Invalid."""
    if value is None or value == "":
        return None
    digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or int(digits) < 1:
        raise Invalid(f"{name}: must be a whole number, 1 or more")
    return int(digits)


def parse_limit(params: Mapping[str, Any], default: int, most: int) -> int:
    """The number of items of an answer. Raises Invalid."""
    limit = parse_number(params.get("limit"), name="limit")
    return default if limit is None else min(limit, most)


def parse_state(value: object) -> RunState | None:
    """The state with a name; None for null and "". Raises Invalid."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or value not in set(RunState):
        raise Invalid(f"state: must be one of {', '.join(RunState)}")
    return RunState(value)


def parse_position(value: object) -> tuple[str, str] | None:
    """The time and the uuid after which a list goes on; None for its beginning. Raises Invalid."""
    if value is None or value == "":
        return None
    moment, _, uuid = str(value).partition(" ")
    try:
        parse_time(moment)
    except ValueError:
        raise Invalid("after: must be the value `next` of the answer before") from None
    return moment, uuid


def parse_text(name: str, value: object) -> str:
    """A text of at most 1,000 characters; "" for null. Raises Invalid."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 1000:
        raise Invalid(f"{name}: must be a text of at most 1,000 characters")
    return value


def parse_object(name: str, value: object) -> dict[str, Any]:
    """An object; {} for null. Raises Invalid."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid(f"{name}: must be an object")
    return dict(value)
