"""Charges, waits and spending of quotas, on each database."""

from __future__ import annotations

from lading.core.policy.budgets import Spent
from lading.core.policy.quotas import Amounts, Charge
from lading.core.records.container_types import CONTAINERS, REQUESTS
from lading.core.records.service_records import QUOTAS
from lading.store import quotas, records
from lading.store.database import Database
from lading.store.quotas import QuotaKey, StoredCharge

ADA, LAB = "zzzzz-tpzed-00000000000000a", "zzzzz-j7d0g-00000000000000b"
ONE = Amounts(1, 2, 1 << 40, 0)


async def test_charges(database: Database) -> None:
    async with database.writing() as tx:
        await quotas.charge(tx, "a", [ADA, LAB], StoredCharge(1 << 60, False, ONE))
        await quotas.charge(tx, "b", [ADA], StoredCharge(5, False, ONE, True))
        await quotas.charge(tx, "c", [ADA], StoredCharge(7, True, ONE))
        assert await quotas.used(tx, [ADA, LAB]) == {ADA: ONE + ONE + ONE, LAB: ONE}
        assert await quotas.used(tx, [ADA], without="a", only_held=True) == {ADA: ONE}
        assert await quotas.used(tx, [ADA], workflows=True) == {ADA: ONE}
        assert await quotas.yielding(tx, ADA, 1 << 60, most=9) == [Charge("b", 5, ONE)]
        assert await quotas.admitted(tx, ADA, most=9) == ["b", "a"]
        assert await quotas.running(tx, ADA, most=9) == ["c"]
        # Charged again, it is charged once.
        await quotas.charge(tx, "b", [ADA], StoredCharge(6, True, Amounts(1)))
        assert await quotas.charges_of(tx, ["b"]) == {
            "b": {ADA: StoredCharge(6, is_held=True, amounts=Amounts(1))}
        }
        assert await quotas.discharge(tx, "a", [LAB]) == [LAB]
        assert await quotas.discharge(tx, "a") == [ADA]
        await quotas.forget(tx, ADA)
        assert await quotas.used(tx, [ADA]) == {ADA: Amounts()}


async def test_spending(database: Database) -> None:
    async with database.writing() as tx:
        for day, amount in (("2026-01-31", 1.5), ("2026-02-01", 2.0), ("2026-02-01", 0.25)):
            await quotas.spend(tx, [ADA], day, amount)
        assert await quotas.spent(tx, ADA, "2026-02-01") == Spent(2.25, 3.75)
        assert await quotas.spent(tx, LAB, "2026-02-01") == Spent()


async def test_which_kinds_have_quotas(database: Database) -> None:
    async with database.writing() as tx:
        assert await quotas.kinds(tx, "zzzzz") == set()
        for number, subject in enumerate((ADA, LAB, "yyyyy-xvhdp-000000000000000")):
            record = {
                **QUOTAS.defaults,
                "uuid": f"zzzzz-qu0ta-{number:015d}",
                "owner_uuid": subject,
                "subject_uuid": subject,
                "modified_at": "1",
            }
            await records.insert(tx, QUOTAS, record)
            assert len(await quotas.kinds(tx, "zzzzz")) == min(number + 1, 2)
        assert await quotas.kinds(tx, "yyyyy") == {"xvhdp"}


async def test_the_quota_of_the_project_that_owns_a_request_concerns_it(database: Database) -> None:
    kinds = frozenset({"j7d0g"})
    async with database.writing() as tx:
        record = {
            **QUOTAS.defaults,
            "uuid": "zzzzz-qu0ta-000000000000000",
            "owner_uuid": LAB,
            "subject_uuid": LAB,
            "modified_at": "1",
        }
        await records.insert(tx, QUOTAS, record)
        [quota] = await quotas.concerning(tx, QuotaKey(ADA, LAB), kinds)
        assert quota.subject_uuid == LAB
        assert await quotas.concerning(tx, QuotaKey(ADA, ADA), kinds) == []


async def test_the_requests_that_the_quota_of_a_request_concerns(database: Database) -> None:
    """A workflow and what its containers asked for, however deep; others are not counted."""
    workflow, child, grandchild, other = (f"zzzzz-xvhdp-{number:015d}" for number in range(4))
    runner, step = "zzzzz-dz642-000000000000000", "zzzzz-dz642-000000000000001"
    rows = (
        (workflow, None, runner),
        (child, runner, step),
        (grandchild, step, None),
        (other, None, None),
    )
    async with database.writing() as tx:
        for uuid, state in ((runner, "Running"), (step, "Queued")):
            await records.insert(tx, CONTAINERS, {"uuid": uuid, "state": state})
        for uuid, parent, container in rows:
            row = {"requesting_container_uuid": parent, "container_uuid": container}
            await records.insert(tx, REQUESTS, {"uuid": uuid, "state": "Committed", **row})
        # The workflow itself runs already.
        assert await quotas.queued(tx, workflow, most=9) == 2
        assert await quotas.queued(tx, workflow, most=1) == 1
        assert await quotas.queued(tx, child, most=9) == 2
        assert await quotas.queued(tx, other, most=9) == 1
