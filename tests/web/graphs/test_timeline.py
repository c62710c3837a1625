"""The timeline of requests."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite

API = {"vcpus": 1, "ram": 1 << 28, "API": True}
EVIL = "<script>alert(1)</script>\u202e"


async def test_a_tree_is_drawn_and_listed(here: PageSite, browser: Browser) -> None:
    world = here.world
    parent = await world.submit("runner", name="runner", runtime_constraints=API)
    secret = await world.lock(parent["container_uuid"])
    await world.ok(
        "PUT", f"containers/{parent['container_uuid']}", {"state": "Running"}, token=secret
    )
    own = await world.container_token(parent["container_uuid"])
    image = await world.ensure_image()
    child = await world.submit("child", name="child", token=own, container_image=image)
    await world.run(child["container_uuid"], exit_code=3)
    path = f"/ui/requests/{parent['uuid']}/timeline"
    words = await browser.words(path)
    assert "2 requests" in words
    assert words.count("✗ failed 3") == 2
    text = await browser.text(path)
    assert f'href="/ui/requests/{child["uuid"]}"' in text
    assert 'class="runs bad"' in text
    # Bars take the room that there is, on a phone too; names keep their size.
    assert 'preserveAspectRatio="none"' in text
    assert "style=" not in text


async def test_needed_requests_and_reuse(here: PageSite, browser: Browser) -> None:
    world = here.world
    old = await world.submit("first", name="old")
    await world.run(old["container_uuid"])
    world.clock.advance(60)
    again = await world.submit("first", name="again")
    later = await world.submit("second", name="later", depends_on=[again["uuid"]])
    words = await browser.words(f"/ui/requests/{later['uuid']}/timeline")
    assert "↺ done, reused" in words
    assert " old " not in words


async def test_reused_ancestors_are_shown_at_their_use(here: PageSite, browser: Browser) -> None:
    world = here.world
    out = {"/out": {"kind": "tmp", "capacity": 1000}}
    output = await here.files.collection({"x": b"sorted"})
    pdh = await here.files.pdh(output)
    old = await world.submit("zsort", name="zsort", mounts=out)
    await world.run(old["container_uuid"], output=pdh)
    world.clock.advance(3 * 3600)
    reads = {**out, "/in": {"kind": "collection", "portable_data_hash": pdh}}
    report = await world.submit("report", name="report", mounts=reads)
    words = await browser.words(f"/ui/requests/{report['uuid']}/timeline")
    assert "2 requests in 0.0" in words
    assert "1 of an earlier run is shown where it is used." in words
    table = words[words.index("The same as a table") :]
    assert table.index("zsort") < table.index("report")
    assert "↺ done, reused" in table


async def test_what_was_cancelled_while_it_waited(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x", name="gone")
    await here.world.ok("POST", f"container_requests/{request['uuid']}/cancel")
    assert "⊘ cancelled" in await browser.words(f"/ui/requests/{request['uuid']}/timeline")


async def test_requests_of_others_are_not_there(here: PageSite) -> None:
    request = await here.world.submit("x")
    other = await here.logged_in(await here.world.user("jane"))
    assert (await other.get(f"/ui/requests/{request['uuid']}/timeline")).status == 404


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit(EVIL, name=EVIL)
    text = await browser.text(f"/ui/requests/{request['uuid']}/timeline")
    assert "<script>alert" not in text
    assert "\u202e" not in text
