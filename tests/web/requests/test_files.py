"""Output files."""

from __future__ import annotations

from urllib.parse import quote

from tests.web.browsing import Browser, PageSite

NAMES = ("a.txt", "sub/page.html", 'sub/q"uo\u202ete.txt', "t=x", "<img src=x>.svg")


async def _finished(here: PageSite) -> str:
    world = here.world
    request = await world.submit("x")
    pdh = await here.files.pdh(await here.files.collection({name: name.encode() for name in NAMES}))
    await world.run(request["container_uuid"], output=pdh)
    return f"/ui/requests/{request['uuid']}/files"


async def test_directories_come_first(here: PageSite, browser: Browser) -> None:
    path = await _finished(here)
    text = await browser.text(path)
    assert text.index(">sub/<") < text.index(">a.txt<")
    assert "<img" not in text
    inner = await browser.text(f"{path}?path=sub")
    assert "page.html" in inner
    assert "\u202e" not in inner
    assert (await browser.get(f"{path}?path=none")).status == 404
    assert (await browser.get(f"{path}?path=a.txt")).status == 404


async def test_files_are_saved_and_never_shown(here: PageSite, browser: Browser) -> None:
    path = await _finished(here)
    for name in NAMES:
        answer = await browser.get(f"{path}/download?path={quote(name, safe='')}")
        assert (answer.status, answer.body) == (200, name.encode())
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith('attachment; filename="')
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["content-disposition"].isascii()


async def test_files_that_are_not_there(here: PageSite, browser: Browser) -> None:
    path = await _finished(here)
    for name in ("", "none", "..", "sub/../../x", "sub"):
        status = (await browser.get(f"{path}/download?path={name}")).status
        assert status in (400, 404) or name == "sub"


async def test_a_request_without_an_output(here: PageSite, browser: Browser) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    assert (await browser.get(f"/ui/requests/{uuid}/files")).status == 404
    assert (await browser.get(f"/ui/requests/{uuid}/files/download?path=x")).status == 404


async def test_a_request_without_a_name_is_called_by_its_command(
    here: PageSite, browser: Browser
) -> None:
    uuid = (await here.world.submit("x"))["uuid"]
    pages = [await browser.text(f"/ui/requests/{uuid}{one}") for one in ("", "/log", "/usage")]
    [name] = {text.partition("<h1>")[2].partition("</h1>")[0] for text in pages}
    assert name
    assert uuid not in name
    assert f"Access to {name}" in await browser.text(f"/ui/access/{uuid}")
