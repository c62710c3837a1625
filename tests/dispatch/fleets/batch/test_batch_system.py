"""Marks of jobs, and descriptions of nodes."""

from __future__ import annotations

import pytest

from lading.core.resources import GIB, Resources
from lading.dispatch.fleets.batch.batch_system import (
    JobPhase,
    NodeShape,
    QueueRow,
    job_mark,
    owner,
)

TOKEN = "zzzzz-gj3su-000000000000000"
UUIDS = tuple(f"zzzzz-dz642-{number:015d}" for number in range(3))


def row(mark: str, index: int = 0) -> QueueRow:
    return QueueRow(job="1", mark=mark, phase=JobPhase.WAITING, state="Q", index=index)


def test_a_mark_names_the_container_of_each_task() -> None:
    mark = job_mark(TOKEN, UUIDS)
    assert [owner(row(mark, index), token=TOKEN) for index in range(4)] == [*UUIDS, None]


@pytest.mark.parametrize("mark", ["", "lading", "other x y", f"lading {TOKEN} short"])
def test_other_marks_are_nobodys(mark: str) -> None:
    assert owner(row(mark), token=TOKEN) is None


def test_a_kind_of_nodes_is_named_for_people() -> None:
    shape = NodeShape(
        system="Grid Engine",
        capacity=Resources(4, GIB, GIB),
        partitions=frozenset({"b.q", "a.q"}),
        default=True,
    )
    assert shape.name == "Grid Engine nodes of 4 VCPUs, 1.0 GiB RAM and 1.0 GiB scratch in a.q, b.q"
