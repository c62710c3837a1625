"""Previews of files, whose names and contents are written by strangers."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from lading.client.transport import Response
from lading.web.previews import is_text, picture_type, read_table
from tests.web.browsing import Browser, PageSite

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SCRIPT = b"<script>alert(1)</script>"
PDF = b"%PDF-1.4\n" + SCRIPT


async def _files(here: PageSite, **files: bytes) -> str:
    """The address of a collection with these files; `_` in a name stands for a dot."""
    made = {name.replace("_", "."): data for name, data in files.items()}
    return f"/ui/collections/{await here.files.collection(made)}"


async def _raw(browser: Browser, place: str, name: str, more: str = "") -> Response:
    return await browser.get(f"{place}/raw?path={quote(name)}{more}")


async def test_text_is_escaped_and_bounded(here: PageSite, browser: Browser) -> None:
    place = await _files(here, a_txt=SCRIPT + b"\xe2\x80\xae\n", b_log=b"x" * (300 << 10), c_md=b"")
    text = await browser.text(f"{place}/show?path=a.txt")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text
    assert "<script>alert" not in text
    assert "The beginning of 300.0 KiB" in await browser.words(f"{place}/show?path=b.log")
    assert "This file is empty." in await browser.words(f"{place}/show?path=c.md")


async def test_a_table_and_its_text(here: PageSite, browser: Browser) -> None:
    rows = b'name,what\n"a, b",<b>1</b>\nshort\n' + b"x,y\n" * 300
    place = await _files(here, t_csv=rows, u_tsv=b"a\tb\n1\t2\n")
    text = await browser.text(f"{place}/show?path=t.csv")
    assert '<th scope="col">name</th><th scope="col">what</th>' in text
    assert "<td>a, b</td><td>&lt;b&gt;1&lt;/b&gt;</td>" in text
    assert "at most 200 rows" in text
    assert text.count("<tr><td>") == 199
    assert "&#34;a, b&#34;" in await browser.text(f"{place}/show?path=t.csv&as=text")
    assert "<td>1</td><td>2</td>" in await browser.text(f"{place}/show?path=u.tsv")


async def test_a_picture_is_known_by_its_bytes(here: PageSite, browser: Browser) -> None:
    place = await _files(here, a_png=PNG, b_png=SCRIPT, c_txt=PNG)
    assert 'class="picture" src="' in await browser.text(f"{place}/show?path=a.png")
    answer = await _raw(browser, place, "a.png")
    assert (answer.headers["content-type"], answer.body) == ("image/png", PNG)
    assert "sandbox" in answer.headers["content-security-policy"]
    # What is no picture is not sent, whatever its name says.
    assert (await _raw(browser, place, "b.png")).status == 422
    assert "<pre" in await browser.text(f"{place}/show?path=b.png")
    assert (await _raw(browser, place, "c.txt")).headers["content-type"] == "image/png"


async def test_a_document_is_for_frames_of_the_page(here: PageSite, browser: Browser) -> None:
    place = await _files(here, Rplots_pdf=PDF, b_pdf=SCRIPT, c_txt=PDF)
    answer = await browser.get(f"{place}/show?path=Rplots.pdf")
    assert "frame-src 'self'" in answer.headers["content-security-policy"]
    assert f'<iframe class="preview" src="{place}/raw?path=Rplots.pdf"' in answer.body.decode()
    for name in ("Rplots.pdf", "c.txt"):
        path = f"{place}/raw?path={name}"
        shown = await browser.get(path, sec_fetch_site="same-origin", sec_fetch_dest="iframe")
        assert (shown.status, shown.headers["content-type"]) == (200, "application/pdf")
        assert shown.body == PDF
        policy = shown.headers["content-security-policy"].split("; ")
        assert policy[:2] == ["default-src 'none'", "sandbox"]
        assert "frame-ancestors 'self'" in policy
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert shown.headers["cache-control"] == "no-store"
    # Neither as a window of this address, nor for a frame of another site.
    path = f"{place}/raw?path=Rplots.pdf"
    for site in ("none", "same-origin", "same-site", "cross-site", ""):
        for target in ("document", "iframe", "embed", "empty", ""):
            if (site, target) not in (("same-origin", "iframe"), ("same-origin", "embed")):
                answer = await browser.get(path, sec_fetch_site=site, sec_fetch_dest=target)
                assert answer.status == 422, (site, target)
                assert b"download it instead" in answer.body
    # What is no document is not sent as one.
    answer = await _raw(browser, place, "b.pdf")
    assert answer.status == 422
    assert "<pre" in await browser.text(f"{place}/show?path=b.pdf")


@pytest.mark.parametrize("name", ["r.html", "r.svg", "R.HTM"])
async def test_html_has_no_origin(here: PageSite, browser: Browser, name: str) -> None:
    place = await _files(here, **{name.replace(".", "_"): SCRIPT})
    answer = await browser.get(f"{place}/show?path={name}")
    text = answer.body.decode()
    assert 'sandbox=""' in text
    assert "frame-src 'self'" in answer.headers["content-security-policy"]
    policy = (await _raw(browser, place, name)).headers["content-security-policy"].split("; ")
    assert policy[:2] == ["sandbox", "default-src 'none'"]
    assert not any(one.startswith("script-src") for one in policy)
    # With scripts it still has neither origin nor network.
    assert 'sandbox="allow-scripts"' in await browser.text(f"{place}/show?path={name}&scripts=1")
    answer = await _raw(browser, place, name, "&scripts=1")
    policy = answer.headers["content-security-policy"].split("; ")
    assert policy[:3] == [
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
    ]
    assert not any(one.startswith("connect-src") for one in policy)


async def test_what_has_no_preview(here: PageSite, browser: Browser) -> None:
    place = await _files(here, a_bin=b"\0\1\2", b_html=b"x" * ((16 << 20) + 1))
    assert "no preview" in await browser.words(f"{place}/show?path=a.bin")
    assert "too large for a preview" in await browser.words(f"{place}/show?path=b.html")
    assert (await _raw(browser, place, "a.bin")).status == 422
    assert (await _raw(browser, place, "b.html")).status == 413
    for wrong in ("", "none.txt", "../x", "a.bin/x"):
        assert (await browser.get(f"{place}/show?path={quote(wrong)}")).status in (400, 404)
        assert (await _raw(browser, place, wrong)).status in (400, 404)


async def test_hostile_names(here: PageSite, browser: Browser) -> None:
    name = '<b>" onload="alert(1)\u202e\'{{7*7}}.txt'
    uuid = await here.files.collection({f"dir&x=1/{name}": b"text"})
    request = await here.world.submit("x")
    await here.world.run(request["container_uuid"], output=await here.files.pdh(uuid))
    for place in (f"/ui/collections/{uuid}", f"/ui/requests/{request['uuid']}/files"):
        for view in (f"{place}?path=dir%26x%3D1", f"{place}/show?path={quote(f'dir&x=1/{name}')}"):
            text = await browser.text(view)
            assert "<b>" not in text
            assert 'onload="' not in text
            assert "\u202e" not in text
        assert ">text</pre>" in text


def test_tables_of_any_bytes() -> None:
    assert read_table(b"", ",", is_cut=False) == ((), False)
    assert read_table(b"a,b\nc", ",", is_cut=True) == ((("a", "b"),), True)
    assert read_table(b",".join([b"x"] * 80), ",", is_cut=False)[1]
    assert read_table(b'"' + b"x" * 200_000, ",", is_cut=False)[1]


def test_kinds() -> None:
    assert picture_type(b"RIFF1234WEBPVP8 ") == "image/webp"
    assert picture_type(b"GIF89a") == "image/gif"
    assert is_text("é".encode() * 5000)
    assert not is_text(bytes(range(128, 256)))
