from __future__ import annotations

from lading.core.s3.operation_names import Operation
from lading.s3.app import HANDLERS
from tests.s3.site import S3Site, code, parsed


def test_every_operation_has_its_handler() -> None:
    assert set(HANDLERS) == set(Operation)


async def test_facts_of_a_bucket(here: S3Site) -> None:
    uuid = await here.files.collection({})
    assert (await here.call("HEAD", f"/{uuid}")).status == 200
    parsed(await here.call("GET", f"/{uuid}", [("location", "")]), "LocationConstraint")
    parsed(await here.call("GET", f"/{uuid}", [("versioning", "")]), "VersioningConfiguration")
    assert code(await here.call("GET", f"/{uuid}", [("acl", "")])) == (501, "NotImplemented")
    assert code(await here.call("PATCH", f"/{uuid}")) == (405, "MethodNotAllowed")


async def test_other_origins_may_ask(here: S3Site) -> None:
    answer = await here.send("OPTIONS", "/s3/bucket/key", {})
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")


async def test_a_refusal_is_a_document(here: S3Site) -> None:
    answer = await here.send("GET", "/s3/<bucket>", {})
    assert code(answer) == (403, "AccessDenied")
    assert b"<Resource>/s3/&lt;bucket&gt;</Resource>" in answer.body
