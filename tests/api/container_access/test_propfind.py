"""PROPFIND on logs, while they grow and once they are saved."""

from __future__ import annotations

from xml.etree import ElementTree

from lading.testing.world import ApiReply, World

D = "{DAV:}"


def entries(reply: ApiReply) -> dict[str, str | None]:
    """Size by address; None for directories."""
    assert reply.status == 207
    assert reply.headers["content-type"].startswith("application/xml")
    root = ElementTree.fromstring(reply.body)
    found: dict[str, str | None] = {}
    for one in root.iter(f"{D}response"):
        is_directory = one.find(f".//{D}collection") is not None
        found[one.findtext(f"{D}href") or ""] = (
            None if is_directory else one.findtext(f".//{D}getcontentlength")
        )
    return found


async def test_logs_that_grow(it: World) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    supervisor = await it.lock(uuid)
    await it.request("POST", f"containers/{uuid}/live/stdout.txt", raw=b"12345", token=supervisor)
    log = f"/arvados/v1/container_requests/{request['uuid']}/log"
    assert entries(await it.request("PROPFIND", log)) == {f"{log}/": None, f"{log}/{uuid}/": None}
    inside = entries(await it.request("PROPFIND", f"{log}/{uuid}/"))
    assert set(inside.values()) == {None, "5"}
    assert entries(await it.request("PROPFIND", f"{log}/{uuid}", headers={"depth": "0"})) == {
        f"{log}/{uuid}/": None
    }
    assert (await it.request("PROPFIND", f"{log}/{uuid}/nothing")).status == 404
    assert (await it.request("PROPFIND", log, token=await it.user("u"))).status == 404


async def test_saved_logs(it: World) -> None:
    request = await it.submit()
    uuid = request["container_uuid"]
    await it.run(uuid)
    log = f"/arvados/v1/container_requests/{request['uuid']}/log/{uuid}"
    assert entries(await it.request("PROPFIND", log)) == {
        f"{log}/": None,
        f"{log}/crunch-run.txt": str(len(uuid)),
    }
    assert entries(await it.request("PROPFIND", f"{log}/crunch-run.txt")) == {
        f"{log}/crunch-run.txt": str(len(uuid))
    }
    options = await it.request("OPTIONS", log)
    assert options.headers["dav"] == "1"


async def test_before_there_is_a_log(it: World) -> None:
    request = await it.submit()
    log = f"/arvados/v1/container_requests/{request['uuid']}/log/{request['container_uuid']}"
    assert entries(await it.request("PROPFIND", log)) == {f"{log}/": None}
