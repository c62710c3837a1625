"""Projects, and what is in them."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite

EVIL = "<img src=x onerror=alert(1)>"


async def _project(here: PageSite, name: str, **more: object) -> str:
    group = {"group_class": "project", "name": name, **more}
    return str((await here.world.ok("POST", "groups", {"group": group}))["uuid"])


async def test_a_project_shows_what_is_in_it(here: PageSite, browser: Browser) -> None:
    outer = await _project(here, "outer")
    inner = await _project(here, EVIL, owner_uuid=outer, properties={EVIL: EVIL})
    kept = await here.world.collection({"a": b"1"}, name="kept", owner_uuid=inner)
    await here.world.submit("x", name="asked", owner_uuid=inner)
    home = await browser.get("/ui/projects")
    assert ">outer/</a>" in await browser.text(home.headers["location"])
    text = await browser.text(f"/ui/projects/{inner}")
    assert f"/ui/collections/{kept['uuid']}" in text
    assert f'<a href="/ui/projects/{outer}" data-key="u">outer</a>' in text
    assert ">asked<" in text
    assert EVIL not in text
    assert "None matches." in await browser.words(f"/ui/projects/{inner}?q=other")


async def test_pages_show_each_collection_once(here: PageSite, browser: Browser) -> None:
    project = await _project(here, "many")
    for number in range(53):
        await here.world.collection({}, name=f"c{number}", owner_uuid=project)
    first = await browser.text(f"/ui/projects/{project}")
    path = f"/ui/projects/{project}?kind=collections"
    assert path in first
    seen: list[str] = []
    while path:
        text = await browser.text(path)
        seen += re.findall(r'<tr id="row-([^"]*)"', text)
        found = re.search(r'href="([^"]*)" rel="next"', text)
        path = found[1].replace("&amp;", "&") if found else ""
    assert len(seen) == len(set(seen)) == 53
    assert (await browser.get(f"/ui/projects/{project}?kind=none")).status == 422


async def test_a_project_is_created_by_a_form(here: PageSite, browser: Browser) -> None:
    outer = await _project(here, "outer")
    made = await browser.post(
        f"/ui/projects/{outer}/projects", {"name": " new ", "description": ""}
    )
    uuid = made.headers["location"].rpartition("/")[2]
    record = await here.world.ok("GET", f"groups/{uuid}")
    assert (record["name"], record["owner_uuid"]) == ("new", outer)
    assert (await browser.post(f"/ui/projects/{outer}/projects", {"name": ""})).status == 422
    forged = await browser.post(f"/ui/projects/{outer}/projects", {"name": "x", "form_token": "x"})
    assert forged.status == 403


async def test_what_others_share_is_listed(here: PageSite, browser: Browser) -> None:
    outer = await _project(here, "for jane")
    jane = await here.logged_in(await here.world.user("jane"))
    assert "for jane" not in await jane.text("/ui/projects/shared")
    assert "Nobody shares" in await jane.words("/ui/projects/shared?q=other")
    assert (await jane.get(f"/ui/projects/{outer}")).status == 404
    (user,) = (
        await here.world.ok("GET", "users", params={"filters": [["username", "=", "jane"]]})
    )["items"]
    link = {
        "link_class": "permission", "name": "can_read", "head_uuid": outer,
        "tail_uuid": user["uuid"],
    }  # fmt: skip
    await here.world.ok("POST", "links", {"link": link})
    assert "for jane/" in await jane.words("/ui/projects/shared")
    text = await jane.text(f"/ui/projects/{outer}")
    assert "New project" not in text
    assert (await jane.post(f"/ui/projects/{outer}/projects", {"name": "x"})).status == 403
    assert "Home of jane" in await browser.words(f"/ui/projects/{user['uuid']}")
    assert (await browser.get("/ui/projects/none")).status == 404


async def test_logs_of_containers_are_shown_on_demand(here: PageSite, browser: Browser) -> None:
    project = await _project(here, "busy")
    for kind in ("output", "log", "intermediate", ""):
        properties = {"type": kind} if kind else {}
        await here.world.collection(
            {}, name=f"made as <{kind}>", owner_uuid=project, properties=properties
        )
    place = f"/ui/projects/{project}"
    short, whole = await browser.words(place), await browser.words(f"{place}?logs=1")
    for kind, is_in_both in (("output", True), ("log", False), ("intermediate", False), ("", True)):
        assert (f"made as <{kind}>" in short, f"made as <{kind}>" in whole) == (is_in_both, True)
    found = await browser.text(f"{place}?logs=1&kind=collections&q=made")
    assert 'name="logs" value="1"' in found
    assert f"{place}?kind=collections&amp;q=made" in found


async def test_runs_are_not_listed_as_projects(here: PageSite, browser: Browser) -> None:
    lab = await _project(here, "lab")
    await _project(here, "inner", owner_uuid=lab)
    await here.world.ok("POST", "groups/begin_run", {"name": "nightly", "project": lab})
    for path in (f"/ui/projects/{lab}", f"/ui/projects/{lab}?kind=projects"):
        text = await browser.text(path)
        assert ">inner/</a>" in text
        assert "nightly" not in text
        assert f'href="/ui/runs?project={lab}"' in text
    assert "nightly" in await browser.text(f"/ui/runs?project={lab}")
