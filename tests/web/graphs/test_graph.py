"""The page with the graph."""

from __future__ import annotations

import re

from lading.core.records.schema import Record
from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>\u202e"
OUT = {"/out": {"kind": "tmp", "capacity": 1000}}


def _reads(pdh: str) -> Record:
    return {**OUT, "/in": {"kind": "collection", "portable_data_hash": pdh}}


async def _chain(here: PageSite, first_name: str) -> list[Record]:
    """Three requests, each of which reads the output of the one before."""
    world, made, mounts = here.world, [], OUT
    for number, name in enumerate((first_name, "middle", "last")):
        request = await world.submit(name, str(number), name=name, mounts=mounts)
        output = await here.files.collection({f"{number}.txt": f"{first_name} {name}".encode()})
        pdh = await here.files.pdh(output)
        await world.run(request["container_uuid"], output=pdh)
        made.append(request)
        mounts = _reads(pdh)
    return made


async def test_origins_and_uses_are_drawn(here: PageSite, browser: Browser) -> None:
    first, middle, last = await _chain(here, "first")
    path = f"/ui/requests/{middle['uuid']}/graph"
    text, words = await browser.text(path), await browser.words(path)
    for one in (first, last):
        assert f'href="/ui/requests/{one["uuid"]}"' in text
    assert "middle this request request ✓ done 1" in words
    assert "output of first collection 1 first middle" in words
    # The link from the image to a later layer runs between the rows.
    assert re.search(r'd="M [^"]* L ', text)
    assert "style=" not in text
    assert "sealed" not in text


async def test_what_has_not_run_has_its_inputs(here: PageSite, browser: Browser) -> None:
    pdh = await here.files.pdh(await here.files.collection({"a": b"a"}, name="the input"))
    needed = await here.world.submit("n", name="needed one")
    request = await here.world.submit("x", mounts=_reads(pdh), depends_on=[needed["uuid"]])
    words = await browser.words(f"/ui/requests/{request['uuid']}/graph")
    assert "the input collection 1" in words
    assert "needed one request" in words
    assert "image" in words


async def test_what_a_reader_may_not_see_is_sealed(here: PageSite) -> None:
    world = here.world
    jane = await world.user("jane")
    own = await world.submit("secret-command", name="secret name")
    pdh = await here.files.pdh(await here.files.collection({"a": b"a"}, name="secret input"))
    request = await world.submit("x", name="shared", mounts=_reads(pdh), depends_on=[own["uuid"]])
    me = await world.ok("GET", "users/current", token=jane)
    link = {
        "link_class": "permission", "name": "can_read", "tail_uuid": me["uuid"],
        "head_uuid": request["uuid"],
    }  # fmt: skip
    path = f"/ui/requests/{request['uuid']}/graph"
    browser = await here.logged_in(jane)
    assert (await browser.get(path)).status == 404
    await world.ok("POST", "links", {"link": link})
    text = await browser.text(path)
    assert 'class="node collection sealed"' in text
    assert 'class="node request sealed"' in text
    assert "secret" not in text


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    for one in await _chain(here, EVIL):
        text = await browser.text(f"/ui/requests/{one['uuid']}/graph")
        assert "<script>alert" not in text
        assert "\u202e" not in text


async def test_the_path_of_a_difference_is_marked(here: PageSite, browser: Browser) -> None:
    old, new = await _chain(here, "first"), await _chain(here, "other")
    path = f"/ui/requests/{new[2]['uuid']}/graph?with={old[2]['uuid']}"
    text, words = await browser.text(path), await browser.words(path)
    # Three steps, and the two outputs between them.
    assert len(re.findall(r'<rect class="node [^"]*on-path"', text)) == 5
    assert text.count('class="edge on-path"') == 4
    assert "other differs: the cause" in words
    same = f"/ui/requests/{new[2]['uuid']}/graph?with={new[2]['uuid']}"
    assert "the cause" not in await browser.words(same)
    assert (await browser.get(f"{path}x")).status == 404


async def test_states_have_colours_words_and_shapes(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("false")
    await here.world.run(request["container_uuid"], exit_code=3)
    here.world.clock.advance(60)
    good = await here.world.submit("true")
    await here.world.run(good["container_uuid"])
    here.world.clock.advance(60)
    again = await here.world.submit("true")
    text = await browser.text(f"/ui/requests/{request['uuid']}/graph")
    assert 'class="node request bad start"' in text
    assert "✗ failed 3" in text
    assert 'marker-end="url(#arrow)"' in text
    text = await browser.text(f"/ui/requests/{again['uuid']}/graph")
    assert 'class="node request good reused start"' in text
    assert "↺ done, reused" in text


async def test_steps_that_only_wait_for_each_other_are_linked(
    here: PageSite, browser: Browser
) -> None:
    world = here.world
    empty = await here.files.pdh(await here.files.collection({"a": b"a"}))
    needs: list[str] = []
    for name in ("first", "middle", "last"):
        request = await world.submit(name, name=name, mounts=OUT, depends_on=needs)
        # Once the one before has ended, it has a container.
        request = await world.ok("GET", f"container_requests/{request['uuid']}")
        await world.run(request["container_uuid"], output=empty)
        needs = [request["uuid"]]
    text = await browser.text(f"/ui/requests/{request['uuid']}/graph")
    # Of the image, to the output they share, and from each to the next.
    assert text.count('class="edge"') == 3 + 3 + 2


async def test_the_requests_of_a_step_can_be_opened(here: PageSite, browser: Browser) -> None:
    made = [await here.world.submit(f"{n}", name=f"sort_{n}", mounts=OUT) for n in range(3)]
    await here.world.run(made[2]["container_uuid"], exit_code=3)
    last = await here.world.submit("gather", mounts=OUT, depends_on=[one["uuid"] for one in made])
    text = await browser.text(f"/ui/requests/{last['uuid']}/graph")
    assert "sort × 3" in text
    places = [text.rindex(f'href="/ui/requests/{one["uuid"]}"') for one in made]
    # The one that failed comes first.
    assert places[2] < places[0] < places[1]
    step = re.search(r'href="#(step-\d+)"', text)
    assert step
    assert f'id="{step[1]}"' in text


async def test_a_collection_has_a_graph(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"reads.txt": b"reads"}, name="<b>reads")
    mounts = _reads(await here.files.pdh(uuid))
    request = await here.world.submit("count", name="count", mounts=mounts)
    await here.world.run(request["container_uuid"])
    assert f"/ui/collections/{uuid}/graph" in await browser.text(f"/ui/collections/{uuid}")
    text = await browser.text(f"/ui/collections/{uuid}/graph")
    assert 'class="node collection start"' in text
    assert f'href="/ui/requests/{request["uuid"]}"' in text
    assert "<b>reads" not in text
    assert "this collection" in await browser.words(f"/ui/collections/{uuid}/graph")
    jane = await here.logged_in(await here.world.user("jane"))
    assert (await jane.get(f"/ui/collections/{uuid}/graph")).status == 404
