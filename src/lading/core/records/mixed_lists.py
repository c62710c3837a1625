"""Lists over several record types: the types of a query, and the query for each of them.

* A filter on `uuid is_a` picks types. `collections.name` concerns collections only; a bare
attribute concerns every remaining type, and must exist in each. A selected name must exist in one
of them.
* Types follow each other, groups first; ordered by uuid they follow in the order of their infixes,
so that paging by `uuid > last` reaches every record.

Source: docs/spec/api, sections Filters and Groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lading.core.errors import Invalid
from lading.core.records.expressions import Constant, Query, SortKey
from lading.core.records.filters import (
    check_filters,
    check_order,
    check_query,
    check_select,
    order_entries,
)
from lading.core.records.schema import JSON, Record, RecordType


@dataclass(frozen=True, slots=True)
class MixedListPart:
    """One record type of a list with its own query; `limit` and `offset` of the query are those of
    the whole list.
    """

    kind: RecordType
    query: Query


def split(
    params: Mapping[str, JSON],
    kinds: Sequence[RecordType],
    *,
    max_limit: int,
    beside: Sequence[RecordType] = (),
) -> tuple[MixedListPart, ...]:
    """The queries of a list over `kinds`, in the order of the results. Raises Invalid.

    `beside` are the types of further records in the response: their attributes may be selected as
    well.
    """
    filters = params.get("filters")
    triples = [] if filters is None else filters
    queried = (
        kinds
        if not isinstance(triples, list)
        else [kind for kind in kinds if _is_wanted(triples, kind)]
    )
    selected = _selected(params.get("select"), kinds, beside)
    parts = []
    for kind in queried:
        own: Record = {
            **params,
            "filters": _own(triples, kind, kinds),
            "select": selected.get(kind.plural),
            "order": _own_order(params.get("order"), kind, kinds),
            "distinct": False,
            "where": None,
        }
        parts.append(MixedListPart(kind, check_query(own, kind, max_limit=max_limit)))
    return _in_order(parts)


def check_group_filters(filters: JSON, kinds: Sequence[RecordType]) -> None:
    """Check the filters of a filter group. Raises Invalid."""
    split({"filters": filters}, kinds, max_limit=0)


def _is_wanted(triples: list[JSON], kind: RecordType) -> bool:
    picks = [
        triple
        for triple in triples
        if isinstance(triple, list)
        and len(triple) == 3
        and triple[0] == "uuid"
        and triple[1] == "is_a"
    ]
    # A type whose infix does not match gets a condition that is never true.
    return Constant(False) not in check_filters(picks, kind)


def _own(triples: JSON, kind: RecordType, kinds: Sequence[RecordType]) -> JSON:
    if not isinstance(triples, list):
        return triples
    others = {listed_kind.plural for listed_kind in kinds} - {kind.plural}
    return [
        triple
        for triple in triples
        if not (isinstance(triple, list) and triple and _table(triple[0]) in others)
    ]


def _own_order(order: JSON, kind: RecordType, kinds: Sequence[RecordType]) -> list[JSON]:
    """The entries of an order whose attribute a type has. Raises Invalid for one of no type."""
    own: list[JSON] = []
    for entry in order_entries(order):
        if _sorts(entry, kind):
            own.append(entry)
        elif not any(_sorts(entry, listed_kind) for listed_kind in kinds):
            check_order([entry], kind)
    return own


def _sorts(entry: str, kind: RecordType) -> bool:
    try:
        check_order([entry], kind)
    except Invalid:
        # The type has no such attribute.
        return False
    return True


def _table(attribute: JSON) -> str:
    return attribute.partition(".")[0] if isinstance(attribute, str) and "." in attribute else ""


def selected_of(select: JSON, kind: RecordType) -> tuple[str, ...]:
    """The selected attributes of one type of further records; all when nothing is selected."""
    if not isinstance(select, list):
        return kind.listed
    names = [name.removeprefix(f"{kind.plural}.") for name in select if _knows(kind, name)]
    return ("uuid", *(name for name in names if not kind.by_name[name].unlisted))


def _selected(
    select: JSON, kinds: Sequence[RecordType], beside: Sequence[RecordType]
) -> dict[str, list[str]]:
    if select is None:
        return {}
    if not isinstance(select, list) or not select:
        raise Invalid("select: must be an array of at least one attribute name")
    for name in select:
        if not any(_knows(kind, name) for kind in (*kinds, *beside)):
            raise Invalid(f"Invalid attribute {str(name)[:80]!r} in select parameter")
    return {kind.plural: ["uuid", *_listed(kind, select)] for kind in kinds}


def _listed(kind: RecordType, names: Iterable[JSON]) -> Iterator[str]:
    """The selected attributes that a type has and lists return."""
    for name in names:
        # Manifests are returned only with the collection itself.
        if _knows(kind, name) and not kind.by_name[name.removeprefix(f"{kind.plural}.")].unlisted:
            yield name


def _knows(kind: RecordType, name: JSON) -> bool:
    try:
        check_select([name], kind)
    except Invalid:
        # The type has no such field.
        return False
    return True


def _in_order(parts: list[MixedListPart]) -> tuple[MixedListPart, ...]:
    first = parts[0].query.order[0] if parts else SortKey("modified_at")
    if first.column == "uuid":
        parts = sorted(
            parts, key=lambda mixed_part: mixed_part.kind.infix, reverse=first.descending
        )
    return tuple(parts)
