"""The one block service."""

from __future__ import annotations

from lading.testing.world import World


async def test_the_service(it: World) -> None:
    for path, token in (("keep_services/accessible", ""), ("keep_services", None)):
        (item,) = (await it.ok("GET", path, token=token))["items"]
        assert (item["service_host"], item["service_port"], item["service_type"]) == (
            "127.0.0.1",
            9440,
            "proxy",
        )
        assert item["service_ssl_flag"]
    assert (await it.ok("GET", f"keep_services/{item['uuid']}"))["uuid"] == item["uuid"]
    assert (await it.request("GET", "keep_services/zzzzz-bi6l4-000000000000009")).status == 404
