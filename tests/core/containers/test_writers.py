"""Who may write what to a container."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lading.core.containers import writers
from lading.core.containers.container import (
    FIELDS,
    HELD,
    HIDDEN,
    RECIPE_FIELDS,
    TRANSITIONS,
    ContainerState,
)
from lading.core.containers.writers import RIGHTS, WRITABLE, ContainerWriter, Role
from lading.core.errors import Forbidden, Invalid
from lading.core.records.access import Principal
from lading.core.values import Json
from tests.records import make_container

HELD_BY: dict[str, Any] = {
    "locked_by_uuid": "holder",
    "auth_uuid": "own",
    "supervisor_auth_uuid": "supervisor",
    "lock_count": 1,
}
CALLERS = {
    Role.OWN: ContainerWriter(token_uuid="own"),
    Role.SUPERVISOR: ContainerWriter(token_uuid="supervisor"),
    Role.HOLDER: ContainerWriter(token_uuid="holder", is_admin=True),
    Role.DISPATCHER: ContainerWriter(token_uuid="another", is_dispatcher=True),
    Role.ADMIN: ContainerWriter(token_uuid="another", is_admin=True),
    Role.OTHER: ContainerWriter(token_uuid="another"),
}

_TRANSITIONS = [(before, after) for before, states in TRANSITIONS.items() for after in states]


@pytest.mark.parametrize("role", list(Role))
def test_roles(role: Role) -> None:
    running = make_container(state="Running", **HELD_BY)
    assert writers.role_of(running, CALLERS[role]) is role
    dispatcher = ContainerWriter(token_uuid="holder", is_dispatcher=True)
    assert writers.role_of(running, dispatcher) is Role.HOLDER


def test_a_runtime_token_is_the_containers_own() -> None:
    running = make_container(state="Running", runtime_token="v2/x")
    assert writers.role_of(running, ContainerWriter(token_uuid="another", is_own=True)) is Role.OWN


@pytest.mark.parametrize(
    ("state", "role"), [("Running", Role.OTHER), ("Locked", Role.OWN), ("Queued", Role.OTHER)]
)
def test_those_who_may_not_write_at_all(state: str, role: Role) -> None:
    with pytest.raises(Forbidden):
        writers.writer(make_container(state=state, **HELD_BY), CALLERS[role])


def test_auth_is_for_the_lock_holder_and_its_supervisor() -> None:
    running = make_container(state="Running", **HELD_BY)
    for role in (Role.HOLDER, Role.SUPERVISOR):
        writers.check_may_read_auth(running, CALLERS[role])
    for role in (Role.OWN, Role.DISPATCHER, Role.ADMIN, Role.OTHER):
        with pytest.raises(Forbidden, match="Not locked by your token"):
            writers.check_may_read_auth(running, CALLERS[role])


def test_secrets_are_for_the_container_alone() -> None:
    running = make_container(state="Running", **HELD_BY)
    writers.check_may_read_secrets(running, CALLERS[Role.OWN])
    for role in (Role.HOLDER, Role.DISPATCHER, Role.ADMIN, Role.SUPERVISOR, Role.OTHER):
        with pytest.raises(Forbidden, match="not associated with this container"):
            writers.check_may_read_secrets(running, CALLERS[role])


def test_equal_values_and_dropped_attributes_are_no_changes() -> None:
    locked = make_container(state="Locked", **HELD_BY)
    sent: dict[str, Json] = {
        **locked.shown(),
        "etag": "x",
        "kind": "y",
        "owner_uuid": "z",
        "modified_at": "now",
    }
    assert writers.differing(locked, {**sent, "priority": "10", "gateway_address": None}) == {}


def test_null_means_the_default_or_null() -> None:
    running = make_container(state="Running", runtime_status={"a": 1}, log="x", **HELD_BY)
    assert writers.differing(running, {"runtime_status": None, "log": None}) == {
        "runtime_status": {},
        "log": None,
    }


@pytest.mark.parametrize("name", ["nonsense", "secret_mounts", "reuse_key", "runtime_token"])
def test_unknown_and_hidden_attributes_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match=f"unknown attribute '{name}' for Container"):
        writers.differing(make_container(), {name: None})


def refusal(state: ContainerState, wanted: dict[str, Json], role: Role, **stored: Any) -> str:
    held = HELD_BY if state in HELD else {}
    with pytest.raises(Invalid) as refused:
        writers.check_writable(
            make_container(state=state, **held, **stored), wanted, state=state, role=role
        )
    return refused.value.message


def test_attributes_are_writable_in_their_states_only() -> None:
    assert (
        refusal(ContainerState.QUEUED, {"log": "x"}, Role.ADMIN)
        == "Log cannot be modified in state 'Queued'"
    )
    assert "cannot be modified" in refusal(ContainerState.COMPLETE, {"output": "x"}, Role.ADMIN)
    assert "cannot be modified" in refusal(ContainerState.RUNNING, {"lock_count": 0}, Role.HOLDER)
    assert (
        refusal(ContainerState.RUNNING, {"auth_uuid": "x"}, Role.HOLDER) == "Auth uuid is readonly"
    )
    assert refusal(ContainerState.RUNNING, {"locked_by_uuid": "x"}, Role.HOLDER).startswith(
        "Locked by uuid cannot"
    )


@pytest.mark.parametrize("name", [*RECIPE_FIELDS, "uuid", "started_at", "lock_count"])
def test_what_was_given_at_creation_never_changes(name: str) -> None:
    for held in HELD:
        assert "cannot be modified" in refusal(held, {name: "x"}, Role.HOLDER)


def test_some_tokens_may_write_less() -> None:
    assert (
        refusal(ContainerState.RUNNING, {"log": "x"}, Role.OWN)
        == "Log cannot be modified by this token"
    )
    assert "by this token" in refusal(ContainerState.RUNNING, {"priority": 1}, Role.SUPERVISOR)
    assert "that locked the container" in refusal(
        ContainerState.RUNNING, {"progress": 1}, Role.ADMIN
    )
    for attribute in ("priority", "interactive_session_started", "gateway_address"):
        assert "that locked the container" in refusal(
            ContainerState.RUNNING, {attribute: 1}, Role.ADMIN
        )
    for state in (ContainerState.COMPLETE, ContainerState.CANCELLED):
        with pytest.raises(
            Invalid, match="State can only be modified by the token that locked the container"
        ):
            writers.check_writable(
                make_container(state="Running", **HELD_BY),
                {"state": state},
                state=state,
                role=Role.ADMIN,
            )
    writers.check_writable(
        make_container(), {"priority": 1}, state=ContainerState.QUEUED, role=Role.ADMIN
    )


def test_an_interactive_session_cannot_be_undone() -> None:
    assert "only change to true" in refusal(
        ContainerState.RUNNING, {"interactive_session_started": False}, Role.HOLDER
    )


@pytest.mark.parametrize("name", sorted(set(FIELDS) - HIDDEN - RIGHTS[Role.OWN].attributes))
def test_a_container_writes_its_results_and_its_progress_alone(name: str) -> None:
    message = refusal(ContainerState.RUNNING, {name: "x"}, Role.OWN)
    assert re.search("cannot be (modified|written)|is readonly", message)


@pytest.mark.parametrize("role", [Role.OWN, Role.OTHER])
@pytest.mark.parametrize(("before", "after"), sorted(_TRANSITIONS))
def test_some_roles_change_no_state(
    role: Role, before: ContainerState, after: ContainerState
) -> None:
    held = HELD_BY if before in HELD else {}
    with pytest.raises(Invalid, match="State cannot be modified by this token"):
        writers.check_writable(
            make_container(state=before, **held), {"state": after}, state=after, role=role
        )


@pytest.mark.parametrize(
    ("stored", "written", "expected"),
    [
        ({}, {"error": "x"}, {"error": "x"}),
        ({"failure": "node"}, {"error": "x"}, {"failure": "node", "error": "x"}),
        ({"failure": "node"}, {"failure": "node"}, {"failure": "node"}),
        ({"failure": "node"}, {"failure": "user"}, None),
        ({}, {"failure": "user"}, None),
        ({"omitted": 3}, {}, {"omitted": 3}),
        ({"omitted": 3}, {"omitted": 0}, None),
        ({}, {"omitted": -5}, None),
    ],
)
def test_a_container_keeps_what_its_supervisor_tells_of_its_end(
    stored: dict[str, Any], written: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    one = make_container(state="Running", runtime_status=stored, **HELD_BY)
    if expected is None:
        message = refusal(
            ContainerState.RUNNING, {"runtime_status": written}, Role.OWN, runtime_status=stored
        )
        assert f"[{next(iter(written))}] cannot be modified" in message
        return
    running = ContainerState.RUNNING
    writers.check_writable(one, {"runtime_status": written}, state=running, role=Role.OWN)
    assert writers.kept_status(one, written, role=Role.OWN) == expected
    assert writers.kept_status(one, written, role=Role.SUPERVISOR) == written


@pytest.mark.parametrize(("before", "after"), sorted(_TRANSITIONS))
def test_a_dispatcher_changes_nothing_of_what_it_does_not_hold_but_to_take_it(
    before: ContainerState, after: ContainerState
) -> None:
    held = HELD_BY if before in HELD else {}
    one = make_container(state=before, **held)
    if (before, after) == (ContainerState.QUEUED, ContainerState.LOCKED):
        writers.check_writable(one, {"state": after}, state=after, role=Role.DISPATCHER)
    else:
        with pytest.raises(Invalid, match="State can"):
            writers.check_writable(one, {"state": after}, state=after, role=Role.DISPATCHER)
    for name in WRITABLE.get((before, after), ()):
        with pytest.raises(Invalid, match="by (this|the) token"):
            writers.check_writable(
                one, {"state": after, name: "x"}, state=after, role=Role.DISPATCHER
            )


def test_a_dispatcher_explains_what_waits_and_what_it_locked() -> None:
    mine, other, admin = (
        ContainerWriter(token_uuid="holder", is_dispatcher=True),
        ContainerWriter(token_uuid="another", is_dispatcher=True),
        ContainerWriter(token_uuid="admin", is_admin=True),
    )
    waiting, ended = (
        make_container(),
        make_container(state="Complete", last_locked_by_uuid="holder"),
    )
    for one, caller, expected in (
        (waiting, mine, True),
        (waiting, other, True),
        (make_container(state="Running", **HELD_BY), mine, True),
        (make_container(state="Running", **HELD_BY), other, False),
        (ended, mine, True),
        (ended, other, False),
        (ended, admin, True),
    ):
        assert writers.concerns(one, caller) is expected


def test_a_principal_as_a_writer() -> None:
    principal = Principal(user_uuid="u", token_uuid="t", token="", container_uuid="c")
    assert writers.as_writer(principal, "c") == ContainerWriter(token_uuid="t", is_own=True)
    assert writers.as_writer(principal, "d") == ContainerWriter(token_uuid="t")
    principal = Principal(user_uuid="u", token_uuid="t", token="", is_dispatcher=True)
    assert writers.as_writer(principal, "c").is_dispatcher
