"""Who holds a token."""

from __future__ import annotations

from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import TOKENS, USERS
from lading.store import records, tokens
from lading.store.database import Database


async def fill(database: Database) -> None:
    async with database.writing() as tx:
        await records.insert(tx, USERS, {"uuid": "u", "is_admin": True})
        row = {"uuid": "t", "owner_uuid": "u", "secret_hash": "h", "scopes": ["GET /x"]}
        await records.insert(tx, TOKENS, row)
        await records.insert(tx, TOKENS, {"uuid": "plain", "owner_uuid": "u", "secret_hash": "i"})
        await records.insert(tx, CONTAINERS, {"uuid": "c", "auth_uuid": "t", "state": "Running"})
        await records.insert(
            tx, CONTAINERS, {"uuid": "d", "runtime_token": "v2/t/s", "state": "Running"}
        )


async def test_holder(database: Database) -> None:
    await fill(database)
    async with database.reading() as tx:
        by_uuid, by_hash = (
            await tokens.token_holder(tx, "t", "h"),
            await tokens.token_holder(tx, "", "h"),
        )
        assert by_uuid == by_hash
        assert by_uuid is not None
        assert (by_uuid.user_uuid, by_uuid.scopes, by_uuid.is_admin, by_uuid.own) == (
            "u",
            ("GET /x",),
            True,
            "c",
        )
        plain = await tokens.token_holder(tx, "plain", "i")
        assert plain is not None
        assert (plain.scopes, plain.own) == (("all",), None)
        assert (
            await tokens.token_holder(tx, "t", "other")
            is await tokens.token_holder(tx, "", "x")
            is None
        )


async def test_the_token_of_a_container_whose_request_brought_a_runtime_token(
    database: Database,
) -> None:
    await fill(database)
    async with database.writing() as tx:
        await records.insert(tx, TOKENS, {"uuid": "o", "owner_uuid": "u", "secret_hash": "j"})
        await records.update(tx, CONTAINERS, "d", {"auth_uuid": "o"})
        found = [
            await tokens.token_holder(tx, uuid, secret)
            for uuid, secret in (("o", "j"), ("t", "h"), ("plain", "i"))
        ]
        assert [one and (one.own, one.is_derived) for one in found] == [
            ("d", True),
            ("c", False),
            (None, False),
        ]
        await records.update(tx, CONTAINERS, "d", {"runtime_token": None})
        wiped = await tokens.token_holder(tx, "o", "j")
        assert wiped is not None
        assert not wiped.is_derived


async def test_expire_only_shortens(database: Database) -> None:
    await fill(database)
    async with database.writing() as tx:
        await tokens.expire_tokens(tx, ["t"], "5")
        await tokens.expire_tokens(tx, ["t"], "7")
        found = await tokens.token_holder(tx, "t", "h")
    assert found is not None
    assert found.expires_at == "5"
