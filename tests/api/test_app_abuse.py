"""Nonsense in every place: nothing answers 500, and what is refused changes nothing. Seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import RECORDS, TOKENS, USERS
from lading.core.records.schema import JSON, Record, RecordType
from lading.core.records.service_records import COMPUTED_PERMISSIONS
from lading.testing.world import ApiReply, World

OPERATORS: tuple[JSON, ...] = (
    *(
        "=",
        "!=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "like",
        "ilike",
        "in",
        "not in",
        "exists",
        "contains",
        "is_a",
        "@@",
    ),
    *("nope", 5, None, ["="]),
)
VALUES: tuple[JSON, ...] = (
    *(None, True, False, 0, -1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**70), 0.5, 1e308, -1e308),
    *(
        "",
        "\0",
        "a\0b",
        "é\u2028\U0001f600",
        "%",
        "\\",
        "'",
        '"',
        "NaN",
        "Infinity",
        "1e999",
        "true",
        "[1]",
        "{}",
        "²",
    ),
    *(
        '"\\ud800"',
        '{"a":"\\udfff"}',
        "[" * 50,
        "[" * 2000 + "]" * 2000,
        "9" * 30,
        "1_000",
        "%" * 60_000,
    ),
    *(
        "2026-01-01",
        "0000-00-00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.999999999-14:00",
        "../../etc",
    ),
    *(
        [],
        [[]],
        [None],
        [1, "x", None],
        ["\0"],
        [2**70],
        ["x"] * 2000,
        list(range(1500)),
        ["arvados#user", 5],
    ),
    *({}, {"a": 1}, {"a": {"b": [1]}}, {"": ""}, {"\0": "\0"}),
)
NUMBERS: tuple[JSON, ...] = (
    0,
    1,
    -1,
    2**63,
    2**70,
    "5",
    "x",
    "9" * 30,
    None,
    True,
    1.5,
    [],
    {},
    "-0",
    "٣",
)
ORDERS: tuple[JSON, ...] = (
    "uuid",
    "x; drop table users",
    ["uuid desc", "name"],
    [5],
    {},
    ["\0"],
    ["uuid"] * 3000,
)
SELECTS: tuple[JSON, ...] = (
    ["uuid"],
    "uuid",
    [],
    [5],
    ["nope"],
    ["uuid", None],
    {},
    '["uuid"',
    ["runtime_token"],
)
UUIDS = (
    "x",
    "%2e%2e",
    "../users",
    "a/b",
    "'--",
    "\0",
    "\ufffd",
    "zzzzz-dz642-" + "0" * 15,
    "z" * 5000,
    "0" * 32 + "+0",
)


def attribute(source: random.Random, kind: RecordType) -> JSON:
    fields = [one.name for one in kind.fields]
    keys = [
        f"{one.name}.{key}"
        for one in kind.fields
        if one.nested
        for key in ("a", "", "<a b>", "'", "\0")
    ]
    beside = [
        "any",
        "nope",
        "",
        f"{kind.plural}.uuid",
        "container.state",
        "container.nope",
        "uuid.x",
    ]
    name = source.choice([*fields, *keys, *beside])
    return (
        source.choice([5, None, [], {}, [name, "uuid"], [5], [name] * 1200])
        if source.random() < 0.1
        else name
    )


def parameters(source: random.Random, kind: RecordType) -> Record:
    filters = [
        [attribute(source, kind), source.choice(OPERATORS), source.choice(VALUES)]
        for _ in range(source.choice((1, 1, 1, 2)))
    ]
    choices: dict[str, tuple[float, JSON]] = {
        "filters": (0.9, filters if source.random() < 0.95 else source.choice(VALUES)),
        "where": (0.1, {str(attribute(source, kind)): source.choice(VALUES)}),
        "limit": (0.1, source.choice(NUMBERS)),
        "offset": (0.1, source.choice(NUMBERS)),
        "order": (0.1, source.choice(ORDERS)),
        "select": (0.1, source.choice(SELECTS)),
        "count": (0.05, source.choice(VALUES)),
        "distinct": (0.05, True),
    }
    return {name: value for name, (chance, value) in choices.items() if source.random() < chance}


def attributes(source: random.Random, kind: RecordType, base: Mapping[str, JSON]) -> Record:
    given = {
        source.choice(kind.fields).name: source.choice(VALUES)
        for _ in range(source.choice((1, 1, 2)))
    }
    return {**(base if kind is REQUESTS else {}), **given}


async def rows_of(it: World) -> list[Record]:
    items: list[Record] = (
        await it.ok("GET", "logs", params={"limit": 1000, "order": ["id desc"]})
    )["items"]
    return items


def check(reply: ApiReply, *call: object) -> None:
    assert reply.status < 500, (reply.body[:300], repr(call)[:1000])
    if reply.status >= 400:
        assert "\n" not in reply.error


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_operator_on_every_column_with_every_operand(it: World, seed: int) -> None:
    source = random.Random(seed)
    await it.submit("true")
    await it.ok("POST", "links", {"link_class": "tag", "name": "x", "properties": {"a": ["b", 1]}})
    before = len(await rows_of(it))
    for number in range(1000):
        kind = source.choice(RECORDS)
        params = parameters(source, kind)
        if number % 2:
            check(await it.request("GET", kind.plural, params=params), kind.plural, params)
        else:
            check(
                await it.request("POST", kind.plural, {**params, "_method": "GET"}),
                kind.plural,
                params,
            )
    assert len(await rows_of(it)) == before


async def test_attributes_of_every_kind(it: World) -> None:
    source, token = random.Random(3), await it.user("u")
    user = (await it.ok("GET", "users/current", token=token))["uuid"]
    base = await it.spec("true", token=token)
    theirs = await it.submit("not theirs")
    for number in range(600):
        kind = source.choice(
            [one for one in RECORDS if one not in (USERS, TOKENS, COMPUTED_PERMISSIONS)]
        )
        given = attributes(source, kind, base)
        last = (await rows_of(it))[0]["id"] if number % 3 == 0 else None
        uuids = [
            row["uuid"]
            for row in (await it.ok("GET", kind.plural, token=token, params={"limit": 3}))["items"]
        ]
        path = (
            f"{kind.plural}/{source.choice([*uuids, theirs['uuid']])}"
            if number % 2
            else kind.plural
        )
        reply = await it.request(
            "PUT" if number % 2 else "POST", path, {kind.singular: given}, token=token
        )
        check(reply, path, given)
        if reply.status >= 400 and last is not None:
            assert (await rows_of(it))[0]["id"] == last
    assert await it.ok("GET", f"container_requests/{theirs['uuid']}") == theirs
    for row in await rows_of(it):
        audited = (row["summary"] or "").startswith(("create of ", "update of ", "delete of "))
        if audited and row["owner_uuid"] == user and row["object_kind"] != "arvados#container":
            systems = row["object_kind"] in ("arvados#group", "arvados#link", "arvados#credential")
            assert row["object_owner_uuid"] in (
                user,
                *([it.app.services.ids.system_user] if systems else []),
            )
    for kind in RECORDS:
        await it.ok("GET", kind.plural, params={"limit": 1000})


def paths() -> Iterator[str]:
    for kind in RECORDS:
        for action in kind.actions:
            for uuid in UUIDS:
                member = f"/{uuid}" if action.scope == "member" else ""
                yield f"/arvados/v1/{kind.plural}{member}{'/' if action.path else ''}{action.path}"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PATCH", "DELETE", "POST"])
async def test_odd_uuids_and_methods(it: World, method: str) -> None:
    before = len(await rows_of(it))
    for path in dict.fromkeys(paths()):
        if method != "POST" or "/".join(path.split("/")[:5]) != path:
            reply = await it.request(method, path, raw=b"[" if method == "POST" else None)
            assert reply.status < 500, (method, path)
    assert len(await rows_of(it)) == before
