"""Quotas as records, and what is stored beside them."""

from __future__ import annotations

from lading.testing.world import World
from tests.api.test_quotas import quota, uuid_of


async def test_who_reads_and_who_writes(it: World) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    found = await quota(it, await uuid_of(it, ada), containers=3, queued=5, bytes_stored=100)
    assert (found["name"], found["owner_uuid"]) == ("ada", found["subject_uuid"])
    await it.collection({"a": b"12345"}, token=ada)
    uuids = {"uuids": [found["uuid"]]}
    (use,) = (await it.ok("GET", "quotas/uses", params=uuids, token=ada))["items"]
    assert (use["use"]["bytes_stored"], use["use"]["queued"], use["use"]["money"]) == (5, 0, 0)
    assert (await it.ok("GET", "quotas/uses", params=uuids, token=ben))["items"] == []
    assert (await it.request("GET", f"quotas/{found['uuid']}", token=ben)).status == 404
    for method in ("PUT", "DELETE"):
        refused = await it.request(method, f"quotas/{found['uuid']}", {}, token=ada)
        assert refused.status == 403
    refused = await it.request("PUT", f"quotas/{found['uuid']}", {"subject_uuid": "x"})
    assert "stays with its subject" in refused.error
    refused = await it.request("GET", "quotas/uses", params={"uuids": "x"})
    assert refused.status == 422
    await it.ok("DELETE", f"quotas/{found['uuid']}")
    assert (await it.ok("GET", "quotas"))["items"] == []


async def test_users_set_budgets_for_their_requests(it: World) -> None:
    ada, ben = await it.user("ada"), await it.user("ben")
    hers = await it.submit("hers", token=ada)
    subject = {"subject_uuid": hers["uuid"]}
    for token, given, status in (
        (ben, {"budget": 5.0}, 422),
        (ada, {"budget": 5.0, "vcpus": 2}, 403),
        (ada, {"money": 5.0}, 403),
        (ada, {"budget": 5.0, "stop": True}, 200),
    ):
        answer = await it.request("POST", "quotas", {"quota": {**subject, **given}}, token=token)
        assert answer.status == status, answer.error
    (found,) = (await it.ok("GET", "quotas", token=ada))["items"]
    path = f"quotas/{found['uuid']}"
    assert (await it.request("PUT", path, {"budget": 6.0}, token=ben)).status == 404
    await it.ok("PUT", path, {"budget": 6.0}, token=ada)
    await it.ok("PUT", path, {"budget": 3.0})
    # It is the admin's now.
    for method in ("PUT", "DELETE"):
        answer = await it.request(method, path, {"budget": 9.0}, token=ada)
        assert answer.status == 403
    await it.ok("DELETE", f"container_requests/{hers['uuid']}", token=ada)
    assert (await it.ok("GET", "quotas"))["items"] == []


async def test_stored_bytes(it: World) -> None:
    ada = await it.user("ada")
    await quota(it, await uuid_of(it, ada), bytes_stored=10)
    made = await it.collection({"a": b"123456"}, token=ada)
    refused = await it.request(
        "POST", "collections", {"manifest_text": it.manifest({"b": b"12345"})}, token=it.admin
    )
    assert refused.status == 200
    mine = {"manifest_text": it.manifest({"b": b"12345"}), "owner_uuid": await uuid_of(it, ada)}
    refused = await it.request("POST", "collections", mine, token=it.admin)
    assert refused.status == 422
    assert "has no room for 5 bytes: 6 bytes of 10 bytes are stored" in refused.error
    await it.ok("DELETE", f"collections/{made['uuid']}", token=ada)
    kept = await it.ok("POST", "collections", mine, token=it.admin)
    back = await it.request("POST", f"collections/{made['uuid']}/untrash", token=ada)
    assert back.status == 422
    await it.ok("PUT", f"collections/{kept['uuid']}", {"name": "renamed"}, token=ada)


async def test_bad_quotas_are_refused(it: World) -> None:
    ada = await it.user("ada")
    subject = await uuid_of(it, ada)
    for given, text in (
        ({"subject_uuid": "nobody"}, "must be the uuid of a user, a role, a project or a request"),
        ({"subject_uuid": subject, "vcpus": -1}, "vcpus: must not be negative"),
        ({"subject_uuid": subject, "period": "year"}, "period: must be day, week, month"),
        ({"subject_uuid": subject, "warn_share": 0.0}, "warn_share: must be above 0"),
        ({"subject_uuid": subject, "name": "a\nb"}, "name: must be a line"),
    ):
        refused = await it.request("POST", "quotas", {"quota": given})
        assert (refused.status, text in refused.error) == (422, True), refused.error
    await quota(it, subject, vcpus=1)
    refused = await it.request("POST", "quotas", {"quota": {"subject_uuid": subject}})
    assert "has a quota already" in refused.error
    refused = await it.request("POST", "quotas", {"quota": {"subject_uuid": subject}}, token=ada)
    assert refused.status == 403
