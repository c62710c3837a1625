"""A collection of the reader becomes an input of the form."""

from __future__ import annotations

from lading.client.transport import Response
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run

PLACE = "/ui/requests/submit"
EVIL = "<script>alert(1)<|script>"


async def _post(here: PageSite, browser: Browser, **fields: str) -> Response:
    image = await here.world.ensure_image()
    form = {"image": image, "command": "true", "vcpus": "1", "ram": "256 MiB", **fields}
    return await browser.post(PLACE, form)


async def test_own_collections_are_suggested(here: PageSite, browser: Browser) -> None:
    await here.files.collection({"x": b"1"}, name="reads")
    await here.files.collection({"x": b"2"}, name=EVIL)
    jane = await here.world.user("jane")
    await here.world.collection({"x": b"3"}, token=jane, name="of jane")
    done = await here.world.submit("x", name="step", output_name="a result")
    await here.world.run(done["container_uuid"])
    page = await browser.text(PLACE)
    assert '<option value="reads"></option>' in page
    assert "&lt;script&gt;alert" in page
    assert "of jane" not in page
    assert "a result" not in page
    assert '<label for="submit-collection">Collection</label>' in page
    assert 'list="submit-collections"' in page
    assert 'value="reads"' in await browser.text(f"{PLACE}?collection=reads")


async def test_it_becomes_a_mount(here: PageSite, browser: Browser) -> None:
    uuid = await here.files.collection({"x": b"1"}, name="reads")
    other = await here.files.pdh(await here.files.collection({"x": b"2"}))
    for path, target in (("", "/in"), ("/data", "/data")):
        answer = await _post(
            here, browser, collection="reads", collection_path=path, inputs=f"/more={other}"
        )
        assert answer.status == 303, answer.body.decode()
        request = answer.headers["location"].split("/")[-1].partition("?")[0]
        shown = await here.world.ok("GET", f"container_requests/{request}")
        assert shown["mounts"][target]["uuid"] == uuid
        assert shown["mounts"]["/more"]["portable_data_hash"] == other


async def test_faults(here: PageSite, browser: Browser) -> None:
    project = await here.world.ok("POST", "groups", {"name": "p", "group_class": "project"})
    await here.files.collection({"x": b"1"}, name="twice")
    await here.files.collection({"x": b"1"}, name="twice", owner_uuid=project["uuid"])
    for name, fault in (("none", "there is no such collection"), ("twice", "give the uuid")):
        answer = await _post(here, browser, collection=name)
        page = answer.body.decode()
        assert answer.status == 422
        assert fault in page
        assert 'aria-describedby="fault-collection"' in page
        assert f'value="{name}"' in page
    # Of a form with another fault the choice is a line of the inputs.
    uuid = await here.files.collection({"x": b"1"}, name="reads")
    answer = await _post(here, browser, collection="reads", vcpus="none")
    assert f"/in={uuid}</textarea>" in answer.body.decode()


async def test_several_are_chosen_at_once(here: PageSite, browser: Browser) -> None:
    names = ("reads", "my genome, v2", "...")
    uuids = [await here.files.collection({"x": name.encode()}, name=name) for name in names]
    for uuid in uuids:
        assert f'name="chosen" value="{uuid}"' in await browser.text(PLACE)
    image = await here.world.ensure_image()
    form = [("image", image), ("command", "true"), ("vcpus", "1"), ("ram", "256 MiB")]
    answer = await browser.post_fields(PLACE, [*form, *(("chosen", uuid) for uuid in uuids)])
    assert answer.status == 303, answer.body.decode()
    request = answer.headers["location"].split("/")[-1].partition("?")[0]
    mounts = (await here.world.ok("GET", f"container_requests/{request}"))["mounts"]
    paths = ("/in/reads", "/in/my_genome_v2", f"/in/{uuids[2]}")
    assert {path: mounts[path]["uuid"] for path in paths} == dict(zip(paths, uuids, strict=True))
    # Of a form with another fault the choice is lines of the inputs.
    answer = await _post(here, browser, chosen=uuids[0], vcpus="none")
    assert f"/in/reads={uuids[0]}</textarea>" in answer.body.decode()


async def test_others_are_not_chosen(here: PageSite, browser: Browser) -> None:
    jane = await here.world.user("jane")
    hers = await here.world.collection({"x": b"3"}, token=jane, name="of jane")
    reader = await here.logged_in(await here.world.user("ann"))
    for uuid, fault in ((hers["uuid"], "no such collection"), ("x", "choose at most 50")):
        answer = await _post(here, reader, chosen=uuid)
        assert answer.status == 422
        assert fault in answer.body.decode()


async def test_parameters_of_the_run_are_shown(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "cohort-7", params={"k": 31, EVIL: EVIL})
    place = f"{PLACE}?run=cohort-7"
    assert f'href="{place}"' in await browser.text(f"/ui/runs/{run['uuid']}")
    assert "Parameters of cohort-7 k 31" in await browser.words(place)
    assert "<script>alert" not in await browser.text(place)
    await begin_run(here, "cohort-7")
    words = await browser.words(place)
    assert "Parameters of cohort-7 , attempt 2 None were given." in words
    assert "Parameters of" not in await browser.words(f"{PLACE}?run=cohort")
