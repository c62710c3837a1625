"""Page of quotas."""

from __future__ import annotations

from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>"


async def test_an_admin_sets_changes_and_removes_limits(here: PageSite, browser: Browser) -> None:
    await here.world.user("jane")
    assert "None." in await browser.words("/ui/quotas")
    assert "Quotas" in await browser.words("/ui/admin")
    given = {"kind": "user", "subject": "jane", "containers": "4", "ram": "8GiB",
             "money": "20/week", "contact": EVIL}  # fmt: skip
    answer = await browser.post("/ui/quotas", given)
    assert answer.headers["location"] == "/ui/quotas"
    words, text = await browser.words("/ui/quotas"), await browser.text("/ui/quotas")
    for part in ("jane user containers 0 4", "RAM 0 bytes 8.0 GiB", "money a week $0.00 $20.00"):
        assert part in words
    assert EVIL not in text
    given = {"kind": "user", "subject": "jane@example.org", "ram": "none", "stop": "yes"}
    await browser.post("/ui/quotas", given)
    assert "RAM 0 bytes" not in await browser.words("/ui/quotas")
    (found,) = (await here.world.ok("GET", "quotas"))["items"]
    assert (found["stop"], found["containers"], found["ram"]) == (True, 4, None)
    await browser.post(f"/ui/quotas/{found['uuid']}/remove", {})
    assert "None." in await browser.words("/ui/quotas")


async def test_others_see_theirs_and_set_none(here: PageSite, browser: Browser) -> None:
    for name, number in (("jane", "3"), ("joe", "5")):
        await here.world.user(name)
        given = {"kind": "user", "subject": name, "vcpus": number}
        await browser.post("/ui/quotas", given)
    jane = await here.logged_in(await here.world.user("jane"))
    words = await jane.words("/ui/quotas")
    assert "jane user VCPUs 0 3" in words
    assert "joe" not in words
    assert "Set limits" not in words
    answer = await jane.post("/ui/quotas", {"kind": "user", "subject": "jane", "vcpus": "9"})
    assert answer.status == 403
    # What somebody else has is not there for her; her own limits are for admins to change.
    for name, status in (("joe", 404), ("jane", 403)):
        filters = {"filters": [["name", "=", name]]}
        (found,) = (await here.world.ok("GET", "quotas", params=filters))["items"]
        assert (await jane.post(f"/ui/quotas/{found['uuid']}/remove", {})).status == status


async def test_mistakes(here: PageSite, browser: Browser) -> None:
    for owner in (await here.world.user("ada"), await here.world.user("ben")):
        project = {"group_class": "project", "name": "lab"}
        await here.world.ok("POST", "groups", project, token=owner)
    for given, status in (
        ({"kind": "user", "subject": "nobody", "vcpus": "1"}, 404),
        ({"kind": "project", "subject": "lab", "vcpus": "1"}, 422),
        ({"kind": "role", "subject": "lab", "vcpus": "1"}, 404),
        ({"kind": "planet", "subject": "lab"}, 422),
        ({"kind": "request", "subject": "last", "vcpus": "1"}, 422),
        ({"kind": "user", "subject": "nobody", "vcpus": "many"}, 422),
    ):
        assert (await browser.post("/ui/quotas", given)).status == status
    assert (await browser.post("/ui/quotas/x/remove", {})).status == 404
    await here.world.user("jane")
    assert (await browser.post("/ui/quotas", {"kind": "user", "subject": "jane"})).status == 422
