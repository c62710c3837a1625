"""What moves a container along."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers import lifecycle
from lading.core.containers.container import (
    FINAL,
    HELD,
    TRANSITIONS,
    CancelChildren,
    Container,
    ContainerState,
    Finish,
    MintTokens,
    RefreshLog,
    Reprioritise,
    ReprioritiseChildren,
    RevokeTokens,
)
from lading.core.containers.lifecycle import ContainerChange, NewTokens
from lading.core.containers.writers import ContainerWriter
from lading.core.errors import Forbidden, IllegalTransition, Invalid, RequestError
from lading.core.values import Json
from tests.records import IMAGE, NOW, make_container

HOLDER = ContainerWriter(token_uuid="holder", is_admin=True)
ADMIN = ContainerWriter(token_uuid="another", is_admin=True)
OWN = ContainerWriter(token_uuid="own")
SUPERVISOR = ContainerWriter(token_uuid="supervisor")
TOKENS = NewTokens(auth_uuid="own", supervisor_uuid="supervisor")
HELD_BY: dict[str, Any] = {
    "locked_by_uuid": "holder",
    "auth_uuid": "own",
    "supervisor_auth_uuid": "supervisor",
    "lock_count": 1,
}


def held(state: str, **changes: Any) -> Container:
    return make_container(state=state, **{**HELD_BY, **changes})


def write(
    container: Container, caller: ContainerWriter = HOLDER, **changes: Json
) -> ContainerChange:
    return lifecycle.update(container, changes, caller=caller, now=NOW, tokens=TOKENS)


def test_lock_takes_the_container_and_mints_tokens() -> None:
    change = lifecycle.lock(make_container(), caller=HOLDER, tokens=TOKENS)
    assert change.changed == {"state": "Locked", "last_locked_by_uuid": "holder", **HELD_BY}
    assert change.expected == {"state": "Queued", "locked_by_uuid": None, "lock_count": 0}
    (minted,) = change.effects
    assert isinstance(minted, MintTokens)
    assert (minted.auth_uuid, minted.supervisor_uuid) == ("own", "supervisor")


@pytest.mark.parametrize("api", [True, False])
def test_the_own_token_can_do_all_only_where_the_container_may_use_the_api(api: bool) -> None:
    pdh = "acbd18db4cc2f85cedef654fccc4a4d8+3"
    mounts: dict[str, Any] = {
        "/in": {"kind": "collection", "portable_data_hash": f"{pdh}/d"},
        "/out": {"kind": "tmp"},
    }
    container = make_container(
        runtime_constraints={"API": api},
        mounts=mounts,
        container_image="i",
        steps=[{"container_image": "i"}, {"container_image": "j"}],
    )
    (minted,) = lifecycle.lock(container, caller=HOLDER, tokens=TOKENS).effects
    assert isinstance(minted, MintTokens)
    if api:
        assert minted.scopes == ("all",)
        return
    assert "GET /arvados/v1/collections/i" in minted.scopes
    assert "GET /arvados/v1/collections/j" in minted.scopes
    assert f"GET /arvados/v1/collections/{pdh}" in minted.scopes
    assert not any(scope.endswith("collections/") for scope in minted.scopes)
    assert "all" not in minted.scopes


def test_a_container_gets_no_more_than_was_granted_and_what_its_supervisor_needs() -> None:
    scopes: dict[bool, tuple[str, ...]] = {}
    for api in (False, True):
        container = make_container(
            runtime_auth_scopes=["GET /x"], runtime_constraints={"API": api}, container_image="i"
        )
        (minted,) = lifecycle.lock(container, caller=HOLDER, tokens=TOKENS).effects
        assert isinstance(minted, MintTokens)
        scopes[api] = minted.scopes
    assert "GET /x" not in scopes[False]
    assert "GET /arvados/v1/collections/i" in scopes[False]
    assert scopes[True] == ("GET /x", *scopes[False])


def test_a_container_has_a_token_of_its_own_beside_a_runtime_token() -> None:
    one = make_container(
        runtime_token="v2/x",
        runtime_auth_scopes=["GET /x"],
        runtime_constraints={"API": True},
        runtime_user_uuid="ann",
    )
    change = lifecycle.lock(one, caller=HOLDER, tokens=TOKENS)
    assert (change.container.auth_uuid, change.container.runtime_token) == ("own", "v2/x")
    (minted,) = change.effects
    assert isinstance(minted, MintTokens)
    assert (minted.auth_uuid, minted.user_uuid, minted.scopes[0]) == ("own", "ann", "GET /x")


@pytest.mark.parametrize("caller", [HOLDER, SUPERVISOR, ADMIN])
def test_locked_is_written_once(caller: ContainerWriter) -> None:
    for changes in ({"state": "Locked"}, {"state": "Locked", "priority": 3}):
        with pytest.raises(Invalid, match="cannot lock when Locked"):
            write(held("Locked"), caller, **changes)


def test_a_dispatcher_takes_what_waits() -> None:
    caller = ContainerWriter(token_uuid="holder", is_dispatcher=True)
    taken = lifecycle.lock(make_container(), caller=caller, tokens=TOKENS).container
    assert taken.state is ContainerState.LOCKED
    change = write(make_container(), caller, state="Locked")
    assert (change.container.locked_by_uuid, change.container.last_locked_by_uuid) == (
        "holder",
        "holder",
    )
    ended = write(held("Running", last_locked_by_uuid="holder"), state="Cancelled").container
    assert (ended.locked_by_uuid, ended.last_locked_by_uuid) == (None, "holder")
    with pytest.raises(Invalid, match="Priority cannot be modified by this token"):
        write(make_container(priority=0), caller, state="Locked", priority=1)
    with pytest.raises(Forbidden, match="locked by a different token"):
        other = ContainerWriter(token_uuid="another", is_dispatcher=True)
        lifecycle.unlock(held("Locked"), caller=other, now=NOW)


def test_lock_refusals() -> None:
    with pytest.raises(Forbidden):
        lifecycle.lock(make_container(), caller=OWN, tokens=TOKENS)
    with pytest.raises(Invalid, match="cannot lock when Running"):
        lifecycle.lock(held("Running"), caller=HOLDER, tokens=TOKENS)
    with pytest.raises(Invalid, match="cannot lock when priority<=0"):
        lifecycle.lock(make_container(priority=0), caller=HOLDER, tokens=TOKENS)


def test_a_write_can_lock_too() -> None:
    change = write(make_container(priority=0), state="Locked", priority=3)
    assert (change.container.locked_by_uuid, change.container.priority) == ("holder", 3)
    with pytest.raises(Invalid, match=r"use POST .*/lock"):
        lifecycle.update(make_container(), {"state": "Locked"}, caller=HOLDER, now=NOW)


@pytest.mark.parametrize("caller", [HOLDER, SUPERVISOR, ADMIN])
def test_unlock_gives_the_container_back_and_ends_its_tokens(caller: ContainerWriter) -> None:
    change = lifecycle.unlock(
        held("Locked", runtime_status={"warning": "x"}), caller=caller, now=NOW
    )
    after = change.container
    assert (after.state, after.locked_by_uuid, after.auth_uuid, after.runtime_status) == (
        ContainerState.QUEUED,
        None,
        None,
        {},
    )
    assert after.lock_count == 1
    # Its place in a group of requests is decided anew.
    assert change.effects == (RevokeTokens(("own", "supervisor")), Reprioritise((after.uuid,)))


def test_unlock_refusals() -> None:
    with pytest.raises(Invalid, match="cannot unlock when Running"):
        lifecycle.unlock(held("Running"), caller=HOLDER, now=NOW)
    for caller in (OWN, ContainerWriter(token_uuid="nobody")):
        with pytest.raises(Forbidden):
            lifecycle.unlock(held("Locked"), caller=caller, now=NOW)


def test_too_many_locks_cancel_the_container() -> None:
    change = lifecycle.unlock(
        held("Locked", lock_count=10), caller=HOLDER, now=NOW, max_attempts=10
    )
    after = change.container
    assert (after.state, after.finished_at) == (ContainerState.CANCELLED, NOW)
    assert "Containers.MaxDispatchAttempts' (lock_count=10)" in str(after.runtime_status["error"])
    assert after.runtime_status["failure"] == "infrastructure"
    assert Finish(after.uuid) in change.effects


def test_the_last_attempt_keeps_what_the_fleet_has_told_of_it() -> None:
    told = {"failure": "image", "errorDetail": "its image cannot be had"}
    container = held("Locked", lock_count=10, runtime_status=told)
    after = lifecycle.unlock(container, caller=HOLDER, now=NOW, max_attempts=10).container
    assert after.runtime_status.items() >= told.items()


def test_a_write_of_queued_gives_the_container_back() -> None:
    change = write(held("Locked"), state="Queued")
    assert (change.container.state, change.container.locked_by_uuid) == ("Queued", None)


def test_running_fills_in_the_time() -> None:
    assert write(held("Locked"), state="Running").container.started_at == NOW
    given_time = write(
        held("Locked"), state="Running", started_at="2026-01-01"
    ).container.started_at
    assert given_time == "2026-01-01T00:00:00.000000000Z"


def test_the_end_wipes_secrets_and_tokens() -> None:
    running = held(
        "Running", secret_mounts={"/s": {"kind": "text", "content": "x"}}, runtime_token="v2/x"
    )
    change = write(running, SUPERVISOR, state="Complete", exit_code=0, log=IMAGE, output=IMAGE)
    after = change.container
    assert (after.secret_mounts, after.runtime_token, after.auth_uuid, after.locked_by_uuid) == (
        {},
        None,
        None,
        None,
    )
    assert after.secret_mounts_md5 == running.secret_mounts_md5
    assert after.finished_at == NOW
    assert change.effects == (
        RevokeTokens(("own", "supervisor")),
        Finish(after.uuid),
        CancelChildren(after.uuid),
    )


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("2026-01-02T03:00:30.000000000Z", "2026-01-02T03:00:30.000000000Z"),
        ("2026-01-02T02:00:00.000000000Z", "2026-01-02T03:00:00.000000000Z"),
        ("9999-01-01T00:00:00.000000000Z", NOW),
        (None, NOW),
    ],
)
def test_the_end_is_when_its_runner_says_but_neither_before_its_start_nor_to_come(
    said: Json, kept: str
) -> None:
    running = held("Running", started_at="2026-01-02T03:00:00.000000000Z")
    assert (
        write(
            running, SUPERVISOR, state="Complete", exit_code=0, finished_at=said
        ).container.finished_at
        == kept
    )


def test_what_the_system_cancels_is_wanted_by_nobody() -> None:
    assert lifecycle.cancel(held("Locked", priority=7), now=NOW).container.priority == 0
    given_up = lifecycle.unlock(
        held("Locked", lock_count=10, priority=7), caller=HOLDER, now=NOW, max_attempts=10
    )
    assert given_up.container.priority == 0


def test_a_queued_container_ends_without_tokens_to_revoke() -> None:
    change = write(make_container(), ADMIN, state="Cancelled", runtime_status={"error": "no"})
    assert change.effects == (Finish(change.container.uuid), CancelChildren(change.container.uuid))


def test_a_result_can_be_taken_out_of_the_pool() -> None:
    change = write(make_container(state="Complete", exit_code=0), ADMIN, state="Cancelled")
    assert change.changed == {"state": "Cancelled", "exit_code": None}
    assert change.effects == ()


def test_a_new_log_is_announced_while_the_container_lives() -> None:
    change = write(held("Running"), log=IMAGE)
    assert change.effects == (RefreshLog(change.container.uuid, IMAGE),)
    assert write(held("Running", log=IMAGE), log=None).effects == ()


def test_a_priority_set_by_hand_reaches_the_children() -> None:
    change = write(held("Running"), HOLDER, priority=2**60 + 1)
    assert change.changed == {"priority": 2**60 + 1}
    assert change.effects == (ReprioritiseChildren(change.container.uuid),)


def test_an_output_must_be_readable() -> None:
    with pytest.raises(Invalid, match="must exist and be readable"):
        lifecycle.update(
            held("Running"), {"output": IMAGE}, caller=OWN, now=NOW, output_readable=False
        )


def test_an_announced_output_must_be_readable_at_the_end() -> None:
    running = held("Running", output=IMAGE)
    end: dict[str, Json] = {"state": "Complete", "exit_code": 0}
    assert lifecycle.output_of(running, end) == IMAGE
    with pytest.raises(Invalid, match="must exist and be readable"):
        lifecycle.update(running, end, caller=SUPERVISOR, now=NOW, output_readable=False)
    assert write(running, SUPERVISOR, **end).container.output == IMAGE
    assert lifecycle.output_of(running, {**end, "output": None}) is None


def test_a_cancelled_container_has_the_output_that_its_supervisor_reports() -> None:
    running = held("Running", output=IMAGE)
    assert write(running, HOLDER, state="Cancelled").container.output is None
    assert lifecycle.cancel(running, now=NOW).container.output is None
    assert write(running, SUPERVISOR, state="Cancelled", output=IMAGE).container.output == IMAGE
    withdrawn = write(make_container(state="Complete", output=IMAGE), ADMIN, state="Cancelled")
    assert withdrawn.container.output == IMAGE


def test_the_system_cancels_what_nothing_wants() -> None:
    change = lifecycle.cancel(held("Locked"), now=NOW, reason="nobody waits for it")
    assert change.container.runtime_status == {"error": "nobody waits for it"}
    assert lifecycle.cancel(make_container(), now=NOW).container.runtime_status == {}
    with pytest.raises(IllegalTransition):
        lifecycle.cancel(make_container(state="Complete"), now=NOW)


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(Invalid, match="'Failed' is not a state of a container"):
        write(make_container(), state="Failed")


STATES = st.sampled_from(list(ContainerState))
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from([0, 5, -1, "x", 2**60]),
        "log": st.sampled_from([None, IMAGE, "x"]),
        "exit_code": st.sampled_from([None, 0, 1]),
        "runtime_status": st.sampled_from([{}, {"error": "x"}, {"error": 1}]),
        "command": st.just(["x"]),
        "auth_uuid": st.just("x"),
    },
)


@given(
    STATES,
    STATES,
    CHANGES,
    st.sampled_from([HOLDER, ADMIN, OWN, SUPERVISOR, ContainerWriter(token_uuid="nobody")]),
)
def test_no_event_breaks_the_rules(
    old: ContainerState, new: ContainerState, changes: dict[str, Json], caller: ContainerWriter
) -> None:
    container = held(old) if old in HELD else make_container(state=old)
    before = copy.deepcopy(container)
    try:
        change = write(container, caller, state=new, **changes)
    except RequestError:
        assert container == before
        return
    after = change.container
    assert container == before
    assert after.state in (*TRANSITIONS[old], old)
    assert (after.locked_by_uuid is not None) == (after.state in HELD)
    assert (after.supervisor_auth_uuid is not None) == (after.state in HELD)
    assert after.command == before.command
    assert Container.from_record({**before.to_record(), **change.changed}) == after
    assert (Finish(after.uuid) in change.effects) == (after.state in FINAL and old not in FINAL)


RANGED: dict[str, Any] = {
    "runtime_constraints": {"ram": 2, "vcpus": 1}, "constraint_ranges": {"ram": [2, 8]},
    "lock_count": 1,
}  # fmt: skip


def test_who_locks_says_how_much_it_gives() -> None:
    locked = lifecycle.lock(
        make_container(**RANGED), caller=HOLDER, tokens=TOKENS, amounts={"ram": 8}
    )
    assert locked.container.runtime_constraints == {"ram": 8, "vcpus": 1}
    assert locked.container.reuse_key != make_container(**RANGED).reuse_key
    taken = Container.from_record({**locked.container.to_record(), **HELD_BY})
    back = lifecycle.unlock(taken, caller=HOLDER, now=NOW)
    assert back.container.runtime_constraints == {"ram": 2, "vcpus": 1}
    with pytest.raises(Invalid, match="can be given from 2 to 8, not 9"):
        lifecycle.lock(make_container(**RANGED), caller=HOLDER, tokens=TOKENS, amounts={"ram": 9})


def test_where_its_gateway_is_may_be_said_as_it_may_be() -> None:
    running = held("Running")
    assert write(running, SUPERVISOR, gateway_address="tunnel").changed == {
        "gateway_address": "tunnel"
    }
    for caller in (SUPERVISOR, HOLDER):
        with pytest.raises(Invalid, match="gateway_address: HOST must be"):
            write(running, caller, gateway_address="10.0.0.1:9000")
    # Arvados' crunch-run holds the token of the dispatcher.
    assert write(running, HOLDER, gateway_address="127.0.0.1:9000").changed == {
        "gateway_address": "tunnel"
    }
    with pytest.raises(Invalid):
        write(running, SUPERVISOR, gateway_address="127.0.0.1:9000")


def test_the_server_lets_people_into_what_somebody_else_locked() -> None:
    change = lifecycle.enter(held("Running"))
    assert change.changed == {"interactive_session_started": True}
    assert lifecycle.enter(change.container).changed == {}
    for state in ("Queued", "Locked", "Complete", "Cancelled"):
        with pytest.raises(Invalid, match="running containers only"):
            lifecycle.enter(held(state))


def test_the_warning_of_a_container_that_waits_ends_with_its_lock() -> None:
    warned = lifecycle.warn(make_container(priority=1), "no room").container
    assert warned.runtime_status == {"warning": "no room"}
    assert lifecycle.warn(warned, "").container.runtime_status == {}
    assert lifecycle.lock(warned, caller=HOLDER, tokens=TOKENS).container.runtime_status == {}
    with pytest.raises(Invalid, match="only one that waits is warned about"):
        lifecycle.warn(held("Locked"), "no room")


@pytest.mark.parametrize(
    ("state", "priority", "lockable"),
    [
        ("Queued", 1, True),
        ("Queued", 0, False),
        ("Queued", None, False),
        ("Locked", 1, False),
        ("Complete", 1, False),
    ],
)
def test_a_container_that_waits_with_a_priority_is_lockable(
    state: str, priority: int | None, lockable: bool
) -> None:
    assert lifecycle.is_lockable({"state": state, "priority": priority}) is lockable


@pytest.mark.parametrize("caller", [HOLDER, SUPERVISOR])
def test_an_exit_code_is_null_if_and_only_if_the_state_is_not_complete(
    caller: ContainerWriter,
) -> None:
    one = held("Running")
    with pytest.raises(Invalid, match="Exit code must be a number when the state is Complete"):
        write(one, caller, state="Complete")
    with pytest.raises(Invalid, match="Exit code must be a number"):
        write(one, caller, state="Complete", exit_code=None)
    for changes in ({"state": "Cancelled", "exit_code": 3}, {"exit_code": 0}):
        with pytest.raises(Invalid, match="Exit code must be null when the state is"):
            write(one, caller, **changes)
    # A record of an earlier release.
    coded = held("Running", exit_code=3)
    assert write(coded, caller, state="Cancelled").container.exit_code is None
    assert write(coded, caller, state="Complete").container.exit_code == 3
