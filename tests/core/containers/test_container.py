"""The container value and its transition table."""

from __future__ import annotations

import json

import pytest

from lading.core.containers import container
from lading.core.containers.container import Container, ContainerState
from lading.core.errors import Failure
from lading.core.values import Json
from tests.records import container_uuid, make_container


def test_the_table_is_that_of_the_seed() -> None:
    ways = {(str(old), str(new)) for old, news in container.TRANSITIONS.items() for new in news}
    assert ways == {
        ("Queued", "Locked"),
        ("Queued", "Cancelled"),
        ("Locked", "Queued"),
        ("Locked", "Running"),
        ("Locked", "Cancelled"),
        ("Running", "Complete"),
        ("Running", "Cancelled"),
        ("Complete", "Cancelled"),
    }
    assert set(container.TRANSITIONS) == set(ContainerState)


def test_a_record_survives_the_round_trip() -> None:
    made = make_container(exit_code=0, state="Complete", priority=2**60)
    stored = json.loads(json.dumps(made.to_record()))
    assert Container.from_record({**stored, "etag": "x", "kind": "y"}) == made


def test_null_and_missing_columns_take_their_default() -> None:
    bare = Container.from_record({"uuid": container_uuid(1), "mounts": None})
    assert (bare.state, bare.mounts, bare.cwd) == (ContainerState.QUEUED, {}, ".")


def test_a_gang_takes_several_nodes() -> None:
    assert make_container().nodes == 1
    assert make_container(scheduling_parameters={"nodes": 3}).nodes == 3


def test_hidden_columns_are_not_shown() -> None:
    made = make_container(runtime_token="v2/secret")
    assert made.to_record().keys() - made.shown().keys() == container.HIDDEN


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ({}, None),
        ({"failure": "oom"}, Failure.OOM),
        ({"failure": "gremlins"}, None),
        ({"failure": []}, None),
    ],
)
def test_the_recorded_failure_class(status: dict[str, Json], failure: Failure | None) -> None:
    assert container.failure_of(make_container(runtime_status=status)) == failure


@pytest.mark.parametrize(
    ("state", "error", "code"),
    [
        ("Cancelled", "the command cannot be started: x: No such file or directory", 127),
        ("Cancelled", "the command cannot be started: chdir to x: no such file", 126),
        ("Cancelled", "the command cannot be started: Permission denied", 126),
        ("Running", "the command cannot be started: not found", None),
        ("Cancelled", "output: not found", None),
    ],
)
def test_refusals_to_start_a_command(state: str, error: str, code: int | None) -> None:
    refusal = container.start_refusal({"state": state, "runtime_status": {"error": error}})
    assert (refusal and refusal.exit_code) == code


def test_a_container_without_a_status_has_no_refusal() -> None:
    assert container.start_refusal({"state": "Cancelled", "runtime_status": None}) is None
