"""Pages of admins: health, users and their roles."""

from __future__ import annotations

from typing import Any

import pytest

from lading.api.server.blocks import STORAGE
from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>"
VOLUMES = {
    "volumes": [
        {"uuid": "zzzzz-nyw5e-000000000000000", "driver": "Directory", "read_only": True,
         "storage_classes": {"default": True}, "faults": 2, "last_fault": EVIL, "total": 1 << 40,
         "free": 1 << 30}
    ],
    "scrub": {"began": 1767000000.0, "ended": 0.0, "blocks": 7, "bytes": 7 << 20,
              "damaged": [{"hash": "x"}], "failures": [EVIL], "period": 86400.0},
    "balance": {"at": 0.0, "blocks": 0, "bytes": 0, "named": 0, "lost": None, "lacking": 3,
                "failures": None, "period": 0.0},
}  # fmt: skip


async def _user(here: PageSite, name: str) -> str:
    token = await here.world.user(name)
    return str((await here.world.ok("GET", "users/current", token=token))["uuid"])


async def test_health_and_storage(here: PageSite, browser: Browser) -> None:
    assert "This server knows of no volumes." in await browser.words("/ui/admin")

    async def look() -> dict[str, Any]:
        return VOLUMES

    here.world.app.services.features[STORAGE] = look
    words, text = await browser.words("/ui/admin"), await browser.text("/ui/admin")
    for part in ("✗ storage: fault", "✓ database: well", "read only", "1.0 GiB 1.0 TiB 2",
                 "is under way", "7 blocks", "none yet", "BalancePeriod is 0"):  # fmt: skip
        assert part in words
    assert EVIL not in text


async def test_pages_of_admins_are_for_admins(here: PageSite) -> None:
    uuid = await _user(here, "jane")
    jane = await here.logged_in(await here.world.user("jane"))
    assert "/ui/admin" not in await jane.text("/ui/tokens")
    for path in ("/ui/admin", "/ui/admin/users"):
        assert (await jane.get(path)).status == 403
    assert (await jane.get(f"/ui/admin/users/{uuid}")).status == 404
    for change in ("make-admin", "deactivate"):
        answer = await jane.post(f"/ui/admin/users/{here.world.admin[3:30]}", {"change": change})
        assert answer.status in (403, 404)
    assert (await jane.post("/ui/admin/users", {"username": "x"})).status == 403


async def test_users_are_found(here: PageSite, browser: Browser) -> None:
    uuid = await _user(here, "jane")
    await _user(here, "joe")
    await here.world.ok("PUT", f"users/{uuid}", {"is_active": False, "first_name": EVIL})
    words = await browser.words("/ui/admin/users?state=inactive")
    assert "jane" in words
    assert "joe" not in words
    assert "joe" in await browser.words("/ui/admin/users?q=JO")
    assert "joe" in await browser.words("/ui/admin/users?q=joe@")
    assert EVIL not in await browser.text("/ui/admin/users")
    assert "None matches." in await browser.words("/ui/admin/users?q=nobody")


async def test_a_user_is_activated_and_made_an_admin(here: PageSite, browser: Browser) -> None:
    uuid = await _user(here, "jane")
    place = f"/ui/admin/users/{uuid}"
    for change, shown in (
        ("deactivate", "inactive"),
        ("activate", "active"),
        ("make-admin", "admin Name"),
        ("unmake-admin", "active Name"),
    ):
        answer = await browser.post(place, {"change": change})
        assert answer.headers["location"] == place
        assert shown in await browser.words(place)
    assert (await browser.post(place, {"change": "burn"})).status == 422


async def test_nobody_shuts_themselves_out(here: PageSite, browser: Browser) -> None:
    me = (await here.world.ok("GET", "users/current"))["uuid"]
    answer = await browser.post(f"/ui/admin/users/{me}", {"change": "deactivate"})
    assert answer.status == 422
    assert "another admin" in await browser.words(f"/ui/admin/users/{me}")


@pytest.mark.parametrize("last", ["anonymouspublic", "000000000000000"])
async def test_users_of_the_system_stay_as_they_are(
    here: PageSite, browser: Browser, last: str
) -> None:
    place = f"/ui/admin/users/{here.world.cluster}-tpzed-{last}"
    assert (await browser.post(place, {"change": "make-admin"})).status == 422
    text = await browser.text(place)
    assert "a user of the system" in text
    assert "Make an admin" not in text


async def test_roles_of_a_user(here: PageSite, browser: Browser) -> None:
    uuid = await _user(here, "jane")
    role = await here.world.ok("POST", "groups", {"name": "lab", "group_class": "role"})
    place = f"/ui/admin/users/{uuid}"
    assert (await browser.post(f"{place}/join", {"role": "lab"})).status == 303
    assert "Remove from lab" in await browser.text(place)
    assert (await browser.post(f"{place}/leave", {"role": role["uuid"]})).status == 303
    assert "Remove from lab" not in await browser.text(place)
    assert (await browser.post(f"{place}/leave", {"role": role["uuid"]})).status == 404


@pytest.mark.parametrize(("role", "status"), [("", 422), ("nothing", 404), ("jane", 422)])
async def test_what_is_no_role(here: PageSite, browser: Browser, role: str, status: int) -> None:
    uuid = await _user(here, "jane")
    assert (await browser.post(f"/ui/admin/users/{uuid}/join", {"role": role})).status == status


async def test_a_user_is_made(here: PageSite, browser: Browser) -> None:
    answer = await browser.post("/ui/admin/users", {"username": "new", "email": ""})
    assert "new" in await browser.words(answer.headers["location"])
    assert (await browser.post("/ui/admin/users", {"username": " "})).status == 422
    assert (await browser.get("/ui/admin/users/x")).status == 404
