from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from lading.core.protocols.aws_signature import (
    UNSIGNED,
    SigningScope,
    canonical_request,
    signature,
    signing_key,
    string_to_sign,
)
from lading.core.tes.s3_requests import AccessKey
from tests.s3.site import HOST, S3Site, code, s3_site


def presigned(here: S3Site, path: str, *, key: AccessKey | None = None, seconds: int = 60) -> str:
    """An address that its signature opens for some seconds."""
    used = key or here.key
    moment = f"{here.files.world.clock():%Y%m%dT%H%M%SZ}"
    scope = SigningScope(moment[:8], "eu-west-1")
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{used.key_id}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": "host",
    }
    pairs = "&".join(f"{name}={quote(value, '')}" for name, value in sorted(query.items()))
    canonical = canonical_request("GET", path, pairs, [("host", HOST)], UNSIGNED)
    message = string_to_sign(canonical, moment=moment, scope=scope)
    return f"{path}?{pairs}&X-Amz-Signature={signature(signing_key(used.secret, scope), message)}"


async def test_a_presigned_address(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    address = presigned(here, f"/s3/{uuid}/f")
    assert (await here.send("GET", address, {})).body == b"x"
    assert code(await here.send("PUT", address, {})) == (403, "SignatureDoesNotMatch")
    other = address.replace("/f?", "/g?")
    assert code(await here.send("GET", other, {})) == (403, "SignatureDoesNotMatch")
    added = {"x-amz-copy-source": "/a/b"}
    assert code(await here.send("GET", address, added)) == (403, "AccessDenied")
    here.files.world.clock.advance(61)
    assert code(await here.send("GET", address, {})) == (403, "AccessDenied")


async def test_the_token_as_its_own_key(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    world = here.files.world
    made = await world.ok("POST", "api_client_authorizations", {})
    whole = f"v2_{made['uuid']}_{made['api_token']}"
    key = AccessKey(key_id=whole, secret=whole)
    assert (await here.call("GET", f"/{uuid}/f", key=key)).body == b"x"
    answer = await here.send("GET", presigned(here, f"/s3/{uuid}/f", key=key), {})
    assert code(answer) == (403, "AccessDenied"), "the address would give the token away"
    key = AccessKey(key_id=made["uuid"], secret=made["api_token"])
    answer = await here.call("GET", f"/{uuid}/f", key=key)
    assert code(answer) == (403, "InvalidAccessKeyId"), "it was not made as a key"
    forged = f"v2_{made['uuid']}_{'0' * 50}"
    key = AccessKey(key_id=forged, secret=forged)
    answer = await here.call("GET", f"/{uuid}/f", key=key)
    assert code(answer) == (403, "InvalidAccessKeyId")


async def test_keys_that_are_refused(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    wrong = AccessKey(key_id=here.key.key_id, secret="0" * 50)
    answer = await here.call("GET", f"/{uuid}/f", key=wrong)
    assert code(answer) == (403, "SignatureDoesNotMatch")
    unknown = AccessKey(key_id="zzzzz-gj3su-000000000000999", secret="0" * 50)
    assert code(await here.call("GET", f"/{uuid}/f", key=unknown)) == (403, "InvalidAccessKeyId")
    expires = (here.files.world.clock() + timedelta(seconds=60)).isoformat()
    key = await here.new_key(expires_at=expires)
    assert (await here.call("GET", f"/{uuid}/f", key=key)).status == 200
    here.files.world.clock.advance(120)
    assert code(await here.call("GET", f"/{uuid}/f", key=key)) == (403, "InvalidAccessKeyId")


async def test_a_key_does_what_its_token_may(here: S3Site) -> None:
    uuid = await here.files.collection({"f": b"x"})
    key = await here.new_key(scopes=["GET /"])
    assert (await here.call("GET", f"/{uuid}/f", key=key)).status == 200
    answer = await here.call("PUT", f"/{uuid}/f", body=b"y", key=key)
    assert code(answer) == (403, "AccessDenied")
    assert code(await here.call("DELETE", f"/{uuid}/f", key=key)) == (403, "AccessDenied")


async def test_a_key_can_end(here: S3Site) -> None:
    world = here.files.world
    path = f"api_client_authorizations/{here.key.key_id}"
    record = await world.ok("GET", path)
    assert (record["is_s3_key"], "s3_secret" in record) == (True, False)
    assert (await world.ok("PUT", path, {"is_s3_key": False}))["is_s3_key"] is False
    assert code(await here.call("GET", "/")) == (403, "InvalidAccessKeyId")
    assert (await world.request("PUT", path, {"is_s3_key": True})).status == 422


@pytest.mark.parametrize(
    ("header", "refusal"),
    [
        ("AWS key:signature", (400, "InvalidRequest")),
        ("AWS4-HMAC-SHA256 Credential=a", (400, "AuthorizationHeaderMalformed")),
    ],
)
async def test_other_signatures(here: S3Site, header: str, refusal: tuple[int, str]) -> None:
    assert code(await here.send("GET", "/s3/", {"authorization": header})) == refusal


async def test_without_a_signature(tmp_path: Path) -> None:
    async with s3_site(tmp_path, anonymous="anybody" * 5) as here:
        uuid = await here.files.collection({"f": b"x"})
        assert code(await here.send("GET", f"/s3/{uuid}/f", {})) == (404, "NoSuchBucket")
        group = "zzzzz-j7d0g-anonymouspublic"
        link = {
            "link_class": "permission", "name": "can_read", "head_uuid": uuid, "tail_uuid": group,
        }  # fmt: skip
        await here.files.world.ok("POST", "links", link)
        assert (await here.send("GET", f"/s3/{uuid}/f", {})).body == b"x"
        assert code(await here.send("PUT", f"/s3/{uuid}/f", {}, b"y"))[0] == 403
