"""The verdict of a soak tells growth from restarts; and a minute of it ends well (`make soak` runs
an hour).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.soak.samples import MIB, ROLES, Process, Sample, growth
from tests.system.soak.site import soak
from tests.system.soak.verdict import MEMORY_BOUND, SETTLING, judge

pytestmark = pytest.mark.system
EVERY, LIFE = 30.0, 600.0


def _samples(minutes: float, *, per_hour: float, fresh: float = 0.0) -> list[Sample]:
    """Samples of a server killed every ten minutes: its memory grows by MiB an hour, and `fresh`
    MiB at first.
    """
    found = []
    for number in range(int(minutes * 60 / EVERY)):
        at = number * EVERY
        life, age = divmod(at, LIFE)
        memory = 80 + life * 7 + min(age / SETTLING, 1.0) * fresh + per_hour * age / 3600
        server = Process(pid=int(life) + 1, resident=int(memory * MIB), files=20)
        roles = {role: (server,) if role == "server" else () for role in ROLES}
        found.append(
            Sample(
                at=at, machine=0.3, roles=roles, rows={"container_requests": 1}, temporary=0,
                processes=1, mounts=0, cgroups=0,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize("per_hour", [0.0, 12.0, 90.0])
@pytest.mark.quick
def test_growth_is_measured_within_lives(per_hour: float) -> None:
    found = growth(_samples(60, per_hour=per_hour), "server", "resident", settling=SETTLING)
    assert found.per_hour / MIB == pytest.approx(per_hour, abs=0.5)


@pytest.mark.quick
def test_a_leak_is_a_fault_and_a_restart_is_none() -> None:
    assert judge(_samples(60, per_hour=2, fresh=40))[1] == []
    (fault,) = judge(_samples(60, per_hour=MEMORY_BOUND + 5))[1]
    assert fault == "server: resident grows by 29.0 MiB an hour, more than 24"


@pytest.mark.quick
def test_a_short_run_is_not_judged() -> None:
    lines, faults = judge(_samples(4, per_hour=900))
    assert faults == []
    assert "not judged: too short" in "".join(lines)


@pytest.mark.long
async def test_a_minute_of_it(tmp_path: Path) -> None:
    done = await soak(tmp_path, minutes=1, rate=3.0, every=5.0, seed=1, show=lambda _: None)
    assert done.faults == []
    assert done.requests.total() >= 170
    assert done.strikes.total() > 10
