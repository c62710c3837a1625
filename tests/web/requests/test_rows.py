"""Rows of lists."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_what_has_no_container_waits_too(here: PageSite, browser: Browser) -> None:
    world = here.world
    first = await world.submit("first", name="first")
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "output", "container_request": first["uuid"]},
    }
    second = await world.submit("second", name="second", mounts=mounts)
    assert second["container_uuid"] is None
    words = await browser.words("/ui/requests?state=Waiting")
    assert "… waiting (inputs) second" in words
    assert f"whose outputs it mounts have ended: {first['uuid']}" in words
    assert words.index("waiting (inputs) second") < words.index("waiting first")
    await world.ok("POST", f"container_requests/{second['uuid']}/cancel")
    assert "⊘ cancelled (never ran) second" in await browser.words("/ui/requests?state=Cancelled")


async def test_cancelled_ones_are_told_apart(here: PageSite, browser: Browser) -> None:
    world = here.world
    done = await world.submit("done", name="finished")
    await world.run(done["container_uuid"])
    gone = await world.submit("gone", name="gone")
    await world.ok("POST", f"container_requests/{gone['uuid']}/cancel")
    words = await browser.words("/ui/requests?state=Cancelled")
    assert "⊘ cancelled gone" in words
    assert "finished" not in words
    assert "✓ done finished" in await browser.words("/ui/requests?state=Complete")


async def test_a_reused_result_says_so(here: PageSite, browser: Browser) -> None:
    world = here.world
    first = await world.submit("same", name="first")
    await world.run(first["container_uuid"])
    await world.submit("same", name="second")
    assert "✓ done reused second" in await browser.words("/ui/requests")


async def test_what_could_not_be_run_has_failed(here: PageSite, browser: Browser) -> None:
    world = here.world
    made = await world.submit("nosuch", name="missing")
    supervisor = await world.lock(made["container_uuid"])
    path = f"containers/{made['container_uuid']}"
    await world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    status = {"failure": "user", "error": "the command cannot be started: not found"}
    await world.ok("PUT", path, {"state": "Cancelled", "runtime_status": status}, token=supervisor)
    assert "failed 127 missing" in await browser.words("/ui/requests?state=Failed")
    assert "missing" not in await browser.words("/ui/requests?state=Cancelled")


async def test_what_waits_for_a_quota_says_whose(here: PageSite, browser: Browser) -> None:
    world = here.world
    me = (await world.ok("GET", "users/current"))["uuid"]
    await world.ok("POST", "quotas", {"quota": {"subject_uuid": me, "vcpus": 1, "name": "me"}})
    for name in ("first", "second"):
        await world.submit(name, name=name)
    words = await browser.words("/ui/requests")
    assert "second It waits for the quota of the user me: 1 of 1 VCPUs are in use" in words
    assert words.count("It waits for the quota") == 1
