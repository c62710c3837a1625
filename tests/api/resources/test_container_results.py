from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from lading.core.records.schema import JSON, Record
from lading.testing.world import World, world

DATA = b"result"
LOCATOR = f"{hashlib.md5(DATA, usedforsecurity=False).hexdigest()}+6"
MANIFEST = f". {LOCATOR} 0:6:file\n"
END = {"state": "Complete", "exit_code": 0}


def report(**changes: JSON) -> dict[str, JSON]:
    blocks = [base64.b64encode(DATA).decode()]
    return {
        "container": END,
        "collections": {"output": MANIFEST, "log": MANIFEST},
        "blocks": blocks,
        **changes,
    }


def named(name: str) -> dict[str, JSON]:
    return {"include_trash": True, "filters": [["name", "=", name]]}


async def running(
    it: World, command: str = "true", token: str | None = None
) -> tuple[str, str, str]:
    """A request, its container that runs, and the supervisor's token."""
    request = await it.submit(command, token=token)
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    return request["uuid"], uuid, supervisor


async def test_output_log_and_end_come_in_one_call(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        request, uuid, supervisor = await running(it)
        answer = await it.ok("POST", f"containers/{uuid}/finish", report(), token=supervisor)
        assert answer == {"uuid": uuid, "state": "Complete"}
        ended = await it.ok("GET", f"container_requests/{request}")
        assert ended["state"] == "Final"
        output = await it.ok("GET", f"collections/{ended['output_uuid']}")
        assert output["manifest_text"].startswith(f". {LOCATOR}")
        log = await it.ok("GET", f"collections/{ended['log_uuid']}")
        assert LOCATOR in log["manifest_text"]
        container = await it.ok("GET", f"containers/{uuid}")
        assert container["output"] == container["log"] == output["portable_data_hash"]
        assert await it.blocks.get(LOCATOR) == DATA
        for name in (f"output for {uuid}", f"logs for {uuid}"):
            # The collections of the request have the content.
            assert (await it.ok("GET", "collections", params=named(name)))["items"] == []


async def test_results_that_no_request_keeps_are_in_the_trash(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        request, uuid, supervisor = await running(it)
        await it.ok("PUT", f"container_requests/{request}", {"state": "Final"})
        await it.ok("POST", f"containers/{uuid}/finish", report(), token=supervisor)
        kept = await it.ok("GET", "collections", params=named(f"output for {uuid}"))
        assert [one["is_trashed"] for one in kept["items"]] == [True]
        # Lists of the user's data know it by this.
        assert [one["properties"]["container_uuid"] for one in kept["items"]] == [uuid]


async def test_the_log_of_a_container_that_was_cancelled_is_in_the_trash(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        _, uuid, supervisor = await running(it)
        body = report(container={"state": "Cancelled"}, collections={"log": MANIFEST})
        await it.ok("POST", f"containers/{uuid}/finish", body, token=supervisor)
        # The log of the request has it below a directory of its own, too: another content.
        kept = await it.ok("GET", "collections", params=named(f"logs for {uuid}"))
        assert [one["is_trashed"] for one in kept["items"]] == [True]


async def _ended(it: World, classes: list[JSON]) -> tuple[Record, Record]:
    """A container that ends with an output, and the output's collection of its request."""
    request = await it.submit("true", output_storage_classes=classes)
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=supervisor)
    await it.ok("POST", f"containers/{uuid}/finish", report(), token=supervisor)
    ended = await it.ok("GET", f"container_requests/{request['uuid']}")
    return (
        await it.ok("GET", f"containers/{uuid}"),
        await it.ok("GET", f"collections/{ended['output_uuid']}"),
    )


async def test_the_classes_of_the_output_are_confirmed_at_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        container, output = await _ended(it, ["default"])
        assert output["storage_classes_confirmed"] == ["default"]
        assert output["storage_classes_confirmed_at"] is not None
        assert container["runtime_status"] == {}


async def test_a_class_that_the_site_does_not_have_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        container, output = await _ended(it, ["gold", "default"])
        assert output["storage_classes_desired"] == ["gold", "default"]
        assert output["storage_classes_confirmed"] == ["default"]
        warning = container["runtime_status"]["warning"]
        assert "not confirmed: this site has no storage class gold" in warning


async def test_a_refused_end_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        _, uuid, supervisor = await running(it, token=await it.user("ann"))
        foreign = MANIFEST.replace(LOCATOR, f"{'0' * 32}+6")
        for status, changed in (
            (403, {"collections": {"output": foreign}}),
            (422, {"collections": {"output": "no manifest"}}),
            (422, {"container": {"state": "Queued"}}),
            (422, {"container": {"exit_code": 0}}),
            (422, {"container": {**END, "output": f"{'0' * 32}+6"}}),
            (422, {"container": {**END, "log": f"{'0' * 32}+6"}}),
            (400, {"collections": {"input": MANIFEST}}),
            (400, {"collections": [MANIFEST]}),
            (400, {"collections": {"output": 1}}),
            (400, {"blocks": "AAAA"}),
            (400, {"blocks": ["no base64!"]}),
            (413, {"blocks": ["A" * (1 << 19)]}),
        ):
            reply = await it.request(
                "POST", f"containers/{uuid}/finish", report(**changed), token=supervisor
            )
            assert reply.status == status, (changed, reply.body)
        container = await it.ok("GET", f"containers/{uuid}")
        assert (container["state"], container["output"], container["log"]) == (
            "Running",
            None,
            None,
        )
        kept = await it.ok("GET", "collections", params=named(f"output for {uuid}"))
        assert kept["items"] == []


@pytest.mark.parametrize("whose", ["own", "admin", "other"])
async def test_only_the_supervisor_reports_the_end(tmp_path: Path, whose: str) -> None:
    async with world(tmp_path) as it:
        _, uuid, _ = await running(it)
        _, _, other = await running(it, "false")
        token = {"own": await it.container_token(uuid), "admin": it.admin, "other": other}[whose]
        reply = await it.request("POST", f"containers/{uuid}/finish", report(), token=token)
        assert reply.status == 403


async def test_a_supervisor_that_lost_the_container_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        _, uuid, supervisor = await running(it)
        await it.ok(
            "POST",
            f"containers/{uuid}/finish",
            report(blocks=None, collections={}),
            token=supervisor,
        )
        reply = await it.request("POST", f"containers/{uuid}/finish", report(), token=supervisor)
        assert reply.status == 401
