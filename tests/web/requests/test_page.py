"""The page of a request."""

from __future__ import annotations

from typing import Any

import pytest

from lading.client import explanations
from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>\u202e"


async def _page(here: PageSite, *command: str, **more: object) -> str:
    request = await here.world.submit(*command, **more)  # type: ignore[arg-type]
    return f"/ui/requests/{request['uuid']}"


async def test_what_was_asked_and_why_it_waits(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("sort", "/in", name="sorts", environment={"A": "b"})
    words = await browser.words(f"/ui/requests/{request['uuid']}")
    assert "sort /in" in words
    assert "256.0 MiB" in words
    why = await here.world.ok("GET", f"container_requests/{request['uuid']}/why")
    for _, text in explanations.why_fields(why):
        assert text in words
    assert words.count("Set") == 1


async def test_the_reason_of_a_wait_is_looked_at_again(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("true")
    path = f"/ui/requests/{request['uuid']}"
    again = f'hx-get="{path}/state" hx-trigger="load delay:5s" hx-target="#state"'
    assert again in await browser.text(path)
    assert again in await browser.text(f"{path}/state")
    await here.world.run(request["container_uuid"])
    assert again not in await browser.text(path)


async def test_what_has_ended(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("false")
    await world.run(request["container_uuid"], exit_code=3)
    path = f"/ui/requests/{request['uuid']}"
    words = await browser.words(path)
    assert "✗ failed 3" in words
    assert "ended failed 3" in words
    assert "the same error" not in words
    assert "out.txt 6 B" in words
    assert "sse-connect" not in await browser.text(path)
    assert b"<html" not in (await browser.get(f"{path}/state")).body


async def test_warnings_about_what_has_ended_are_shown(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("true", name="links")
    status = {"warning": "output: 2 entries not saved", "warningDetail": "/out/<a>\n/out/b"}
    await here.world.run(request["container_uuid"], runtime_status=status)
    words = await browser.words(f"/ui/requests/{request['uuid']}")
    assert "/out/<a> /out/b" in words
    assert "output: 2 entries not saved" in await browser.words("/ui/requests")


async def test_results_are_shown_when_they_are_known(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("true")
    path = f"/ui/requests/{request['uuid']}"
    assert f'hx-get="{path}/results" hx-trigger="sse:changed' in await browser.text(path)
    assert "None yet." in await browser.words(f"{path}/results")
    await here.world.run(request["container_uuid"])
    assert "out.txt 6 B" in await browser.words(f"{path}/results")


async def test_the_output_of_a_cancelled_request(here: PageSite, browser: Browser) -> None:
    """Without files it is not said to come, and with files they are shown."""
    world = here.world
    request = await world.submit("sleep")
    path = f"/ui/requests/{request['uuid']}"
    await world.ok("POST", f"container_requests/{request['uuid']}/cancel")
    for view in (path, f"{path}/results"):
        words = await browser.words(view)
        assert "None: the command left no file that was saved." in words
        assert "None yet." not in words
    stopped = await world.submit("sleep", "9")
    status = {"failure": "timeout", "error": "its time was over"}
    ending: dict[str, Any] = {"state": "Cancelled", "exit_code": None, "runtime_status": status}
    await world.run(stopped["container_uuid"], **ending)
    words = await browser.words(f"/ui/requests/{stopped['uuid']}/results")
    assert "The files that there were when the command was stopped." in words
    assert "out.txt 6 B" in words


async def test_a_large_output_and_a_long_line_leave_room(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("many")
    output = await here.files.collection({f"{number:03}": b"x" for number in range(60)})
    log = await here.files.collection({"stderr.txt": b"x" * 20_000 + b"\nthe last one\n"})
    await world.run(
        request["container_uuid"],
        exit_code=1,
        output=await here.files.pdh(output),
        log=await here.files.pdh(log),
    )
    words = await browser.words(f"/ui/requests/{request['uuid']}")
    assert "The first 50 of 60. More of them" in words
    assert "the last one" in words
    assert "x" * 1001 not in words
    assert "059" in await browser.words(f"/ui/requests/{request['uuid']}/files")


async def test_a_page_listens_until_the_request_is_final(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("true")
    path = f"/ui/requests/{request['uuid']}"
    assert "sse-connect" in await browser.text(path)
    await here.world.run(request["container_uuid"])
    assert "sse-connect" not in await browser.text(path)


async def test_a_failure_shows_its_last_lines(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("false")
    log = await here.files.collection({"stderr.txt": b"first\n" * 20 + b"no <such> file\n"})
    await world.run(request["container_uuid"], exit_code=3, log=await here.files.pdh(log))
    for view in ("", "/state"):
        words = await browser.words(f"/ui/requests/{request['uuid']}{view}")
        assert words.count("first") == 11
        assert "no <such> file" in words


async def test_a_cancelled_request_names_the_step_that_failed(
    here: PageSite, browser: Browser
) -> None:
    world = here.world
    first = await world.submit("false", name="align")
    last = await world.submit("plot", name="plot", depends_on=[first["uuid"]])
    log = await here.files.collection({"stderr.txt": b"no <such> sample\n"})
    await world.run(first["container_uuid"], exit_code=3, log=await here.files.pdh(log))
    path = f"/ui/requests/{last['uuid']}"
    words = await browser.words(path)
    assert "Failed step: align ✗ failed 3" in words
    assert "no <such> sample" in words
    assert words.index("no <such> sample") < words.index("Why")
    assert f'href="/ui/requests/{first["uuid"]}/log"' in await browser.text(path)


async def test_needs_that_are_not_asked_are_not_shown(here: PageSite, browser: Browser) -> None:
    assert "gpu" not in await browser.words(await _page(here, "y"))
    gpu = {"stack": "cuda", "device_count": 2, "driver_version": "11.0", "hardware_target": ["9.0"]}
    more = {"runtime_constraints": {"vcpus": [1, 4], "ram": 1 << 30, "gpu": {**gpu, "vram": 1}}}
    words = await browser.words(await _page(here, "x", **more))
    assert "device_count 2" in words
    assert "1 to 4" in words


async def test_a_nearest_container_is_compared(here: PageSite, browser: Browser) -> None:
    first = await here.world.submit("x", environment={"Q": "1"})
    await here.world.run(first["container_uuid"])
    words = await browser.words(await _page(here, "x", environment={"Q": "2"}))
    assert "nearest earlier container" in words
    assert "environment.Q 2 1" in words
    assert "A container of another user is used only if" in words


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    path = await _page(
        here,
        EVIL,
        name=EVIL,
        description=EVIL,
        properties={EVIL: EVIL},
        environment={EVIL: EVIL},
    )
    for view in (path, "/ui/requests", "/ui/", f"{path}/log"):
        text = await browser.text(view)
        assert "<script>alert" not in text
        assert "\u202e" not in text


async def test_requests_of_others_are_not_there(here: PageSite) -> None:
    path = await _page(here, "x")
    other = await here.logged_in(await here.world.user("jane"))
    for view in ("", "/state", "/results", "/log", "/files", "/files/download?path=out.txt"):
        assert (await other.get(f"{path}{view}")).status == 404
    for action in ("cancel", "again"):
        assert (await other.post(f"{path}/{action}")).status == 404


@pytest.mark.parametrize("uuid", ["x", "zzzzz-xvhdp-0", "zzzzz-dz642-000000000000000", "..%2Fx"])
async def test_what_is_no_request(browser: Browser, uuid: str) -> None:
    assert (await browser.get(f"/ui/requests/{uuid}")).status == 404


async def test_cancel(here: PageSite, browser: Browser) -> None:
    path = await _page(here, "x")
    answer = await browser.post(f"{path}/cancel")
    assert answer.headers["location"] == f"{path}?said=cancelled"
    assert "Cancelled." in await browser.words(f"{path}?said=cancelled")
    assert (await browser.get(f"{path}/cancel")).status == 405


async def test_another_priority(here: PageSite, browser: Browser) -> None:
    path = await _page(here, "x")
    await browser.post(f"{path}/priority", {"priority": "700"})
    uuid = path.rpartition("/")[2]
    assert (await here.world.ok("GET", f"container_requests/{uuid}"))["priority"] == 700
    for wrong in ("", "-1", "1001", "²"):
        assert (await browser.post(f"{path}/priority", {"priority": wrong})).status == 422


async def test_run_again(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x", name="twice")
    await here.world.run(request["container_uuid"])
    answer = await browser.post(f"/ui/requests/{request['uuid']}/again")
    made = answer.headers["location"].partition("?")[0].rpartition("/")[2]
    new = await here.world.ok("GET", f"container_requests/{made}")
    assert (new["name"], new["use_existing"]) == ("twice", False)
    assert new["container_uuid"] != request["container_uuid"]


async def test_what_is_reused_names_its_source(here: PageSite, browser: Browser) -> None:
    first = await here.world.submit("x", name="the <first>")
    await here.world.run(first["container_uuid"])
    here.world.clock.advance(60)
    again = await here.world.submit("x", name="again")
    path = f"/ui/requests/{again['uuid']}"
    assert "↺ reused from the <first>" in await browser.words(path)
    assert f'href="/ui/requests/{first["uuid"]}"' in await browser.text(path)
    assert "reused" not in await browser.words(f"/ui/requests/{first['uuid']}")
    # Somebody who cannot read the first one does not hear of it.
    jane = await here.world.user("jane")
    link = {"link_class": "permission", "name": "can_read", "head_uuid": again["uuid"]}
    user = await here.world.ok("GET", "users/current", token=jane)
    await here.world.ok("POST", "links", {**link, "tail_uuid": user["uuid"]})
    words = await (await here.logged_in(jane)).words(path)
    assert "↺ reused" in words
    assert "first" not in words


async def test_the_priority_is_raised_by_a_button(here: PageSite, browser: Browser) -> None:
    path = await _page(here, "x", priority=950)
    assert "Raise to 1000" in await browser.words(path)
    await browser.post(f"{path}/priority", {"priority": "1000"})
    assert "Raise" not in await browser.words(path)


async def test_attempts_are_drawn(here: PageSite, browser: Browser) -> None:
    path = await _page(here, "x")
    text = await browser.text(path)
    assert 'class="attempts"' in text
    assert 'class="runs' not in text
    uuid = path.rpartition("/")[2]
    found = await here.world.ok("GET", f"container_requests/{uuid}")
    here.world.clock.advance(5)
    await here.world.run(found["container_uuid"], exit_code=3)
    assert 'class="runs bad"' in await browser.text(path)


async def test_an_error_of_all_attempts_is_shown_once(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("x", name="tried")
    path = f"/ui/requests/{request['uuid']}"
    status = {"failure": "node", "error": "the disk of n1 is broken"}
    attempts = 0
    while request["state"] != "Final":
        container = f"containers/{request['container_uuid']}"
        token = await world.lock(request["container_uuid"])
        for change in ({"state": "Running"}, {"state": "Cancelled", "runtime_status": status}):
            await world.ok("PUT", container, change, token=token)
        attempts += 1
        words = await browser.words(path)
        assert words.count("the disk of n1 is broken") == 1
        request = await world.ok("GET", f"container_requests/{request['uuid']}")
    assert attempts > 2
    assert f"the disk of n1 is broken ({attempts} attempts)" in words
    assert words.count("failed (node), the same error") == 2 * attempts - 1


async def test_owner_inputs_and_output_lead_to_their_pages(
    here: PageSite, browser: Browser
) -> None:
    world = here.world
    group = {"group_class": "project", "name": "thesis"}
    project = (await world.ok("POST", "groups", group))["uuid"]
    data = (await world.collection({"a": b"1"}))["portable_data_hash"]
    first = await world.submit("true", "first")
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": data},
        "/before": {"kind": "output", "container_request": first["uuid"], "path": "a"},
        "/out": {"kind": "tmp", "capacity": 1 << 20},
    }
    path = await _page(here, "cat", owner_uuid=project, mounts=mounts)
    text = await browser.text(path)
    assert f'<a href="/ui/projects/{project}">thesis</a>' in text
    assert f'<a href="/ui/collections/{data}">{data}</a>' in text
    assert f'<a href="/ui/requests/{first["uuid"]}">{first["uuid"]}/a</a>' in text
    await world.run(first["container_uuid"])
    output = (await world.ok("GET", f"container_requests/{first['uuid']}"))["output_uuid"]
    assert f'href="/ui/collections/{output}"' in await browser.text(f"/ui/requests/{first['uuid']}")
