"""Reading of log files that are longer than what is read at a time."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite
from tests.web.requests.test_log import STAMP


async def _logged(here: PageSite, **files: bytes) -> str:
    request = await here.world.submit("x")
    log = await here.files.collection({f"{name}.txt": data for name, data in files.items()})
    await here.world.run(request["container_uuid"], log=await here.files.pdh(log))
    return f"/ui/requests/{request['uuid']}/log"


async def test_a_line_without_end_does_not_fill_the_memory(
    here: PageSite, browser: Browser
) -> None:
    path = await _logged(here, stdout=STAMP + b"x" * 700_000 + b"\n" + STAMP + b"needle\n")
    assert "needle" in await browser.text(path)
    text = await browser.text(f"{path}?q=needle")
    assert "1 line with" in text
    answer = await browser.get(f"{path}/download?file=stdout.txt&q=needle")
    assert answer.body == STAMP + b"needle\n"


async def test_hits_of_several_files_are_in_order(here: PageSite, browser: Browser) -> None:
    first, later = (b"2026-01-02T03:04:0%dZ hit\n" % one for one in (1, 2))
    path = await _logged(here, stdout=later, stderr=first)
    words = await browser.words(f"{path}?q=hit")
    assert words.index("03:04:01") < words.index("03:04:02")


async def test_a_last_line_without_a_line_break(here: PageSite, browser: Browser) -> None:
    path = await _logged(here, stdout=STAMP + b"one\n" + STAMP + b"two")
    assert "two" in await browser.text(f"{path}?after=stdout.txt:0")
    assert "1 line with" in await browser.text(f"{path}?q=two")
