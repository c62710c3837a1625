from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from hypothesis import given
from msgspec import structs

from lading.core.resources import Resources
from lading.core.scheduling.batch_explanation import explain
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.instance_types import NO_GPU, Gpu
from lading.core.scheduling.planning import (
    Category,
    FleetWorker,
    Occupant,
    Snapshot,
    TrackedContainer,
)
from tests.core.scheduling.snapshots import (
    CARD,
    WHOLE,
    entry,
    gpu_snapshot,
    named,
    old,
    snapshots,
    worker,
)


def test_reasons() -> None:
    queue = (
        entry("huge", 9, Resources(99, 1)), entry("held", 8), entry("head", 7, WHOLE),
        entry("small"), entry("x"), entry("more", 0, Resources(4, 1)),
    )  # fmt: skip
    found = explain(
        Snapshot(
            queue=queue, workers=(worker(old("x")),), held_back={"held": "Pausing after a fault."}
        )
    )
    assert {uuid: one.category for uuid, one in found.items()} == {
        "x": Category.PREPARING, "huge": Category.TOO_LARGE, "held": Category.HELD,
        "head": Category.CAPACITY, "small": Category.BEHIND_HEAD, "more": Category.CAPACITY,
    }  # fmt: skip
    assert found["head"].sentence == (
        "Waiting in queue at position 1: it needs 4 VCPUs and 40 bytes RAM; "
        "the nearest fit, w, has 3 VCPUs and 30 bytes RAM free of 4 VCPUs and 40 bytes RAM."
    )
    assert "position 2" in found["small"].sentence
    assert "head" in found["small"].sentence
    assert "99 VCPUs and 1 bytes RAM; the nearest fit, w, has 4 VCPUs" in found["huge"].sentence
    assert found["held"].sentence == "Pausing after a fault."


def test_the_nearest_fit_lacks_least_of_what_is_needed() -> None:
    free = (
        worker(old("x", Resources(3, 1)), id="cores"), worker(old("y", Resources(1, 5)), id="near"),
        worker(old("z", Resources(0, 39)), id="memory"),
    )  # fmt: skip
    assert (
        "the nearest fit, near, has 3 VCPUs"
        in explain(Snapshot(queue=(entry("a", need=WHOLE),), workers=free))["a"].sentence
    )
    small = (worker(id="s", capacity=Resources(8, 10)), worker(id="t", capacity=Resources(2, 100)))
    assert (
        "the nearest fit, t, has 2 VCPUs"
        in explain(Snapshot(queue=(entry("a", need=Resources(3, 90)),), workers=small))[
            "a"
        ].sentence
    )


class _CountingWorker(FleetWorker):
    """A worker that counts how often it is asked whether it can hold a container."""

    __slots__ = ()
    asked: ClassVar[int] = 0

    def admits(self, container: TrackedContainer) -> bool:
        type(self).asked += 1
        return super().admits(container)


def test_equal_needs_and_equal_workers_are_looked_at_once() -> None:
    needed = (WHOLE, Resources(3, 40))
    queue = tuple(entry(f"q{number:03}", need=needed[number % 2]) for number in range(200))
    workers = tuple(
        _CountingWorker(f"w{number:02}", WHOLE, occupants=(old(f"r{number}", Resources(2, 10)),))
        for number in reversed(range(50))
    )
    snapshot = Snapshot(queue=queue, workers=workers)
    _CountingWorker.asked = 0
    plan(snapshot)
    planned = _CountingWorker.asked
    found = explain(snapshot)
    # `explain` plans too; each of the two needs is looked at by itself.
    assert _CountingWorker.asked <= 2 * planned + 2 * len(needed)
    for number, container in enumerate(queue):
        assert found[container.uuid].sentence == (
            f"Waiting in queue at position {number + 1}: it needs {container.need}; "
            f"the nearest fit, w00, has 2 VCPUs and 30 bytes RAM free of {WHOLE}."
        )


def test_workers_that_differ_are_told_apart() -> None:
    """Equal capacity alone, or equal room alone, does not make workers equal."""
    workers = (
        worker(old("x", Resources(3, 30)), id="a"), worker(old("y", Resources(2, 20)), id="b"),
        FleetWorker(id="c", capacity=WHOLE, partitions=frozenset({"gpu"}), closed=True),
        worker(id="d", capacity=Resources(2, 20)),
    )  # fmt: skip
    queue = (named("any", need=WHOLE), named("gpu", "gpu", need=Resources(5, 1)))
    found = explain(Snapshot(queue=queue, workers=workers))
    assert "the nearest fit, b, has 2 VCPUs and 20 bytes RAM free" in found["any"].sentence
    assert found["gpu"].category is Category.TOO_LARGE


def test_a_started_container_is_explained_as_being_prepared() -> None:
    found = explain(Snapshot(queue=(entry("a"), entry("a")), workers=(worker(),)))
    assert found["a"].sentence == "Preparing to run on w."


@given(snapshots())
def test_every_waiting_container_can_say_why(snapshot: Snapshot) -> None:
    found = explain(snapshot)
    assert {one.uuid for one in snapshot.queue} <= found.keys()


def test_why_gpus_do_not_suit_is_said() -> None:
    found = explain(gpu_snapshot(Gpu(stack="rocm", count=1, targets=("gfx90a",)), CARD))["a"]
    assert found.category is Category.TOO_LARGE
    assert found.sentence == (
        "Not for this dispatcher: it needs 1 GPU (gfx90a), which no machine has "
        "(w: its GPUs are for cuda, and rocm is needed)."
    )


def test_every_machine_is_named_with_what_its_gpus_lack() -> None:
    asked = Gpu(stack="cuda", count=2, targets=("ampere",), driver="12.4", vram=24 << 30)
    queue = (replace(entry("a", need=Resources(1, 10, gpus=2)), gpu=asked),)
    card = structs.replace(asked, targets=("8.6",), driver="12.4")
    cards = {
        "few": structs.replace(card, count=1),
        "old": structs.replace(card, driver="12.2"),
        "small": structs.replace(card, vram=16 << 30),
        "turing": structs.replace(card, targets=("7.5",)),
        "plain-1": NO_GPU,
        "plain-2": NO_GPU,
    }
    workers = tuple(
        FleetWorker(id=name, capacity=Resources(4, 40, gpus=gpu.count), gpu_kinds=(gpu,))
        for name, gpu in cards.items()
    )
    sentences = {
        name: explain(Snapshot(queue=queue, workers=(one,)))["a"].sentence
        for name, one in zip(cards, workers, strict=True)
    }
    for name, words in (
        ("few", "(few: it has too few GPUs: 1, and 2 are needed)"),
        ("old", "it supports CUDA 12.2, and 12.4 is needed"),
        ("small", "16.0 GiB each, and 24.0 GiB are needed"),
        ("turing", "another kind: 7.5, and ampere is needed"),
        ("plain-1", "(plain-1: it has no GPUs)"),
    ):
        assert words in sentences[name]
    together = explain(Snapshot(queue=queue, workers=workers[-3:]))["a"].sentence
    assert together.endswith(
        "(turing: its GPUs are of another kind: 7.5, and ampere is needed; "
        "plain-1, plain-2: it has no GPUs)."
    )
    suited = FleetWorker(id="w", capacity=Resources(4, 40, gpus=2), gpu_kinds=(card,))
    fits = explain(Snapshot(queue=queue, workers=(*workers, suited)))["a"]
    assert "Not for this dispatcher" not in fits.sentence


def test_gpus_that_suit_are_not_blamed_for_lack_of_ram() -> None:
    asked = Gpu(stack="cuda", count=1, targets=("ampere",))
    queue = (replace(entry("a", need=Resources(1, 100, gpus=1)), gpu=asked),)
    card = structs.replace(asked, targets=("8.6",))
    worker = FleetWorker(id="w", capacity=Resources(4, 40, gpus=1), gpu_kinds=(card,))
    found = explain(Snapshot(queue=queue, workers=(worker,)))["a"]
    assert found.sentence.startswith("Too large for this dispatcher")


def test_the_number_of_gpus_counts_where_their_kind_is_not_known() -> None:
    asked = Gpu(stack="rocm", count=3, targets=("gfx90a",))
    found = explain(gpu_snapshot(asked, None))["a"]
    assert found.sentence.endswith("(w: it has too few GPUs: 2, and 3 are needed).")


def test_gpus_of_a_kind_that_are_in_use_are_named() -> None:
    kinds = (Gpu(stack="cuda", count=1), Gpu(stack="rocm", count=1))
    holder = Occupant(uuid="x", need=Resources(1, 10, gpus=1), gpu=kinds[0])
    worker = FleetWorker(
        id="w", capacity=Resources(4, 40, gpus=2), gpu_kinds=kinds, occupants=(holder,)
    )
    queue = (replace(entry("a", need=Resources(1, 10, gpus=1)), gpu=kinds[0]),)
    status = explain(Snapshot(queue=queue, workers=(worker,)))["a"]
    assert status.sentence.startswith(
        "Waiting in queue at position 1: it needs 1 GPU; those of w are in use."
    )


def test_a_fault_of_a_gpu_is_told_where_it_makes_the_lack() -> None:
    fault = "GPU 1: Xid 79"
    broken = FleetWorker(
        id="w", capacity=Resources(4, 40, gpus=1), gpu_kinds=(CARD,), gpu_fault=fault
    )
    pair = replace(entry("pair", need=Resources(1, 10, gpus=2)), gpu=structs.replace(CARD, count=2))
    reasons = explain(Snapshot(queue=(pair,), workers=(broken,)))
    assert f"out of service: {fault}" in reasons["pair"].sentence


def test_a_fault_of_a_gpu_is_told_where_the_others_are_in_use() -> None:
    fault = "GPU 1: Xid 79"
    holder = Occupant(uuid="x", need=Resources(1, 10, gpus=1), gpu=CARD)
    busy = FleetWorker(
        id="w", capacity=Resources(4, 40, gpus=1), gpu_kinds=(CARD,), gpu_fault=fault,
        occupants=(holder,),
    )  # fmt: skip
    waiting = replace(entry("a", need=Resources(1, 10, gpus=1)), gpu=CARD)
    reasons = explain(Snapshot(queue=(waiting,), workers=(busy,)))
    assert f"Out of service there: {fault}." in reasons["a"].sentence
