"""Which requests are cancelled as a set, and that the values are those of a single cancellation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lading.core.containers import lifecycle, request
from lading.core.containers.container import (
    CancelChildren,
    Container,
    ContainerState,
    Finish,
    ReprioritiseChildren,
)
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_phases import RequestState
from lading.core.containers.set_cancellation import (
    WaitingRequest,
    is_cancelled_in_set,
    is_stopping,
    plan_step,
)

PLAIN = WaitingRequest(
    uuid="r", state=RequestState.COMMITTED, container_state=ContainerState.QUEUED
)
REQUESTS = st.builds(
    WaitingRequest,
    uuid=st.text("abc", min_size=1, max_size=3),
    state=st.sampled_from(RequestState),
    container_state=st.sampled_from([None, *ContainerState]),
    container_priority=st.integers(0, 1),
    lock_count=st.integers(0, 1),
    max_parallel=st.integers(0, 1),
    is_shared=st.booleans(),
    is_refused=st.booleans(),
    has_priority=st.booleans(),
)


@pytest.mark.parametrize(
    "other",
    [
        {"state": RequestState.FINAL},
        {"container_state": None},
        {"container_state": ContainerState.LOCKED},
        {"container_state": ContainerState.RUNNING},
        {"lock_count": 1},
        {"max_parallel": 1, "container_priority": 1},
        {"is_shared": True},
        {"has_dependents": True},
        {"has_costs": True},
        {"has_times": True},
        {"has_charges": True},
    ],
)
def test_what_changes_others_is_cancelled_alone(other: dict[str, object]) -> None:
    assert is_cancelled_in_set(PLAIN)
    assert not is_cancelled_in_set(replace(PLAIN, **other))


def test_one_out_of_turn_gives_no_turn_to_another() -> None:
    assert is_cancelled_in_set(replace(PLAIN, max_parallel=1))
    assert is_cancelled_in_set(replace(PLAIN, container_priority=1))


@given(st.lists(REQUESTS, min_size=1, max_size=12), st.integers(1, 3))
def test_a_step_is_a_beginning_of_the_page(page: list[WaitingRequest], most: int) -> None:
    page = [replace(one, uuid=f"{number}") for number, one in enumerate(page)]
    step = plan_step(page, most_singly=most)
    count = int(step.last) + 1
    taken = page[:count]
    assert sorted((*step.together, *step.singly), key=int) == [
        one.uuid for one in taken if not one.is_refused and not is_stopping(one)
    ]
    assert step.refused == sum(one.is_refused for one in taken)
    assert len(step.singly) <= most
    # It ends at the end of the page, or before a request for which there is no room.
    assert count == len(page) or len(step.singly) == most


def test_those_of_the_set_are_taken_beside_the_others() -> None:
    page = [replace(PLAIN, uuid=uuid) for uuid in "abcd"]
    page[1], page[3] = (replace(page[at], is_shared=True) for at in (1, 3))
    step = plan_step(page, most_singly=1)
    assert (step.together, step.singly, step.last) == (("a", "c"), ("b",), "c")


@given(
    priority=st.integers(0, 1000),
    resolving=st.booleans(),
    secret=st.dictionaries(st.text("ab", max_size=2), st.integers(), max_size=1),
)
def test_a_request_gets_the_values_of_its_own_cancellation(
    priority: int, resolving: bool, secret: dict[str, object]
) -> None:
    before = ContainerRequest(
        uuid="r",
        state=RequestState.COMMITTED,
        priority=priority,
        container_uuid="c",
        resolving=resolving,
        secret_mounts=secret,  # type: ignore[arg-type]
    )
    alone = request.cancel(before, container_state=ContainerState.QUEUED)
    after = alone.request.to_record()
    assert after == {**before.to_record(), **request.CANCELLED}


@given(
    priority=st.integers(0, 1 << 60),
    status=st.dictionaries(st.sampled_from(["warning", "activity"]), st.text("ab", max_size=2)),
)
def test_a_container_gets_the_values_of_its_own_cancellation(
    priority: int, status: dict[str, str]
) -> None:
    before = Container(uuid="c", priority=priority, runtime_status={**status})
    alone = lifecycle.cancel(before, now="2", reason="why")
    values = lifecycle.cancelled_waiting({**status}, now="2", reason="why")
    assert alone.container.to_record() == {**before.to_record(), **values}
    # What follows of these concerns requests and children, and a container of the set has none.
    assert {type(one) for one in alone.effects} <= {Finish, CancelChildren, ReprioritiseChildren}
