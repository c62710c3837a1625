"""The page that compares two requests."""

from __future__ import annotations

import re

import pytest

from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>\u202e"


async def test_two_requests_field_by_field(here: PageSite, browser: Browser) -> None:
    world = here.world
    first = await world.submit("sort", environment={"Q": "1"}, name="one")
    second = await world.submit("sort", environment={"Q": "2"}, name="two")
    for request, text in ((first, b"old"), (second, b"newer")):
        made = await here.files.collection({"same.txt": b"same", "out <b>.txt": text})
        await world.run(request["container_uuid"], output=await here.files.pdh(made))
    path = f"/ui/requests/{second['uuid']}/compare?with={first['uuid']}"
    words = await browser.words(path)
    assert 'First cause environment.Q differs ("2" is asked for, it has "1")' in words
    assert "environment environment.Q 2 1" in words
    assert "name name two one" in words
    assert "out <b>.txt" in words
    assert "same.txt" not in words


async def test_the_other_request_by_its_name(here: PageSite, browser: Browser) -> None:
    first = await here.world.submit("sort", environment={"Q": "1"}, name="run <1>")
    second = await here.world.submit("sort", environment={"Q": "2"}, name="two")
    path = f"/ui/requests/{second['uuid']}/compare"
    words = await browser.words(f"{path}?with=run%20%3C1%3E")
    assert "name name two run <1>" in words
    assert first["uuid"] in words
    for text in ("none", "two", "zzzzz-4zz18-000000000000000"):
        page = (await browser.get(f"{path}?with={text}")).body.decode()
        assert f'name="with" value="{text}"' in page
        assert "There is no other request" in page or "must be the uuid" in page


async def test_a_neighbour_in_the_same_block_is_no_difference(
    here: PageSite, browser: Browser
) -> None:
    requests = []
    for number in (b"1", b"2"):
        request = await here.world.submit("sort", number.decode())
        made = await here.files.collection({"a.txt": b"same", "z.txt": number})
        await here.world.run(request["container_uuid"], output=await here.files.pdh(made))
        requests.append(request["uuid"])
    words = await browser.words(f"/ui/requests/{requests[0]}/compare?with={requests[1]}")
    assert "z.txt 1 byte 1 byte, other bytes" in words
    assert "a.txt" not in words


async def test_the_cause_is_in_an_earlier_step(here: PageSite, browser: Browser) -> None:
    last = []
    for mark in ("1", "2"):
        reads: dict[str, object] = {}
        for name in ("clean", "plot"):
            environment = {"Q": mark if name == "clean" else ""}
            mounts = {"/out": {"kind": "tmp", "capacity": 1000}, **reads}
            request = await here.world.submit(
                name, name=name, mounts=mounts, environment=environment
            )
            made = await here.files.collection({"x": f"{name} {mark}".encode()})
            pdh = await here.files.pdh(made)
            await here.world.run(request["container_uuid"], output=pdh)
            reads = {"/in": {"kind": "collection", "portable_data_hash": pdh}}
        last.append(request)
    path = f"/ui/requests/{last[1]['uuid']}/compare?with={last[0]['uuid']}"
    words = await browser.words(path)
    assert "clean the cause environment.Q differs" in words
    link = re.search(
        r'href="(/ui/requests/[^"]*/compare\?with=[^"]*)"[^>]*>both runs', await browser.text(path)
    )
    assert link is not None
    assert "First cause environment.Q differs" in await browser.words(link[1])


async def test_the_nearest_container_is_linked(here: PageSite, browser: Browser) -> None:
    first = await here.world.submit("x", environment={"Q": "1"})
    await here.world.run(first["container_uuid"])
    second = await here.world.submit("x", environment={"Q": "2"})
    path = f"/ui/requests/{second['uuid']}/compare?with={first['container_uuid']}"
    assert path in await browser.text(f"/ui/requests/{second['uuid']}")
    words = await browser.words(path)
    assert first["uuid"] in words
    assert f"{second['uuid']} has no output yet" in words


async def test_without_another_there_is_a_form(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x")
    path = f"/ui/requests/{request['uuid']}/compare"
    assert "First cause" not in await browser.words(path)
    same = await browser.words(f"{path}?with={request['uuid']}")
    assert "none: both are one computation" in same


@pytest.mark.parametrize(
    ("other", "status"),
    [("x", 404), ("zzzzz-4zz18-000000000000000", 422), ("zzzzz-dz642-000000000000000", 404)],
)
async def test_what_cannot_be_compared(
    here: PageSite, browser: Browser, other: str, status: int
) -> None:
    request = await here.world.submit("x")
    answer = await browser.get(f"/ui/requests/{request['uuid']}/compare?with={other}")
    assert answer.status == status


async def test_requests_of_others_are_not_there(here: PageSite) -> None:
    jane = await here.world.user("jane")
    mine = await here.world.submit("x")
    hers = await here.world.submit("y", token=jane)
    other = await here.logged_in(jane)
    path = "/ui/requests/{}/compare?with={}"
    assert (await other.get(path.format(mine["uuid"], hers["uuid"]))).status == 404
    assert (await other.get(path.format(hers["uuid"], mine["uuid"]))).status == 404
    assert (await other.get(path.format(hers["uuid"], mine["container_uuid"]))).status == 404


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    first = await here.world.submit("x")
    second = await here.world.submit(EVIL, name=EVIL, environment={EVIL: EVIL})
    for one, other in ((first, second), (second, first)):
        text = await browser.text(f"/ui/requests/{one['uuid']}/compare?with={other['uuid']}")
        assert "<script>alert" not in text
        assert "\u202e" not in text


async def test_the_machines_are_named(here: PageSite, browser: Browser) -> None:
    made = []
    for number in ("1", "2"):
        request = await here.world.submit("x", number)
        text = f"Host Information\nLinux node{number} 6.1\n".encode()
        log = await here.files.collection({"node-info.txt": text})
        await here.world.run(request["container_uuid"], log=await here.files.pdh(log))
        made.append(request["uuid"])
    words = await browser.words(f"/ui/requests/{made[0]}/compare?with={made[1]}")
    assert "Machine: node1" in words
    assert "Machine: node2" in words
