"""The page of the present."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite


async def test_nothing_at_all(browser: Browser) -> None:
    words = await browser.words("/ui/now")
    assert "Nothing runs." in words
    assert "Nothing waits." in words


async def test_what_runs_waits_and_failed(here: PageSite, browser: Browser) -> None:
    world = here.world
    await world.submit("waits", name="<b>waits</b>")
    failed = await world.submit("fails", name="fails")
    await world.run(failed["container_uuid"], exit_code=5)
    running = await world.submit("runs", name="runs")
    token = await world.lock(running["container_uuid"])
    path = f"containers/{running['container_uuid']}"
    await world.ok("PUT", path, {"state": "Running", "progress": 0.5}, token=token)
    text = await browser.text("/ui/now")
    assert "&lt;b&gt;waits" in text
    words = await browser.words("/ui/now/parts")
    assert "▶ running runs 50 %" in words
    assert "✗ failed 5 fails" in words


async def test_others_see_their_own(here: PageSite) -> None:
    await here.world.submit("x", name="of-the-admin")
    other = await here.logged_in(await here.world.user("jane"))
    assert "of-the-admin" not in await other.words("/ui/now")


async def test_the_site(here: PageSite, browser: Browser) -> None:
    world = here.world
    machine = {"id": "i-1", "kind": "vm", "state": "idle", "price": 0.25,
               "total": {"vcpus": 4, "ram": 8 << 30}, "reserved": {"vcpus": 1}}  # fmt: skip
    await world.ok("POST", "dispatch/machines", {"report": {"machines": [machine, machine]}},
                   token=world.dispatcher)  # fmt: skip
    for name, code in (("good", 0), ("bad", 1)):
        request = await world.submit(name)
        await world.run(request["container_uuid"], exit_code=code, cost=0.5)
    words = await browser.words("/ui/now")
    for part in ("2 of 8 reserved", "0 B of 16.0 GiB", "Machines 2 , $0.5 an hour",
                 "2 containers ended in the last hour", "1 failed or were cancelled, $1.00",
                 "✓ database: well"):  # fmt: skip
        assert part in words
    world.clock.advance(7200)
    assert "Rate 0 containers" in await browser.words("/ui/now/parts")


async def test_a_token_of_limited_scope_sees_the_lists(here: PageSite) -> None:
    scopes = ["GET /arvados/v1/users/current", "GET /arvados/v1/container_requests",
              "GET /arvados/v1/containers"]  # fmt: skip
    made = await here.world.ok("POST", "api_client_authorizations", {"scopes": scopes})
    browser = await here.logged_in(f"v2/{made['uuid']}/{made['api_token']}")
    words = await browser.words("/ui/now")
    assert "Nothing runs." in words
    assert "database" not in words
