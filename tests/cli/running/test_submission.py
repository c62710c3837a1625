"""Container requests from options; what reaches the server is tested in test_run.py."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lading.cli.references import FileReference
from lading.cli.running.inputs import Input
from lading.cli.running.submission import RequestSpec, output_patterns, request_body, store_inputs
from lading.cli.session import CliSession
from lading.client.api import ApiClient
from lading.core.errors import Forbidden, Invalid

_PDH = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"


def test_the_least_that_is_asked_for() -> None:
    assert request_body(RequestSpec(command=("true",)), image="i", mounts={}) == {
        "state": "Committed",
        "name": None,
        "command": ["true"],
        "container_image": "i",
        "cwd": "/out",
        "environment": {},
        "mounts": {"/out": {"kind": "tmp"}},
        "output_path": "/out",
        "output_glob": [],
        "runtime_constraints": {"vcpus": 1, "ram": 256 << 20},
        "priority": 500,
        "use_existing": True,
    }


def test_a_working_directory_is_absolute_or_that_of_the_image() -> None:
    for path in ("/data", "."):
        spec = RequestSpec(command=("true",), workdir=path)
        assert request_body(spec, image="i", mounts={})["cwd"] == path
    with pytest.raises(Invalid, match="--workdir rel: must be an absolute path"):
        request_body(RequestSpec(command=("true",), workdir="rel"), image="i", mounts={})


def test_resources_are_matched_only_if_asked() -> None:
    plain, asked = (
        request_body(RequestSpec(command=("true",), match_resources=one), image="x", mounts={})
        for one in (False, True)
    )
    assert ("match_resources" in plain, asked["match_resources"]) == (False, True)


def test_rules_for_retries_are_scheduling_parameters() -> None:
    spec = RequestSpec(command=("true",), retry=(("oom", {"limit": 3, "factor": 2.0}),))
    body = request_body(spec, image="x", mounts={})
    assert body["scheduling_parameters"] == {"retry": {"oom": {"limit": 3, "factor": 2.0}}}


class Api(ApiClient):
    """A client whose server has these records by uuid; it notes the calls."""

    def __init__(self, *records: dict[str, Any], may_list: bool = True) -> None:
        self.records = {one["uuid"]: one for one in records}
        self.may_list = may_list
        self.calls: list[str] = []

    async def list(self, plural: str, *, filters: Any = (), **_: object) -> list[dict[str, Any]]:
        self.calls.append(f"list {plural}")
        if not self.may_list:
            raise Forbidden("the scopes of this token")
        return [self.records[uuid] for uuid in filters[0][2] if uuid in self.records]

    async def get(self, plural: str, uuid: str, **_: object) -> dict[str, Any]:
        self.calls.append(f"get {plural}")
        return self.records[uuid]


def _request(number: int, *, state: str = "Final", output: bool = True) -> dict[str, Any]:
    uuid = f"zzzzz-xvhdp-{number:015d}"
    kept = _collection(number)["uuid"] if output else None
    return {"uuid": uuid, "state": state, "output_uuid": kept}


def _collection(number: int) -> dict[str, Any]:
    return {"uuid": f"zzzzz-4zz18-{number:015d}", "portable_data_hash": _PDH}


async def _stored(api: Api, *requests: dict[str, Any]) -> dict[str, dict[str, object]]:
    inputs = [
        Input(target=f"/in/{number}", stored=FileReference(one["uuid"], f"p{number}"))
        for number, one in enumerate(requests)
    ]
    return await store_inputs(CliSession(api, cast(Any, None)), inputs, is_quiet=True)


async def test_outputs_of_many_requests_are_found_by_two_calls() -> None:
    ended = [_request(number) for number in range(50)]
    waiting = _request(50, state="Committed", output=False)
    api = Api(*ended, waiting, *(_collection(number) for number in range(50)))
    mounts = await _stored(api, *ended, waiting)
    assert api.calls == ["list container_requests", "list collections"]
    assert mounts["/in/7"] == {"kind": "collection", "portable_data_hash": _PDH, "path": "p7"}
    assert mounts["/in/50"] == {
        "kind": "output", "container_request": waiting["uuid"], "path": "p50",
    }  # fmt: skip
    assert len(mounts) == 51


async def test_outputs_of_requests_that_a_token_may_not_list_are_read_one_by_one() -> None:
    ended = [_request(number) for number in range(2)]
    api = Api(*ended, *(_collection(number) for number in range(2)), may_list=False)
    assert [one["portable_data_hash"] for one in (await _stored(api, *ended)).values()] == [
        _PDH
    ] * 2
    assert api.calls[0] == "list container_requests"
    assert set(api.calls[1:]) == {"get container_requests", "get collections"}


async def test_of_many_requests_the_one_without_output_is_named() -> None:
    empty = _request(1, output=False)
    with pytest.raises(Invalid, match=f"{empty['uuid']}: has no output;"):
        await _stored(Api(_request(0), _collection(0), empty), _request(0), empty)


def test_patterns_are_made_relative_or_refused() -> None:
    assert output_patterns(("./a", "/out/b", "c/"), "/out") == ("a", "b", "c/**")
    with pytest.raises(Invalid, match="--output-glob /abs: is not below the output path /out"):
        output_patterns(("/abs",), "/out")
