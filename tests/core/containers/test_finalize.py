"""The end of a request."""

from __future__ import annotations

from typing import Any

from lading.core.containers import finalize
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Container
from lading.core.containers.finalize import Keeps, Piece
from lading.core.containers.request import ContainerRequest
from lading.core.containers.request_phases import RequestState
from tests.records import (
    IMAGE,
    INPUT,
    NOW,
    USER,
    container_uuid,
    make_container,
    make_request,
    request_uuid,
)

C1, C2 = container_uuid(1), container_uuid(2)
LOG, OUTPUT = IMAGE, INPUT
DIRECTORY = f"log for container {C1}"


def asking(**changes: Any) -> ContainerRequest:
    return make_request(
        **{"state": "Committed", "container_uuid": C1, "container_count": 1, **changes}
    )


def ended(**changes: Any) -> Container:
    result = {
        "state": "Complete",
        "exit_code": 0,
        "log": LOG,
        "output": OUTPUT,
        "cost": 2.0,
        "subrequests_cost": 1.0,
    }
    return make_container(1, **{**result, **changes})


def test_log_output_and_the_containers_own_log_are_kept() -> None:
    found = finalize.finalize(asking(), ended(), now=NOW)
    log, output, verbatim = found.collections
    assert [one.keeps for one in found.collections] == [
        Keeps.LOG,
        Keeps.OUTPUT,
        Keeps.CONTAINER_LOG,
    ]
    assert log.pieces == (Piece(LOG, ""), Piece(LOG, DIRECTORY))
    assert log.name == f"Container log for request {request_uuid(1)}"
    assert (output.pieces, output.name) == (
        (Piece(OUTPUT, ""),),
        f"Container output for request {request_uuid(1)}",
    )
    assert (verbatim.pieces, verbatim.name) == (
        (Piece(LOG, ""),),
        f"Container log for container {C1}",
    )
    assert {one.owner_uuid for one in found.collections} == {USER}


def test_the_request_is_final_and_paid() -> None:
    found = finalize.finalize(asking(cumulative_cost=0.5, runtime_token="v2/x"), ended(), now=NOW)
    assert found.change.request.state is RequestState.FINAL
    assert (found.change.request.cumulative_cost, found.change.request.runtime_token) == (3.5, None)
    assert (found.parent_uuid, found.parent_cost) == (None, 0.0)


def test_reusing_finished_work_is_free() -> None:
    found = finalize.finalize(
        asking(), ended(), now=NOW, reused=True, parent=make_container(2, state="Running")
    )
    assert found.change.request.cumulative_cost == 0.0
    assert found.parent_uuid is None


def test_a_running_parent_is_charged() -> None:
    for state, charged in (("Running", C2), ("Complete", None)):
        found = finalize.finalize(asking(), ended(), now=NOW, parent=make_container(2, state=state))
        assert (found.parent_uuid, found.parent_cost) == (charged, 3.0 if charged else 0.0)


def test_the_properties_of_the_output() -> None:
    request = asking(output_properties={"b": 2, "type": "mine"}, output_name="result")
    _, output, _ = finalize.finalize(
        request, ended(output_properties={"a": 1, "b": 1}), now=NOW
    ).collections
    assert output.properties == {
        "container_request": request_uuid(1),
        "type": "mine",
        "a": 1,
        "b": 2,
    }
    assert output.name == "result"
    child = finalize.finalize(asking(requesting_container_uuid=C2), ended(), now=NOW)
    assert child.collections[1].properties["type"] == "intermediate"


def test_outputs_can_be_short_lived() -> None:
    log, output, verbatim = finalize.finalize(asking(output_ttl=60), ended(), now=NOW).collections
    assert log.trash_at == output.trash_at == "2026-01-02T03:05:05.000006000Z"
    assert verbatim.trash_at is None


def test_existing_collections_are_brought_up_to_date() -> None:
    log, output, verbatim = finalize.finalize(
        asking(log_uuid="l", output_uuid="o"), ended(), now=NOW
    ).collections
    assert (log.uuid, output.uuid, verbatim.uuid) == ("l", "o", None)


def test_there_may_be_nothing_to_keep() -> None:
    cancelled = ended(state="Cancelled", output=None)
    assert [one.keeps for one in finalize.finalize(asking(), cancelled, now=NOW).collections] == [
        Keeps.LOG
    ]
    assert finalize.finalize(asking(), ended(log=None, output=None), now=NOW).collections == ()
    assert finalize.finalize(asking(), ended(), now=NOW, keep_collections=False).collections == ()
    gone = finalize.finalize(asking(), None, now=NOW)
    assert (gone.collections, gone.change.request.state) == ((), RequestState.FINAL)


def test_unnamed_outputs_have_the_configured_lifetime() -> None:
    policy = Policy(output_retention=60)

    def lifetimes(policy: Policy, **changes: Any) -> list[bool]:
        plans = finalize.finalize(asking(**changes), ended(), now=NOW).collections
        kept = finalize.retained(plans, now=NOW, policy=policy)
        return [one.trash_at is not None for one in kept]

    assert lifetimes(policy) == [False, True, False]
    assert lifetimes(Policy()) == [False, False, False]
    assert lifetimes(policy, output_name="mine") == [False, False, False]
    plans = finalize.finalize(asking(output_ttl=9), ended(), now=NOW).collections
    assert finalize.retained(plans, now=NOW, policy=policy) == plans


def test_the_log_while_it_runs_and_after_an_attempt() -> None:
    running = finalize.refresh_log(asking(), ended(state="Running"), now=NOW)
    assert running is not None
    assert running.pieces == (Piece(LOG, ""), Piece(LOG, DIRECTORY))
    attempt = finalize.attempt_log(asking(), ended(state="Cancelled"), now=NOW)
    assert attempt is not None
    assert attempt.pieces == (Piece(LOG, DIRECTORY),)
    silent = ended(log=None)
    assert (
        finalize.refresh_log(asking(), silent, now=NOW)
        is finalize.attempt_log(asking(), silent, now=NOW)
        is None
    )
