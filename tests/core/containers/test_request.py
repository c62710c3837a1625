"""The life of a container request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers import container, request, request_phases
from lading.core.containers.constraints import Policy
from lading.core.containers.container import Adopt, Confirm, Reprioritise, Resolve
from lading.core.containers.request import ContainerRequest, RequestChange
from lading.core.containers.request_phases import RequestState
from lading.core.containers.request_rules import Parent
from lading.core.errors import IllegalTransition, Invalid, RequestError
from lading.core.values import Json, JsonObject
from tests.records import (
    IMAGE,
    NOW,
    POLICY,
    USER,
    attributes,
    container_uuid,
    make_request,
    request_uuid,
)

C1, C2 = container_uuid(1), container_uuid(2)
PARENT = Parent(container_uuid=C2, state=container.ContainerState.RUNNING, priority=7)


def create(
    *, parent: Parent | None = None, policy: Policy = POLICY, **changes: Any
) -> RequestChange:
    return request.create(
        attributes(**changes),
        uuid=request_uuid(1),
        owner_uuid=USER,
        user_uuid=USER,
        now=NOW,
        policy=policy,
        parent=parent,
    )


def update(old: ContainerRequest, *, admin: bool = False, **changes: Any) -> RequestChange:
    return request.update(old, changes, now=NOW, policy=POLICY, admin=admin, user_uuid=USER)


def committed(**changes: Any) -> ContainerRequest:
    return make_request(
        **{"state": "Committed", "container_uuid": C1, "container_count": 1, **changes}
    )


def test_what_a_container_asks_for_can_always_be_preemptible() -> None:
    always = structs.replace(POLICY, preemptible=True, always_preemptible=True)
    steps = create(parent=PARENT, policy=always, state="Committed", priority=None).request
    assert steps.scheduling_parameters["preemptible"] is True
    assert (
        create(policy=always, state="Committed").request.scheduling_parameters["preemptible"]
        is False
    )
    draft = create(parent=PARENT, policy=always, priority=None).request
    assert draft.scheduling_parameters["preemptible"] is False


def test_a_draft_is_filled_with_defaults() -> None:
    change = create(priority=None, container_count_max=None)
    made = change.request
    assert (made.state, made.priority, made.cwd, made.use_existing) == (
        RequestState.UNCOMMITTED,
        None,
        ".",
        True,
    )
    assert (made.container_count_max, made.output_storage_classes) == (3, ["default"])
    assert made.scheduling_parameters["max_run_time"] == 0
    assert (made.owner_uuid, made.created_at, made.modified_by_user_uuid) == (USER, NOW, USER)
    assert change.changed == made.to_record()
    assert (change.effects, change.expected) == ((), {})


def test_a_record_survives_the_round_trip() -> None:
    made = create(priority=None).request
    assert ContainerRequest.from_record(json.loads(json.dumps(made.to_record()))) == made
    assert ContainerRequest.from_record({"uuid": "x"}).priority == 0


def test_committing_asks_for_a_container() -> None:
    assert create(state="Committed", priority="0").effects == (Resolve(),)
    change = update(make_request(), state="Committed", command=["true"])
    assert (change.request.command, change.effects) == (["true"], (Resolve(),))
    assert change.changed == {"state": "Committed", "command": ["true"], "committed_by_uuid": USER}
    assert change.expected == {"state": "Uncommitted", "container_uuid": None, "priority": 1}


def test_the_workflow_runner_is_a_supervisor_once_committed() -> None:
    assert create(state="Committed", command=["arvados-cwl-runner"]).request.scheduling_parameters[
        "supervisor"
    ]
    assert not create(command=["arvados-cwl-runner"]).request.scheduling_parameters["supervisor"]


def test_a_null_priority_is_for_drafts() -> None:
    with pytest.raises(Invalid, match="Priority cannot be nil"):
        create(state="Committed", priority=None)
    with pytest.raises(Invalid, match="Priority cannot be nil"):
        update(committed(), priority=None)
    assert update(make_request(), priority=None).request.priority is None


@pytest.mark.parametrize("state", ["Final", "Queued", 3])
def test_a_request_starts_as_a_draft_or_committed(state: Json) -> None:
    with pytest.raises(Invalid):
        create(state=state)


def test_children_take_the_priority_of_their_parent() -> None:
    made = create(parent=PARENT, priority=None, state="Committed").request
    assert (made.requesting_container_uuid, made.priority) == (C2, 7)
    assert (
        create(parent=PARENT, requesting_container_uuid=C2).request.requesting_container_uuid == C2
    )


def test_a_parent_that_is_named_must_be_the_callers_and_running() -> None:
    for parent in (None, PARENT):
        with pytest.raises(Invalid, match="not a container that this token acts for"):
            create(parent=parent, requesting_container_uuid=C1)
    waiting = Parent(container_uuid=C2, state=container.ContainerState.QUEUED)
    with pytest.raises(Invalid, match="is Queued, not Running"):
        create(parent=waiting, requesting_container_uuid=C2)


@pytest.mark.parametrize(
    "name", ["uuid", "container_count", "attempted_container_uuids", "log_uuid"]
)
def test_what_only_the_server_sets(name: str) -> None:
    nothing, something = dict[str, Any]({name: None}), dict[str, Any]({name: "x"})
    assert create(**nothing).request == create().request
    with pytest.raises(Invalid, match="cannot be set by a client"):
        create(**something)
    with pytest.raises(Invalid, match="cannot be modified in state 'Uncommitted'"):
        update(make_request(), **something)


def test_unknown_and_dropped_attributes() -> None:
    assert update(make_request(), etag="x", kind="y", modified_at=None).changed == {}
    with pytest.raises(Invalid, match=r"unknown attribute 'color' for ContainerRequest\."):
        update(make_request(), color="red")


@pytest.mark.parametrize("state", list(RequestState))
def test_sending_everything_back_changes_nothing(state: RequestState) -> None:
    old = make_request(
        state=state, container_uuid=C1, container_count=1, log_uuid="x", secret_mounts={"/s": {}}
    )
    sent: dict[str, Any] = {
        **old.to_record(),
        "output_name": "",
        "filters": [],
        "etag": "x",
        "runtime_token": "",
    }
    del sent["resolving"]  # which no client sees
    sent |= {"output_glob": None, "priority": str(old.priority)}
    assert update(old, **sent).changed == {}


def test_secrets_that_clients_cannot_see_are_not_erased() -> None:
    old = committed(runtime_token="v2/x", secret_mounts={"/s": {"kind": "text", "content": "x"}})
    assert update(old, runtime_token="", secret_mounts={}).changed == {}
    draft = make_request(runtime_token="v2/x")
    assert update(draft, runtime_token=None).changed == {"runtime_token": None}


def test_attributes_are_writable_in_their_phase_only() -> None:
    with pytest.raises(
        Invalid, match=r"Command cannot be modified in state 'Committed' \(\[\"echo"
    ):
        update(committed(), command=["x" * 100])
    with pytest.raises(Invalid, match=r"Runtime token cannot be modified in state 'Committed'$"):
        update(committed(), runtime_token="v2/x")
    with pytest.raises(Invalid, match="Priority cannot be modified in state 'Final'"):
        update(committed(state="Final"), priority=5)
    assert update(committed(state="Final"), properties={"cwl_output": 1}).request.properties == {
        "cwl_output": 1
    }


def test_mounts_with_additional_zero_values_are_no_change() -> None:
    same: JsonObject = {"/out": {"kind": "tmp", "capacity": 1000, "writable": False}}
    assert update(committed(), mounts=same).changed == {}
    with pytest.raises(Invalid, match="Mounts cannot be modified"):
        update(committed(), mounts={})


def test_an_admin_may_correct_what_the_server_sets() -> None:
    assert (
        update(committed(), admin=True, cumulative_cost=2, log_uuid="x").request.cumulative_cost
        == 2.0
    )
    with pytest.raises(Invalid, match="Log uuid cannot be modified"):
        update(committed(), log_uuid="x")


def test_a_new_priority_reaches_the_container() -> None:
    assert update(committed(), priority=9).effects == (Reprioritise((C1,)),)
    assert update(make_request(), priority=9).effects == ()
    assert update(committed(), name="x").effects == ()


def test_the_state_only_moves_forward() -> None:
    with pytest.raises(IllegalTransition):
        update(committed(), state="Uncommitted")
    with pytest.raises(IllegalTransition):
        update(make_request(), state="Final")
    final = update(committed(runtime_token="v2/x", secret_mounts={"/s": {}}), state="Final")
    assert (final.request.secret_mounts, final.request.runtime_token) == ({}, None)
    assert final.effects == (Reprioritise((C1,)),)


def test_a_container_can_be_chosen_by_hand_on_commit() -> None:
    change = update(make_request(), state="Committed", container_uuid=C1)
    assert change.effects == (Adopt(C1),)
    assert change.request.container_uuid is None
    assert create(state="Committed", container_uuid=C1).effects == (Adopt(C1),)
    with pytest.raises(Invalid, match="can only be updated to nil"):
        create(container_uuid=C1)
    with pytest.raises(Invalid, match="can only be updated to nil"):
        update(make_request(), container_uuid=C1)


def test_assigning_counts_and_remembers_attempts() -> None:
    first = request.assign(make_request(state="Committed"), C1)
    assert first.changed == {"container_uuid": C1, "container_count": 1}
    assert first.effects == (Reprioritise((C1,)),)
    second = request.assign(first.request, C2)
    assert (second.request.container_count, second.request.attempted_container_uuids) == (2, [C1])
    assert second.effects == (Reprioritise((C1, C2)),)
    assert request.assign(second.request, C2).changed == {}


def test_only_a_draft_lets_go_of_its_container() -> None:
    change = update(make_request(container_uuid=C1), container_uuid=None)
    assert (change.request.container_uuid, change.request.attempted_container_uuids) == (None, [C1])
    assert change.effects == (Reprioritise((C1,)),)
    with pytest.raises(Invalid, match="can be null in drafts only"):
        update(committed(), container_uuid=None)


@pytest.mark.parametrize(
    ("state", "container_state", "after"),
    [
        ("Uncommitted", None, "Uncommitted"),
        ("Committed", None, "Final"),
        ("Committed", "Queued", "Final"),
        ("Committed", "Locked", "Final"),
        ("Committed", "Running", "Committed"),
    ],
)
def test_cancelling(state: str, container_state: str | None, after: str) -> None:
    found = container.ContainerState(container_state) if container_state else None
    change = request.cancel(committed(state=state, priority=5), container_state=found)
    assert (change.request.priority, str(change.request.state)) == (0, after)


def test_a_final_request_is_not_cancelled() -> None:
    change = request.cancel(
        committed(state="Final", priority=5), container_state=container.ContainerState.COMPLETE
    )
    assert change.changed == {}


def test_what_waits_for_nobody_can_be_cancelled() -> None:
    queued, running = container.ContainerState.QUEUED, container.ContainerState.RUNNING
    assert request.is_abandoned(queued, [committed(state="Final")])
    assert not request.is_abandoned(queued, [committed(priority=0)])
    assert not request.is_abandoned(running, [])


def test_the_server_ends_a_request() -> None:
    change = request.finish(committed(runtime_token="v2/x"), cumulative_cost=2.5)
    assert change.changed == {"state": "Final", "cumulative_cost": 2.5, "runtime_token": None}
    further = request.with_values(change, {"log_uuid": "x"})
    assert (further.request.log_uuid, further.changed["log_uuid"]) == ("x", "x")


LATER = "2026-01-02T03:04:06.000000000Z"


def test_expiry_can_be_set_until_the_end() -> None:
    assert update(make_request(), expires_at=LATER).changed == {"expires_at": LATER}
    old = committed(priority=1)
    after = update(old, expires_at="2026-01-02 03:04:06").request
    assert (after.expires_at, after.is_wanted_at(NOW), after.is_wanted_at(LATER)) == (
        LATER,
        True,
        False,
    )
    assert update(after, expires_at=None).request.is_wanted_at(LATER)
    with pytest.raises(Invalid, match="Expires at cannot be modified in state 'Final'"):
        update(committed(state="Final"), expires_at=LATER)


@pytest.mark.parametrize("name", ["filters", "depends_on", "start_after"])
def test_conditions_belong_to_the_draft(name: str) -> None:
    sent: dict[str, Any] = {
        "filters": [["state", "=", "Complete"]], "depends_on": [request_uuid(2)],
        "start_after": LATER,
    }  # fmt: skip
    assert update(make_request(), **{name: sent[name]}).changed == {name: sent[name]}
    with pytest.raises(Invalid, match="cannot be modified in state 'Committed'"):
        update(committed(), **{name: sent[name]})


def test_satisfying() -> None:
    assert request.satisfy(make_request(), policy=POLICY).effects == (Resolve(),)
    assert request.satisfy(committed(container_uuid=None), policy=POLICY).effects == (Resolve(),)
    assert request.satisfy(committed(), policy=POLICY).effects == ()
    with pytest.raises(Invalid, match="a Final request without a container"):
        request.satisfy(committed(container_uuid=None, state="Final"), policy=POLICY)
    with pytest.raises(Invalid, match=r"\[ram\]=0 must be"):
        request.satisfy(
            make_request(runtime_constraints={**make_request().runtime_constraints, "ram": 0}),
            policy=POLICY,
        )


def test_a_draft_with_a_container_is_confirmed_or_loses_it() -> None:
    draft = request.assign(make_request(), C1).request
    assert update(draft, name="x", priority=5).request.container_uuid == C1
    assert update(draft, state="Committed").effects == (Confirm(C1), Reprioritise((C1,)))
    changed = update(draft, command=["other"])
    assert (changed.request.container_uuid, changed.request.attempted_container_uuids) == (
        None,
        [C1],
    )
    assert update(draft, command=["other"], state="Committed").effects == (
        Resolve(),
        Reprioritise((C1,)),
    )


def test_seeking_releasing_and_failing() -> None:
    old = committed(container_uuid=None)
    sought = request.defer(old)
    assert (sought.changed, request.assign(sought.request, C1).request.resolving) == (
        {"resolving": True},
        False,
    )
    released = request.release(committed())
    both = request.then(released, request.assign(released.request, C2))
    assert (both.changed["container_uuid"], both.expected["container_uuid"]) == (C2, C1)
    assert (len(both.effects), request.fail(committed()).changed) == (2, {"state": "Final"})


def test_a_draft_can_be_given_a_requesting_container() -> None:
    sent = {"requesting_container_uuid": C2}
    after = request.update(make_request(), sent, now=NOW, policy=POLICY, parent=PARENT).request
    assert (after.requesting_container_uuid, after.priority) == (C2, 7)
    assert (
        request.update(
            after, {"requesting_container_uuid": None}, now=NOW, policy=POLICY
        ).request.priority
        == 7
    )
    with pytest.raises(Invalid, match="is not a container that this token acts for"):
        request.update(make_request(), sent, now=NOW, policy=POLICY)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["kind", "/out"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["/out", "/a", "gpu", "cuda", "kind", "ram"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(request_phases.PHASES)), ANYTHING, max_size=3),
    st.booleans(),
)
def test_whatever_is_sent_is_stored_or_refused(sent: dict[str, Any], commits: bool) -> None:
    try:
        create(**{"state": "Committed" if commits else "Uncommitted", **sent})
    except RequestError as refusal:
        event(refusal.message[:20])


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["Uncommitted", "Committed", "Final", "Failed", None]),
        "priority": st.sampled_from([0, "5", 1001, None]),
        "command": st.sampled_from([["a"], [], None, [1]]),
        "container_uuid": st.sampled_from([None, C2]),
        "name": st.sampled_from(["x", None]),
        "container_image": st.just(IMAGE),
        "container_count": st.integers(0, 2),
    },
)


@given(st.sampled_from(list(RequestState)), CHANGES)
def test_no_write_breaks_the_rules(state: RequestState, changes: dict[str, Any]) -> None:
    old = make_request(
        state=state, container_uuid=C1 if state is not RequestState.UNCOMMITTED else None
    )
    before = old.to_record()
    try:
        change = update(old, **changes)
    except RequestError:
        assert old.to_record() == before
        return
    after = change.request
    assert after.state is state or after.state in request_phases.TRANSITIONS[state]
    assert after.state is not RequestState.COMMITTED or after.priority is not None
    assert state is RequestState.UNCOMMITTED or after.command == old.command
    assert ContainerRequest.from_record({**before, **change.changed}) == after
    commits = state is RequestState.UNCOMMITTED and after.state is RequestState.COMMITTED
    named = bool(changes.get("container_uuid"))
    assert (Resolve() in change.effects) == (commits and not named)
    assert (Adopt(C2) in change.effects) == (named and after.state is RequestState.COMMITTED)


def test_the_secrets_that_are_needed_are_described_and_stay() -> None:
    secret = {"/run/secrets/DB": {"kind": "text", "content": "hunter2",
                                  "environment_variable": "DB"}}  # fmt: skip
    needed = [{"target": "/run/secrets/DB", "kind": "text", "environment_variable": "DB"}]
    assert create().request.secrets_needed == []
    made = create(secret_mounts=secret).request
    assert made.secrets_needed == needed
    assert update(make_request(), secret_mounts=secret).request.secrets_needed == needed
    assert update(made, secret_mounts={}).request.secrets_needed == []
    done = request.finish(update(made, state="Committed").request, cumulative_cost=0.0).request
    assert (done.secret_mounts, done.secrets_needed) == ({}, needed)
    assert update(done, name="again").request.secrets_needed == needed
    with pytest.raises(Invalid, match="set twice"):
        create(secret_mounts=secret, environment={"DB": "1"})
    # A client that sends a record back changes nothing.
    assert update(made, secrets_needed=needed).changed == {}
    with pytest.raises(Invalid):
        update(made, secrets_needed=[])


SECRETS: dict[str, Any] = {"/s": {"kind": "text", "content": "x"}}


def test_a_draft_that_another_user_changes_loses_its_secrets() -> None:
    draft = make_request(
        secret_mounts=SECRETS, runtime_token="v2/a/b", modified_by_user_uuid="zzzzz-tpzed-other"
    )
    after = update(draft, command=["env"]).request
    assert (after.secret_mounts, after.runtime_token, after.secrets_needed) == ({}, None, [])
    given_anew = update(draft, secret_mounts={"/t": SECRETS["/s"]}).request
    assert given_anew.secret_mounts == {"/t": SECRETS["/s"]}
    assert given_anew.runtime_token is None


def test_a_draft_keeps_the_secrets_of_the_user_who_changes_it() -> None:
    draft = make_request(secret_mounts=SECRETS, runtime_token="v2/a/b", modified_by_user_uuid=USER)
    after = update(draft, command=["env"]).request
    assert (after.secret_mounts, after.runtime_token) == (SECRETS, "v2/a/b")


def test_a_committed_request_keeps_its_secrets() -> None:
    request_ = committed(secret_mounts=SECRETS, modified_by_user_uuid="zzzzz-tpzed-other")
    assert update(request_, name="n").request.secret_mounts == SECRETS


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_a_blank_working_directory_is_that_of_the_image(blank: str | None) -> None:
    assert create(cwd=blank).request.cwd == "."
    assert update(make_request(cwd="/tmp"), cwd=blank).request.cwd == "."
