"""Operations of S3 on the things of another user: nothing comes back, nothing changes, and what is
hidden answers as what is missing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.s3.site import S3Site, s3_site

pytestmark = pytest.mark.quick
SECRET = b"the content of the victim"
COMPLETION = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>"
    b"</CompleteMultipartUpload>"
)
CALLS = [
    ("GET", "", "", b""),
    ("GET", "", "list-type=2", b""),
    ("GET", "", "versions=", b""),
    ("GET", "", "uploads=", b""),
    ("GET", "", "location=", b""),
    ("HEAD", "", "", b""),
    ("DELETE", "", "", b""),
    ("POST", "", "delete=", b"<Delete><Object><Key>secret-name</Key></Object></Delete>"),
    ("GET", "/secret-name", "", b""),
    ("HEAD", "/secret-name", "", b""),
    ("PUT", "/secret-name", "", b"forged"),
    ("PUT", "/new/forged", "", b"forged"),
    ("DELETE", "/secret-name", "", b""),
    ("POST", "/secret-name", "uploads=", b""),
    ("PUT", "/secret-name", "partNumber=1&uploadId=UPLOAD", b"forged"),
    ("GET", "/secret-name", "uploadId=UPLOAD", b""),
    ("POST", "/secret-name", "uploadId=UPLOAD", COMPLETION),
    ("DELETE", "/secret-name", "uploadId=UPLOAD", b""),
]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[S3Site]:
    async with s3_site(tmp_path) as made:
        yield made


def query_of(text: str, upload: str) -> list[tuple[str, str]]:
    """The parameters of a call."""
    pairs = [pair.partition("=")[::2] for pair in text.split("&") if pair]
    return [(name, value.replace("UPLOAD", upload)) for name, value in pairs]


@pytest.mark.attack("calls each operation of S3 on the collections and projects of another user")
async def test_strangers_learn_and_change_nothing(here: S3Site) -> None:
    world = here.files.world
    project = (await world.ok("POST", "groups", {"group_class": "project", "name": "p"}))["uuid"]
    victim = await here.files.collection({"secret-name": SECRET}, owner_uuid=project)
    upload = (await here.call("POST", f"/{victim}/secret-name", [("uploads", "")])).body.decode()
    upload = upload.partition("<UploadId>")[2].partition("<")[0]
    pdh = (await here.files.pdh(victim)).replace("+", "-")
    key = await here.new_key(await world.user("stranger"))
    before = await here.files.pdh(victim)
    missing = {
        victim: "zzzzz-4zz18-000000000000999",
        project: "zzzzz-j7d0g-000000000000999",
        pdh: f"{'0' * 32}-{pdh.partition('-')[2]}",
    }
    for bucket, other in missing.items():
        for method, path, query, body in CALLS:
            answers = [
                await here.call(
                    method, f"/{name}{path}", query_of(query, upload), body=body, key=key
                )
                for name in (bucket, other)
            ]
            label = f"{method} {bucket}{path}?{query}"
            assert answers[0].status >= 400, label
            assert SECRET not in answers[0].body, label
            assert answers[0].status == answers[1].status, label
            documents = [
                answer.body.decode().replace(name, "NAME").replace(name.replace("-", "+"), "NAME")
                for answer, name in zip(answers, (bucket, other), strict=True)
            ]
            codes = [document.partition("<Code>")[2].partition("<")[0] for document in documents]
            assert codes[0] == codes[1], label
    assert await here.files.pdh(victim) == before
    assert (await here.call("GET", f"/{victim}/secret-name")).body == SECRET


@pytest.mark.attack("copies from another user's collection into an own one")
async def test_strangers_copy_nothing(here: S3Site) -> None:
    victim = await here.files.collection({"secret-name": SECRET})
    stranger = await here.files.world.user("stranger")
    key = await here.new_key(stranger)
    assert (await here.call("PUT", "/stolen", key=key)).status == 200
    pdh = (await here.files.pdh(victim)).replace("+", "-")
    for source in (victim, pdh):
        headers = {"x-amz-copy-source": f"/{source}/secret-name"}
        answer = await here.call("PUT", "/stolen/copy", headers=headers, key=key)
        assert answer.status == 404
        answer = await here.call("GET", "/stolen/copy", key=key)
        assert answer.status == 404
