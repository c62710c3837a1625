"""Columns of the list of requests that its reader chooses, and its rows by run."""

from __future__ import annotations

import re

from lading.testing.world import WITH_API
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

EVERY = "cols=user,project,image,cpus,memory"


def _link(text: str, label: str) -> str:
    """The address of a link with this text."""
    match = re.search(rf'<a [^>]*href="([^"]*)"[^>]*>{label}</a>', text)
    assert match is not None
    return match[1].replace("&amp;", "&")


async def test_columns_are_in_the_address(here: PageSite, browser: Browser) -> None:
    lab = await here.world.ok("POST", "groups", {"name": "lab", "group_class": "project"})
    needs = {"vcpus": 2, "ram": 512 << 20}
    request = await here.world.submit(
        "x", name="aligns", owner_uuid=lab["uuid"], runtime_constraints=needs
    )
    await here.world.run(request["container_uuid"], usage={"memory": 300 << 20})
    plain = await browser.words("/ui/requests")
    assert "512.0 MiB" not in plain
    text = await browser.text(f"/ui/requests?{EVERY}")
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert heads[-5:] == ["User", "Project", "Image", "CPUs", "Memory"]
    words = await browser.words(f"/ui/requests?{EVERY}")
    image = request["container_image"]
    assert f"lab {image[:12]} 2 512.0 MiB used 300.0 MiB" in words
    collections = await here.world.ok(
        "GET", "collections", params={"filters": [["portable_data_hash", "=", image]]}
    )
    link = {"link_class": "docker_image_repo+tag", "head_uuid": collections["items"][0]["uuid"]}
    await here.world.ok("POST", "links", {**link, "name": "tools:1"})
    assert "lab tools:1 2 512.0 MiB" in await browser.words(f"/ui/requests?{EVERY}")
    assert f'<a href="/ui/projects/{lab["uuid"]}">lab</a>' in text
    # As the form sends them; all that leads on keeps them.
    text = await browser.text("/ui/requests?col=memory&col=user&col=odd&q=al")
    assert "cols=user%2Cmemory" in _link(text, "failed")
    assert 'name="cols" value="user,memory"' in text
    assert text.count(" checked>") == 2


async def test_rows_keep_their_columns(here: PageSite, browser: Browser) -> None:
    await here.world.submit("x", name="aligns")
    text = await browser.text(f"/ui/requests?{EVERY}&by=run")
    match = re.search(r'id="rows" hx-get="([^"]*)"', text)
    assert match is not None
    rows = await browser.text(match[1].replace("&amp;", "&"))
    assert rows.count('class="c-extra"') == 5
    assert "Of no run" in rows
    assert 'data-label="Memory"' in rows


async def test_a_home_and_a_draft(here: PageSite, browser: Browser) -> None:
    me = await here.world.ok("GET", "users/current")
    await here.world.submit("x", name="a draft", state="Uncommitted")
    words = await browser.words("/ui/requests?cols=user,project")
    assert f"{me['username']} Home of {me['username']}" in words


async def test_rows_by_run(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "cohort-7")
    await submit_step(here, run, "align", "1")
    single = await here.world.submit("alone", name="alone")
    await submit_step(here, run, "align", "2")
    words = await browser.words("/ui/requests?by=run")
    assert re.search(r"Run cohort-7 2 here .*align_2 .*align_1 .*Of no run 1 here .*alone", words)
    text = await browser.text("/ui/requests?by=run")
    assert f'<a href="/ui/runs/{run["uuid"]}">cohort-7</a>' in text
    assert text.index(f'id="row-{single["uuid"]}"') > text.index("Of no run")
    assert "Of no run" not in await browser.text("/ui/requests")


async def test_steps_of_a_workflow(here: PageSite, browser: Browser) -> None:
    runner = await here.world.submit(
        "arvados-cwl-runner", name="flow", runtime_constraints=WITH_API
    )
    token = await here.world.lock(runner["container_uuid"])
    container = f"containers/{runner['container_uuid']}"
    await here.world.ok("PUT", container, {"state": "Running"}, token=token)
    own = await here.world.container_token(runner["container_uuid"])
    await here.world.submit("step", name="a step", token=own)
    text = await browser.text("/ui/requests?by=run")
    assert f'Run <a href="/ui/runs/{runner["uuid"]}">flow</a>' in text


async def test_nothing_of_a_stranger_is_markup(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "<b>bold<i>")
    await submit_step(here, run, "align", "1")
    text = await browser.text(f"/ui/requests?{EVERY}&by=run")
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold" in text


async def test_gpus_that_were_asked_for_and_used(here: PageSite, browser: Browser) -> None:
    gpu = {"stack": "cuda", "device_count": 2, "driver_version": "0.0", "hardware_target": ["8.0"]}
    needs = {"vcpus": 1, "ram": 64 << 20, "gpu": gpu}
    request = await here.world.submit("x", name="trains", runtime_constraints=needs)
    usage = {"gpu": 1.5, "gpu_memory": 3 << 30}
    await here.world.run(request["container_uuid"], usage=usage)
    words = await browser.words("/ui/requests?cols=gpus")
    assert "2 GPUs (8.0) used 1.5 in use, 3.0 GiB" in words
