from __future__ import annotations

from lading.core.containers.request import FIELDS
from lading.core.containers.request_phases import (
    DESCRIPTIVE,
    PHASES,
    SETTABLE,
    TRANSITIONS,
    RequestState,
)


def test_every_attribute_is_written_in_some_state_or_by_the_server() -> None:
    assert set(FIELDS) - set(PHASES) == {"created_at", "modified_by_user_uuid", "resolving"}
    assert set(SETTABLE) == {name for name, states in PHASES.items() if states}


def test_what_describes_a_request_can_be_changed_when_it_has_ended() -> None:
    assert {"name", "description", "properties", "owner_uuid"} == DESCRIPTIVE


def test_no_state_is_entered_again() -> None:
    assert RequestState.FINAL in TRANSITIONS[RequestState.COMMITTED]
    assert TRANSITIONS[RequestState.FINAL] == ()
