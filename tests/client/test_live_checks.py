"""The checks of a running site: all well, and what each fault of a part leads to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lading.api.server.wait_statuses import STATUSES
from lading.client.api import ApiClient
from lading.client.blocks import BlockClient
from lading.client.checks import CheckState, CheckStep
from lading.client.live_checks import LiveTest
from lading.client.retry import NO_RETRY
from lading.core.errors import Corrupt
from lading.core.records.schema import Record
from lading.process.concurrency import cancel_all
from tests.webdav.site import Site, site

WORD = "0123456789abcdef"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        await made.world.app.services.features[STATUSES].report(
            "d", {}, made.world.app.services.clock.now()
        )
        yield made


def make_test(here: Site, **more: Any) -> LiveTest:
    token = more.pop("token", here.world.admin)
    return LiveTest(
        api=ApiClient(here.transport, token, retry=NO_RETRY),
        blocks=BlockClient(here.transport, token, retry=NO_RETRY),
        word=WORD,
        clock=lambda: here.world.clock().timestamp(),
        pause=0.0,
        **more,
    )


@dataclass(frozen=True)
class Play:
    """How a container ends."""

    output: bytes = f"{WORD}\n".encode()
    exit_code: int = 0
    error: str = ""


async def perform(here: Site, uuid: str, play: Play) -> None:
    """Act one container from its lock to its end."""
    path = f"containers/{uuid}"
    token = await here.world.lock(uuid)
    await here.world.ok("PUT", path, {"state": "Running"}, token=token)
    log = await here.pdh(await here.collection({"stderr.txt": b"done\n"}))
    output = await here.pdh(await here.collection({"word": play.output}))
    end: Record = {"state": "Complete", "exit_code": play.exit_code, "output": output}
    if play.error:
        end = {"state": "Cancelled", "runtime_status": {"error": play.error, "failure": "user"}}
    await here.world.ok("PUT", path, {**end, "log": log}, token=token)


async def add_image(here: Site) -> None:
    uuid = await here.collection({f"sha256:{'a' * 64}.tar": b"image"})
    for kind, name in (
        ("docker_image_hash", f"sha256:{'a' * 64}"),
        ("docker_image_repo+tag", "sh:1"),
    ):
        link = {"link_class": kind, "name": name, "head_uuid": uuid}
        await here.world.ok("POST", "links", {"link": link})


@asynccontextmanager
async def dispatched(here: Site, play: Play) -> AsyncIterator[None]:
    """Each container that waits acts the play."""

    async def dispatch() -> None:
        filters = [["state", "=", "Queued"]]
        while True:
            found = await here.world.ok("GET", "containers", params={"filters": filters})
            for container in found["items"]:
                # The test may have cancelled it meanwhile.
                with suppress(AssertionError):
                    await perform(here, container["uuid"], play)
            await asyncio.sleep(0)

    task = asyncio.create_task(dispatch())
    try:
        yield
    finally:
        await cancel_all(task)


async def carry_out(test: LiveTest) -> dict[str, CheckStep]:
    found: list[CheckStep] = []
    async with asyncio.timeout(120):
        is_well = await test.run(found.append)
    assert len(found) == 12
    assert is_well is all(check.ok for check in found)
    return {check.name: check for check in found}


async def left(here: Site) -> list[str]:
    """Records of the test that are still there."""
    return [
        str(one["uuid"])
        for plural in ("collections", "container_requests")
        for one in (await here.world.ok("GET", plural, params={"limit": 1000}))["items"]
        if "lading doctor" in str(one["name"]) or WORD in str(one["properties"])
    ]


async def test_a_site_that_is_well(here: Site) -> None:
    await add_image(here)
    async with dispatched(here, Play()):
        found = await carry_out(make_test(here))
    faults = [check for check in found.values() if check.state is not CheckState.OK]
    assert faults == []
    assert all(
        check.seconds >= 0 and check.finding and not check.remedy for check in found.values()
    )
    assert "began after" in found["container"].finding
    assert await left(here) == []


async def test_a_token_that_is_refused_ends_the_test_early(here: Site) -> None:
    found = await carry_out(make_test(here, token="v2/zzzzz-gj3su-000000000000000/x"))
    assert found["server"].state is CheckState.OK
    assert found["token"].state is CheckState.FAILED
    assert "another token" in found["token"].remedy
    others = [check for name, check in found.items() if name not in ("server", "clock", "token")]
    assert {check.state for check in others} == {CheckState.SKIPPED}
    assert found["blocks"].finding == "it needs what 'token' did not find"


async def test_without_an_image_the_rest_is_checked(here: Site) -> None:
    found = await carry_out(make_test(here))
    assert found["image"].state is CheckState.FAILED
    assert "lading image add" in found["image"].remedy
    assert found["files"].state is found["events"].state is CheckState.OK
    assert found["container"].state is found["output"].state is CheckState.SKIPPED
    assert found["clean up"].state is CheckState.OK
    assert await left(here) == []


async def test_a_container_that_does_not_end_says_why_and_is_cancelled(here: Site) -> None:
    await add_image(here)
    found = await carry_out(make_test(here, patience=0.3))
    assert found["container"].state is CheckState.FAILED
    assert "it has not ended within 0 s: " in found["container"].finding
    assert "--timeout" in found["container"].remedy
    assert await left(here) == []
    live = await here.world.ok("GET", "containers", params={"filters": [["state", "=", "Queued"]]})
    assert live["items"] == []


@pytest.mark.parametrize(
    ("play", "said", "mend"),
    [
        (Play(exit_code=127), "exit code 127", "--image"),
        (Play(error="The node is broken."), "The node is broken.", "dispatcher"),
    ],
)
async def test_a_container_that_fails(here: Site, play: Play, said: str, mend: str) -> None:
    await add_image(here)
    async with dispatched(here, play):
        found = await carry_out(make_test(here))
    assert found["container"].state is CheckState.FAILED
    assert said in found["container"].finding
    assert mend in found["container"].remedy
    assert await left(here) == []


async def test_another_output_is_a_fault(here: Site) -> None:
    await add_image(here)
    async with dispatched(here, Play(output=b"other\n")):
        found = await carry_out(make_test(here))
    assert found["output"].finding == "the output is b'other\\n'"


async def test_a_part_that_is_ill_is_named(here: Site) -> None:
    # Nobody has reported for long.
    here.world.clock.advance(3600)
    found = await carry_out(make_test(here))
    assert found["parts"].state is CheckState.FAILED
    assert found["parts"].finding.startswith("dispatchers: none has reported since")


async def test_a_damaged_block_is_a_fault(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def damaged(hash: str, into: memoryview | None = None) -> bytes:
        raise Corrupt(f"{hash}: is damaged")

    monkeypatch.setattr(here.volume, "get", damaged)
    found = await carry_out(make_test(here))
    assert found["blocks"].state is CheckState.FAILED
    assert "is damaged" in found["blocks"].finding
    assert found["collection"].state is CheckState.SKIPPED


class _Dated(ApiClient):
    """A client of a server that tells the time."""

    async def raw(self, *arguments: Any, **more: Any) -> Any:
        answer = await super().raw(*arguments, **more)
        headers: Record = {**answer.headers, "date": "Thu, 01 Jan 2026 00:00:00 GMT"}
        return type(answer)(answer.status, headers, answer.body)


@pytest.mark.parametrize(("off", "is_well"), [(30.0, True), (-3600.0, False)])
async def test_clocks_are_compared(here: Site, off: float, is_well: bool) -> None:
    test = make_test(here)
    test.api = _Dated(here.transport, here.world.admin, retry=NO_RETRY)
    now: Callable[[], float] = lambda: 1767225600.0 + off  # noqa: E731 - one line of a table
    test.clock = now
    found = await carry_out(test)
    assert (found["clock"].state is CheckState.OK) is is_well
    if not is_well:
        assert found["clock"].finding == "this clock is -3600 s off the server's"
