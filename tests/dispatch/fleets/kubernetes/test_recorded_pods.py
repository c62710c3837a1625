"""Pods as a real kubelet (1.34.1, containerd 2.2.9) showed them: the fleet reads them on the fake
cluster. They are in the directory `recorded`, without names and addresses.

`LADING_RECORD=DIRECTORY make kubernetes` writes Pods like these.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import Failure
from lading.testing.kubernetes import FakeCluster
from tests.dispatch.fleets.kubernetes.test_kubernetes_fleet import (
    alive,
    fleet_of,
    name_of,
    order,
    running,
    seen,
    until,
)

RECORDED = Path(__file__).with_name("recorded")


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    made = FakeCluster()
    yield made
    await made.close()


def status_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())["status"]
    return found


@pytest.mark.parametrize(
    ("name", "failure", "words"),
    [
        ("drained", Failure.PREEMPTED, "evicted, as when a node is drained"),
        ("preempted", Failure.PREEMPTED, "a Pod of higher priority took its place"),
        ("taint", Failure.NODE, "its node has a taint"),
        ("evicted-volume", Failure.DISK, "it filled its scratch disk"),
        ("evicted-layer", Failure.DISK, "it filled its scratch disk"),
        ("deleted", Failure.INFRASTRUCTURE, "its supervisor ended with exit code 1"),
    ],
)
async def test_a_recorded_end_has_its_class(
    cluster: FakeCluster, name: str, failure: Failure, words: str
) -> None:
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        await running(fleet)
        cluster.finish(name_of(cluster), **status_of(name))
        await until(fleet, lambda: not alive(fleet))
        assert seen(fleet).failure is failure
        assert words in seen(fleet).fate


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unschedulable", "3 are of another kind"),
        ("image", "cannot get the image of the supervisor (ErrImagePull)"),
    ],
)
async def test_a_recorded_wait_says_why(name: str, words: str) -> None:
    cluster = FakeCluster(slots=0)
    async with fleet_of(cluster) as fleet:
        await fleet.start(order())
        cluster.show(name_of(cluster), **status_of(name))
        await until(fleet, lambda: words in seen(fleet).note)
        assert alive(fleet)
    await cluster.close()
