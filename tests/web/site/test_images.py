"""The page with the images."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>"


async def _add(here: PageSite, digest: str, *names: str) -> str:
    """An image with links; the uuid of its collection."""
    uuid = await here.files.collection({f"sha256:{digest}.tar": b"image " + digest.encode()})
    for kind, name in (
        ("docker_image_hash", f"sha256:{digest}"),
        *(("docker_image_repo+tag", one) for one in names),
    ):
        link = {"link_class": kind, "name": name, "head_uuid": uuid}
        await here.world.ok("POST", "links", {"link": link})
    return uuid


async def test_images_with_their_names(here: PageSite, browser: Browser) -> None:
    assert "No image yet." in await browser.words("/ui/images")
    first = await _add(here, "a" * 64, "tools:1", EVIL)
    await _add(here, "b" * 64)
    text, words = await browser.text("/ui/images"), await browser.words("/ui/images")
    assert f'href="/ui/collections/{first}"' in text
    assert "tools:1" in words
    assert f"no name {'b' * 12}" in words
    assert EVIL not in text
    some = await browser.words("/ui/images?q=tools")
    assert "a" * 12 in some
    assert "b" * 12 not in some
    assert "None matches." in await browser.words("/ui/images?q=nothing")


async def test_images_of_others_are_not_shown(here: PageSite) -> None:
    await _add(here, "c" * 64, "secret:1")
    jane = await here.logged_in(await here.world.user("jane"))
    assert "secret" not in await jane.text("/ui/images")


async def test_an_own_image_gets_a_name_and_goes_to_the_trash(
    here: PageSite, browser: Browser
) -> None:
    uuid = await _add(here, "d" * 64, "tools:1")
    place = f"/ui/images/{uuid}"
    assert f'action="{place}/name"' in await browser.text("/ui/images")
    answer = await browser.post(f"{place}/name", {"name": "tools:2"})
    assert (answer.status, answer.headers["location"]) == (303, "/ui/images")
    assert "tools:1 tools:2" in await browser.words("/ui/images")
    for name in ("", EVIL, "a" * 64):
        answer = await browser.post(f"{place}/name", {"name": name})
        assert answer.status == 422
        assert b"write for example tools:1.0" in answer.body
    assert (await browser.post(f"{place}/remove")).status == 303
    assert "No image yet." in await browser.words("/ui/images")
    links = await here.world.ok("GET", "links", params={"filters": [["head_uuid", "=", uuid]]})
    assert links["items"] == []


async def test_images_of_others_are_not_changed(here: PageSite, browser: Browser) -> None:
    uuid = await _add(here, "e" * 64, "tools:1")
    jane = await here.world.user("jane")
    group = await here.world.ok("GET", "users/current", token=jane)
    link = {"link_class": "permission", "name": "can_read", "head_uuid": uuid,
            "tail_uuid": group["uuid"]}  # fmt: skip
    await here.world.ok("POST", "links", {"link": link})
    reader = await here.logged_in(jane)
    for action in ("name", "remove"):
        answer = await reader.post(f"/ui/images/{uuid}/{action}", {"name": "mine:1"})
        assert answer.status == 404
    assert "tools:1" in await browser.words("/ui/images")
