"""Parameters of `GET tasks`, and the filters of requests that they mean.

Source: GA4GH Task Execution Service 1.1.0, ListTasks; docs/tes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest

from lading.core.errors import Malformed
from lading.core.tes.mapping import PROPERTY, TAG
from lading.core.tes.paging import (
    DEFAULT_PAGE,
    PageCursor,
    parse_page_size,
    read_page_token,
)
from lading.core.tes.states import TaskState, conditions, parse_state
from lading.core.values import Json, printable

# TES 1.1: `page_size` must be less than 2048.
MAX_PAGE = 2047
_NAMES = ("name_prefix", "state", "page_size", "page_token", "view")


class TaskView(StrEnum):
    """Level of detail in which a task is shown."""

    MINIMAL = "MINIMAL"
    BASIC = "BASIC"
    FULL = "FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """A checked list. `tags`: names, each with the value that it must have, "" for any."""

    name_prefix: str = ""
    state: TaskState | None = None
    tags: tuple[tuple[str, str], ...] = ()
    size: int = DEFAULT_PAGE
    view: TaskView = TaskView.MINIMAL
    after: PageCursor | None = None


def parse_view(name: str) -> TaskView:
    """The view that a parameter names, MINIMAL for none. Raises Malformed."""
    try:
        return TaskView(name or TaskView.MINIMAL)
    except ValueError:
        known = ", ".join(TaskView)
        raise Malformed(f"view: {printable(name)!r} is none of {known}") from None


def parse_query(pairs: Sequence[tuple[str, str]], *, secret: bytes) -> TaskQuery:
    """The list for the parameters of a request, in their order, blank values included. Raises
    Malformed.
    """
    parameters = {name: value for name, value in pairs if name in _NAMES}
    size = parse_page_size(parameters.get("page_size", ""), MAX_PAGE)
    state = parameters.get("state", "")
    query = TaskQuery(
        name_prefix=parameters.get("name_prefix", ""),
        state=parse_state(state) if state else None,
        tags=_tags(pairs),
        size=size,
        view=parse_view(parameters.get("view", "")),
    )
    token = parameters.get("page_token", "")
    if not token:
        return query
    return replace(query, after=read_page_token(token, about(query), secret=secret))


def _tags(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The n-th key belongs to the n-th value; missing and empty values match any."""
    keys = [value for name, value in pairs if name == "tag_key"]
    values = [value for name, value in pairs if name == "tag_value"]
    if len(values) > len(keys):
        raise Malformed("tag_value: there are more values than tag_key parameters")
    return tuple(zip_longest(keys, values, fillvalue=""))


def filters(query: TaskQuery, *, legacy: bool) -> list[Json]:
    """Filters of requests that hold for every task of the list."""
    terms: list[Json] = [["properties", "exists", PROPERTY]]
    if query.name_prefix:
        plain = query.name_prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        terms.append(["name", "like", f"{plain}%"])
    for name, value in query.tags:
        # In brackets, of which the API takes one pair away: the name may have any characters.
        column = f"properties.<{TAG}{name}>"
        terms.append([column, "=", value] if value else [column, "exists", True])
    if query.state is not None:
        terms += conditions(query.state, legacy=legacy)
    return terms


def about(query: TaskQuery) -> Json:
    """Subject of the token of a page: the filters of the list."""
    return [query.name_prefix, query.state, [list(tag) for tag in query.tags]]
