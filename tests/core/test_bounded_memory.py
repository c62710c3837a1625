from __future__ import annotations

import random

import pytest

from lading.core.bounded_memory import BytePool, PoolClaim


def grant(pool: BytePool, claim: PoolClaim, amount: int) -> bool:
    if not pool.fits(claim, amount):
        return False
    pool.add(claim, amount)
    claim.taken += amount
    return True


def test_more_is_granted_while_all_can_finish() -> None:
    pool = BytePool(10)
    one, other = PoolClaim(10), PoolClaim(10)
    assert grant(pool, one, 4)
    # With 4 of each, 2 would be left: nobody could finish.
    assert not grant(pool, other, 4)
    assert grant(pool, one, 6)
    assert not grant(pool, other, 1)
    pool.remove(one)
    assert grant(pool, other, 10)
    assert pool.taken == 10


def test_a_claim_that_is_complete_keeps_nobody_from_finishing() -> None:
    pool = BytePool(10)
    done, small, large = PoolClaim(4), PoolClaim(3), PoolClaim(8)
    assert grant(pool, done, 4)
    assert grant(pool, small, 2)
    # The small one ends first and gives back what the large one lacks.
    assert grant(pool, large, 3)
    assert grant(pool, small, 1)
    pool.remove(small)
    pool.remove(done)
    assert grant(pool, large, 5)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_granted_all_finish(seed: int) -> None:
    chance = random.Random(seed)
    pool = BytePool(100)
    waiting = [PoolClaim(chance.randint(1, 100)) for _ in range(40)]
    while waiting:
        granted = False
        for claim in chance.sample(waiting, len(waiting)):
            granted |= grant(pool, claim, min(claim.missing, chance.randint(1, 20)))
            assert pool.taken <= 100
            if not claim.missing:
                pool.remove(claim)
                waiting.remove(claim)
        assert granted or any(pool.fits(one, one.missing) for one in waiting)
        for claim in [one for one in waiting if pool.fits(one, one.missing)][:1]:
            assert grant(pool, claim, claim.missing)
    assert pool.taken <= 100
