"""The step that a failure comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lading.client.api import ApiClient
from lading.client.outcomes import RequestOutcome
from lading.client.provenance.failures import find_failure, find_failures
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world


async def _outcome(api: ApiClient, uuid: str) -> RequestOutcome:
    request = await api.get("container_requests", uuid)
    held = request["container_uuid"]
    return RequestOutcome(request, await api.get("containers", held) if held else None)


def _api(here: World) -> ApiClient:
    return ApiClient(AsgiTransport(here.app), here.admin)


async def test_a_chain_ends_at_the_command_that_failed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        first = await here.submit("false", name="first")
        uuids = [first["uuid"]]
        for name in ("second", "third"):
            made = await here.submit(name, name=name, depends_on=uuids[-1:])
            uuids.append(made["uuid"])
        assert await find_failure(_api(here), await _outcome(_api(here), uuids[0])) is None
        log = await here.collection({"stderr.txt": b"lost\n"})
        await here.run(first["container_uuid"], exit_code=3, log=log["portable_data_hash"])
        api = _api(here)
        report = await find_failure(api, await _outcome(api, uuids[2]))
        assert report is not None
        assert (report.name, report.is_other, report.sentence) == ("first", True, "failed 3")
        assert (report.stream, report.lines) == ("standard error", ["lost"])
        own = await find_failure(api, await _outcome(api, uuids[0]))
        assert own is not None
        assert not own.is_other
        # The step that all come from is told once.
        every = [await _outcome(api, uuid) for uuid in reversed(uuids)]
        assert list(await find_failures(api, every, most=9, lines=1)) == [uuids[0]]


async def test_a_runner_fails_for_its_step(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.ensure_image()
        wanted = {"vcpus": 1, "ram": 1 << 28, "API": True}
        runner = await here.submit("runner", name="runner", runtime_constraints=wanted)
        supervisor = await here.lock(runner["container_uuid"])
        path = f"containers/{runner['container_uuid']}"
        await here.ok("PUT", path, {"state": "Running"}, token=supervisor)
        own = await here.container_token(runner["container_uuid"])
        steps = [await here.submit(name, name=name, token=own) for name in ("good", "bad")]
        for step, code in zip(steps, (0, 5), strict=True):
            await here.run(step["container_uuid"], exit_code=code)
        ended: dict[str, Any] = {"state": "Complete", "exit_code": 1}
        made = await here.collection({"x": b"x"})
        more = {"output": made["portable_data_hash"], "log": made["portable_data_hash"]}
        await here.ok("PUT", path, {**ended, **more}, token=supervisor)
        api = _api(here)
        report = await find_failure(api, await _outcome(api, runner["uuid"]))
        assert report is not None
        assert (report.name, report.sentence, report.lines) == ("bad", "failed 5", [])
