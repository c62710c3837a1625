"""The error tree and its HTTP statuses."""

from __future__ import annotations

import pytest

from lading.core import errors


def test_the_docstring_is_the_default_message() -> None:
    assert errors.Unauthenticated().message == "Not logged in"
    assert errors.NotFound("no such collection").message == "no such collection"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.Unauthenticated),
        (404, errors.NotFound),
        (418, errors.RequestError),
        (422, errors.Invalid),
        (500, errors.Unavailable),
        (503, errors.Unavailable),
        (507, errors.Full),
    ],
)
def test_a_status_becomes_its_error(status: int, kind: type[errors.LadingError]) -> None:
    error = errors.from_status(status, "text")
    assert type(error) is kind
    assert (error.status, error.message) == (status, "text")


def test_an_illegal_transition_names_thing_and_states() -> None:
    error = errors.IllegalTransition("zzzzz-dz642-1", "Complete", "Running")
    assert error.message == "State cannot change from Complete to Running: zzzzz-dz642-1"


def test_an_execution_error_says_whose_fault() -> None:
    assert errors.ExecutionError("no space", errors.Failure.DISK).failure == "disk"
