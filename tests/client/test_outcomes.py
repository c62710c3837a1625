"""How requests ended; waiting for them is tested with `lading wait` too."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from lading.client.api import ApiClient
from lading.client.outcomes import RequestOutcome, ended_among, wait_for_all
from lading.core.errors import LadingError, NotFound

REQUEST = {"uuid": "zzzzz-xvhdp-000000000000001", "state": "Final", "container_uuid": "c"}


@pytest.mark.parametrize(
    ("container", "code", "fault"),
    [
        (None, 125, "it never ran (see: lading request why zzzzz-xvhdp-000000000000001)"),
        ({"state": "Complete", "exit_code": 0}, 0, ""),
        ({"state": "Complete", "exit_code": 3}, 3, "exit code 3"),
        ({"state": "Complete", "exit_code": 300}, 1, "exit code 300"),
        ({"state": "Complete", "exit_code": None}, 125, "exit code None"),
        ({"state": "Cancelled", "runtime_status": {"error": "c: no disk."}}, 125, "no disk"),
        ({"state": "Cancelled", "runtime_status": None}, 125, "it was cancelled"),
    ],
)
def test_the_code_and_the_fault(container: dict[str, Any] | None, code: int, fault: str) -> None:
    outcome = RequestOutcome(REQUEST, container and {"uuid": "c", "exit_code": None, **container})
    assert (outcome.exit_code, outcome.fault) == (code, fault)


_START = "the command cannot be started: "


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"failure": "timeout", "error": "stopped after its max_run_time of 2 s"}, 124),
        ({"failure": "oom", "error": "x"}, 125),
        ({"error": f"{_START}executable file `x` not found in $PATH: No such file"}, 127),
        ({"error": f'{_START}exec: "/x": stat /x: no such file or directory: unknown'}, 127),
        ({"error": f"{_START}open executable: Permission denied; is the program in it?"}, 126),
        ({"error": f"{_START}chdir to `/nowhere`: No such file or directory"}, 126),
    ],
)
def test_codes_without_an_exit_code(status: dict[str, Any], code: int) -> None:
    container = {"uuid": "c", "state": "Cancelled", "exit_code": None, "runtime_status": status}
    assert RequestOutcome(REQUEST, container).exit_code == code


class Api(ApiClient):
    """A client whose server has these records, and no websocket."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.requests = list(requests)
        self.asked = 0

    async def list(self, plural: str, **_: object) -> list[dict[str, Any]]:
        """The requests, each of which is Final from the second call on, or the container."""
        if plural == "containers":
            return [{"uuid": "c", "state": "Complete", "exit_code": 0, "output": "o"}]
        self.asked += 1
        state = "Final" if self.asked > 1 else "Committed"
        return [{**one, "state": state} for one in self.requests]


async def test_waiting_needs_no_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: ApiClient) -> AsyncGenerator[object]:
        for one in tuple[object, ...]():
            yield one
        raise LadingError

    monkeypatch.setattr("lading.client.api.events", none)
    told: list[tuple[int, int]] = []
    api = Api(REQUEST)
    (outcome,) = await wait_for_all(api, [REQUEST["uuid"]], lambda *both: told.append(both))
    assert (outcome.exit_code, told) == (0, [(0, 1), (1, 1)])


async def test_a_deleted_request_is_told() -> None:
    with pytest.raises(NotFound, match="x: was deleted"):
        await ended_among(Api(REQUEST), ["x"])
