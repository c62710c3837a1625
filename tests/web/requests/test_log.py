"""Logs."""

from __future__ import annotations

import re

from tests.web.browsing import Browser, PageSite

STAMP = b"2026-01-02T03:04:05.000000000Z "


async def _logged(here: PageSite, **files: bytes) -> str:
    """The address of the log of a request that has ended with these log files."""
    world = here.world
    request = await world.submit("x", name="logs")
    token = await world.lock(request["container_uuid"])
    uuid = await here.files.collection({f"{name}.txt": data for name, data in files.items()})
    await world.finish(request["container_uuid"], token, log=await here.files.pdh(uuid))
    return f"/ui/requests/{request['uuid']}/log"


async def _append(
    here: PageSite, container: str, token: str, name: str, at: int, data: bytes
) -> None:
    answer = await here.world.request(
        "POST",
        f"containers/{container}/live/{name}.txt",
        raw=data,
        params={"offset": at},
        token=token,
    )
    assert answer.status == 200, answer.body


def _texts(page: str) -> list[str]:
    return re.findall(r'<span class="text">([^<]*)</span>', page)


async def test_the_end_comes_first(here: PageSite, browser: Browser) -> None:
    lines = [b"%sline %d\n" % (STAMP, number) for number in range(1200)]
    path = await _logged(here, stdout=b"".join(lines), stderr=b"")
    text = await browser.text(path)
    assert _texts(text) == [f"line {number}" for number in range(700, 1200)]
    assert ">03:04:05</time>" in text
    found = re.search(r'href="([^"]*before=\d+)"', text)
    assert found
    earlier = await browser.text(found[1].replace("&amp;", "&"))
    assert _texts(earlier) == [f"line {number}" for number in range(200, 700)]


async def test_lines_are_harmless(here: PageSite, browser: Browser) -> None:
    path = await _logged(
        here,
        stdout=STAMP + b"\x1b[31m<b>red</b>\x1b[0m 1%\r50%\x07\xff\n" + STAMP + b"\x1b]0;t\x07x",
    )
    assert _texts(await browser.text(path)) == ["50%\\x07\ufffd", "x"]


async def test_a_search_shows_lines_that_lead_to_their_place(
    here: PageSite, browser: Browser
) -> None:
    lines = [b"%sline %d\n" % (STAMP, number) for number in range(30_000)]
    path = await _logged(here, stdout=b"".join(lines))
    text = await browser.text(f"{path}?q=LINE+150")
    assert "111 lines with" in text
    found = re.search(r'href="([^"]*at=\d+)#hit">line 15000<', text)
    assert found
    there = await browser.text(found[1].replace("&amp;", "&"))
    assert 'id="hit"><time datetime="2026-01-02T03:04:05Z">03:04:05</time>' in there
    assert len(_texts(there)) == 500
    assert "0 lines with" in await browser.text(f"{path}?q=nothing+of+the+kind")


async def test_other_files_and_downloads(here: PageSite, browser: Browser) -> None:
    path = await _logged(here, stdout=b"out\n", stderr=b"err\n")
    text = await browser.text(path)
    link = re.search(r'href="([^"]*file=stderr.txt)"', text)
    assert link
    assert _texts(await browser.text(link[1].replace("&amp;", "&"))) == ["err"]
    found = re.search(r'href="([^"]*/download[^"]*)"', text)
    assert found
    answer = await browser.get(found[1].replace("&amp;", "&"))
    assert answer.body == b"out\n"
    assert answer.headers["content-disposition"].startswith("attachment")


async def test_a_log_that_grows(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("x")
    container = request["container_uuid"]
    token = await world.lock(container)
    await world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=token)
    begun = STAMP + b"one\n" + STAMP + b"tw"
    await _append(here, container, token, "stdout", 0, begun)
    path = f"/ui/requests/{request['uuid']}/log"
    assert _texts(await browser.text(path)) == ["one"]
    more = f"{path}/follow?c={container}&file=stdout.txt&after={len(STAMP) + 4}"
    assert (await browser.get(more)).status == 204
    await _append(here, container, token, "stdout", len(begun), b"o\n")
    assert _texts(await browser.text(more)) == ["two"]
    end = more.replace("after=35", f"after={len(begun) + 2}")
    await world.finish(container, token)
    assert (await browser.get(end.replace("stdout", "crunch-run"))).status == 286


async def test_there_may_be_no_log(here: PageSite, browser: Browser) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    path = f"/ui/requests/{uuid}/log"
    assert "There is no log yet." in await browser.words(path)
    for query in ("c=x&file=y", "file=none", "before=x", "c=..&file=../../x"):
        assert (await browser.get(f"{path}/download?{query}")).status == 404


async def test_numbers_are_numbers(here: PageSite, browser: Browser) -> None:
    path = await _logged(here, stdout=b"out\n")
    assert (await browser.get(f"{path}?before=x")).status == 422
    assert (await browser.get(f"{path}?at=99999")).status == 200
    assert (await browser.get(f"{path}?before=0")).status == 200
    assert (await browser.get(f"{path}?file=none")).status == 404


async def test_what_was_used_is_told(here: PageSite, browser: Browser) -> None:
    log = STAMP + b"Maximum container memory rss usage was 5 bytes\n" + STAMP + b"other\n"
    path = await _logged(here, **{"crunch-run": log})
    words = await browser.words(path.removesuffix("/log"))
    assert "Maximum container memory rss usage was 5 bytes" in words
    assert "other" not in words
