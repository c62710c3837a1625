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


def _link(page: str, part: str) -> str:
    """The first address in a page that has this part."""
    found = re.search(rf'href="([^"]*{part}[^"]*)"', page)
    assert found, part
    return found[1].replace("&amp;", "&")


def _texts(page: str) -> list[str]:
    return re.findall(r'<span class="text">([^<]*)</span>', page)


async def test_the_end_comes_first(here: PageSite, browser: Browser) -> None:
    lines = [b"%sline %d\n" % (STAMP, number) for number in range(1200)]
    path = await _logged(here, stdout=b"".join(lines), stderr=b"")
    text = await browser.text(path)
    assert _texts(text) == [f"line {number}" for number in range(700, 1200)]
    assert ">03:04:05</time>" in text
    found = re.search(r'href="([^"]*before=[^"]+)"', text)
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
    assert _texts(text) == ["out", "err"]
    # Without the standard output there is the other file, and the whole of it can be saved.
    alone = await browser.text(_link(text, r"\?c=[^&]*&amp;file=stderr\.txt"))
    assert _texts(alone) == ["err"]
    answer = await browser.get(_link(alone, "download"))
    assert answer.body == b"err\n"
    assert answer.headers["content-disposition"].startswith("attachment")


async def test_a_log_that_grows(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("x")
    container = request["container_uuid"]
    token = await world.lock(container)
    await world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=token)
    path = f"/ui/requests/{request['uuid']}/log"
    assert "log/follow" in await browser.text(path)
    begun = STAMP + b"one\n" + STAMP + b"tw"
    await _append(here, container, token, "stdout", 0, begun)
    # The page that had no log is loaded anew.
    assert (await browser.get(f"{path}/follow")).headers["hx-refresh"] == "true"
    assert _texts(await browser.text(path)) == ["one"]
    more = f"{path}/follow?c={container}&file=stdout.txt&after=stdout.txt:{len(STAMP) + 4}"
    assert (await browser.get(more)).status == 204
    await _append(here, container, token, "stdout", len(begun), b"o\n")
    assert _texts(await browser.text(more)) == ["two"]
    end = more.replace("txt:35", f"txt:{len(begun) + 2}")
    log = await here.files.collection({"stdout.txt": begun + b"o\n"})
    await world.finish(container, token, log=await here.files.pdh(log))
    assert (await browser.get(end)).status == 286


async def test_a_file_that_comes_later_is_shown(here: PageSite, browser: Browser) -> None:
    world = here.world
    request = await world.submit("x")
    container = request["container_uuid"]
    token = await world.lock(container)
    await world.ok("PUT", f"containers/{container}", {"state": "Running"}, token=token)
    await _append(here, container, token, "crunch-run", 0, STAMP + b"starting\n")
    path = f"/ui/requests/{request['uuid']}/log"
    found = re.search(r'hx-get="([^"]*/follow[^"]*)"', await browser.text(path))
    assert found
    follow = found[1].replace("&amp;", "&")
    assert (await browser.get(follow)).status == 204
    await _append(here, container, token, "stdout", 0, STAMP + b"tick\n")
    assert (await browser.get(follow)).headers["hx-refresh"] == "true"
    assert "tick" in _texts(await browser.text(path))
    # A file that somebody has chosen stays alone.
    chosen = follow.replace("default=1", "")
    assert "hx-refresh" not in (await browser.get(chosen)).headers


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
    assert (await browser.get(f"{path}?at=x")).status == 422
    assert (await browser.get(f"{path}?before=stdout.txt:0")).status == 200
    assert (await browser.get(f"{path}?file=none")).status == 404


async def test_what_was_used_is_told(here: PageSite, browser: Browser) -> None:
    log = STAMP + b"Maximum container memory rss usage was 5 bytes\n" + STAMP + b"unrelated\n"
    log += STAMP + b"Maximum disk usage was 25%, 1073741824/4294967296 bytes\n"
    log += STAMP + b"Total CPU usage was 1.250000 user and 0.500000 sys on 1.00 CPUs\n"
    path = await _logged(here, **{"crunch-run": log})
    words = await browser.words(path.removesuffix("/log"))
    assert "Maximum container memory rss usage was 5 B" in words
    assert "Maximum disk usage was 25%, 1.0 GiB of 4.0 GiB" in words
    assert "Total CPU usage was 1.2 s user and 0.50 s sys on 1.00 CPUs" in words
    assert "unrelated" not in words


async def test_files_are_one_log_in_order_of_time(here: PageSite, browser: Browser) -> None:
    def lines(*seconds: int) -> bytes:
        return b"".join(b"2026-01-02T03:04:%02d.5Z at %d\n" % (one, one) for one in seconds)

    path = await _logged(here, stdout=lines(1, 4, 5) + b"no stamp\n", stderr=lines(2, 3, 6))
    text = await browser.text(path)
    assert _texts(text) == ["at 1", "at 2", "at 3", "at 4", "at 5", "no stamp", "at 6"]
    assert text.count('<span class="source">stderr</span>') == 3
    answer = await browser.get(_link(text, "download"))
    assert answer.body.splitlines()[:2] == [
        b"stdout.txt\t2026-01-02T03:04:01.5Z at 1",
        b"stderr.txt\t2026-01-02T03:04:02.5Z at 2",
    ]
    # What the filter shows, and the whole.
    found = await browser.text(f"{path}?q=AT+6")
    answer = await browser.get(_link(found, "download"))
    assert answer.body == b"stderr.txt\t2026-01-02T03:04:06.5Z at 6\n"
    assert len((await browser.get(_link(found, "download[^q]*"))).body.splitlines()) >= 1


async def test_earlier_lines_of_two_files_leave_no_gap(here: PageSite, browser: Browser) -> None:
    def lines(name: bytes, step: int) -> bytes:
        moments = (number * step for number in range(3000 // step))
        return b"".join(
            b"2026-01-02T03:%02d:%02d.0Z %s%s %d\n"
            % (at // 60, at % 60, name, b"." * 400 * (step - 1), at)
            for at in moments
        )

    path = await _logged(here, stdout=lines(b"a", 1), stderr=lines(b"b", 3))
    seen: list[str] = []
    text = await browser.text(path)
    while True:
        seen = _texts(text) + seen
        more = re.search(r'<p id="earlier"><a class="button" href="([^"]*)"', text)
        if more is None:
            break
        text = await browser.text(more[1].replace("&amp;", "&"))
    moments = [int(one.rpartition(" ")[2]) for one in seen]
    assert moments == sorted(moments)
    assert len(seen) == len(set(seen)) == 4000
    # From the beginning it is the same.
    text = await browser.text(f"{path}?after=stdout.txt:0")
    forth = _texts(text)
    while 'id="later" hidden' not in text and "Later lines" in text:
        text = await browser.text(_link(text, "after=stdout"))
        forth += _texts(text)
    assert forth == seen


async def test_earlier_lines_are_a_part_of_a_page(here: PageSite, browser: Browser) -> None:
    lines = [b"%sline %d\n" % (STAMP, number) for number in range(1200)]
    path = await _logged(here, stdout=b"".join(lines))
    found = re.search(r'data-before="([^"]*)"', await browser.text(path))
    assert found
    text = await browser.text(f"{path}/earlier?before={found[1]}")
    assert _texts(text) == [f"line {number}" for number in range(200, 700)]
    assert "<html" not in text
    assert 'id="more"' not in text
