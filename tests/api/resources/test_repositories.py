"""Repositories: who may store which address."""

from __future__ import annotations

import pytest

from lading.testing.world import World

URL = "https://git.example.org/tools"


async def test_life(it: World) -> None:
    made = await it.ok(
        "POST", "repositories", {"repository": {"name": "lab/tools", "fetch_url": URL}}
    )
    path = f"repositories/{made['uuid']}"
    assert made["uuid"][6:11] == "s0uqq"
    assert (await it.ok("PUT", path, {"fetch_url": f"{URL}.git"}))["fetch_url"] == f"{URL}.git"
    assert (await it.ok("GET", "repositories", params={"filters": [["name", "=", "lab/tools"]]}))[
        "items_available"
    ] == 1
    assert (
        await it.request("POST", "repositories", {"name": "lab/tools", "fetch_url": URL})
    ).status == 422
    await it.ok("DELETE", path)
    assert (await it.request("GET", path)).status == 404


@pytest.mark.parametrize("body", [{"name": "x"}, {"fetch_url": URL},
                                  {"name": "-x", "fetch_url": URL},
                                  {"name": "x", "fetch_url": "--upload-pack=sh"}])  # fmt: skip
async def test_faults(it: World, body: dict[str, str]) -> None:
    assert (await it.request("POST", "repositories", body)).status == 422


async def test_users_store_listed_addresses_only(it: World) -> None:
    alice = await it.user("alice")
    refused = await it.request(
        "POST", "repositories", {"name": "tools", "fetch_url": URL}, token=alice
    )
    assert (refused.status, "only admins may add it" in refused.error) == (403, True)
    user = (await it.ok("GET", "users/current", token=alice))["uuid"]
    made = await it.ok(
        "POST", "repositories", {"name": "tools", "fetch_url": URL, "owner_uuid": user}
    )
    assert (await it.ok("PUT", f"repositories/{made['uuid']}", {"owner_uuid": user}, token=alice))[
        "name"
    ] == "tools"
    assert (
        await it.request(
            "PUT", f"repositories/{made['uuid']}", {"fetch_url": URL + "x"}, token=alice
        )
    ).status == 403
    await it.ok(
        "PUT",
        f"repositories/{made['uuid']}",
        {"owner_uuid": it.admin.split("/")[1].replace("gj3su", "tpzed")},
    )
