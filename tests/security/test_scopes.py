"""Tokens of limited scopes: what their holder tries to read through calls that name other
records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need_root
from tests.security.stranger import QUIET, Record, Stranger, bare
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
COLLECTIONS = "/arvados/v1/collections"
REQUESTS = "/arvados/v1/container_requests"
IMAGE = f"sha256:{'0' * 64}.tar"
PATIENCE = 30.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    with running_cluster(tmp_path_factory.mktemp("scopes") / "data", QUIET) as cluster:
        yield Stranger(cluster)


@pytest.fixture(scope="module")
def secret(site: Stranger) -> Record:
    """A collection that the narrow tokens are not for."""
    return site.collection(b"the secret")


def _spec(site: Stranger, mounted: Record, **more: object) -> Record:
    where = bare(site.keep(b"an image", token=site.admin))
    image = site.ok("POST", "collections", {"manifest_text": f". {where} 0:8:{IMAGE}\n"})
    return {
        "command": ["cat", "/in/file"],
        "container_image": image["portable_data_hash"],
        "output_path": "/out",
        "mounts": {
            "/out": {"kind": "tmp", "capacity": 1000},
            "/in": {"kind": "collection", "uuid": mounted["uuid"]},
        },
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 26},
        "priority": 1,
        "state": "Committed",
        **more,
    }


@pytest.mark.attack(
    "copies files out of a collection that the token may not read, with replace_files"
)
@pytest.mark.parametrize("name", ["uuid", "portable_data_hash"])
def test_replace_files(site: Stranger, secret: Record, name: str) -> None:
    mine = site.collection(b"mine")
    narrow = site.token(
        f"POST {COLLECTIONS}",
        f"PUT {COLLECTIONS}/{mine['uuid']}",
        f"GET {COLLECTIONS}/{mine['uuid']}",
    )
    body = {"replace_files": {"/copied": f"{secret['portable_data_hash']}/file"}}
    for method, path in (("POST", "collections"), ("PUT", f"collections/{mine['uuid']}")):
        answer = site.call(method, path, body, token=narrow)
        assert (answer.status, "scopes of this token" in answer.text) == (403, True)
    allowed = site.token(f"POST {COLLECTIONS}", f"GET {COLLECTIONS}/{secret[name]}")
    made = site.ok("POST", "collections", body, token=allowed)
    assert (
        site.send("GET", f"/{made['manifest_text'].split()[1]}", token=allowed).text == "the secret"
    )


@pytest.mark.attack(
    "has a block signed that the token may not read, "
    "by naming it in a manifest or in replace_segments"
)
def test_unsigned_locators(site: Stranger, secret: Record) -> None:
    where = bare(secret["manifest_text"].split()[1])
    mine = site.collection(b"0123456789")
    narrow = site.token(f"POST {COLLECTIONS}", f"PUT {COLLECTIONS}/{mine['uuid']}")
    body: Record = {"manifest_text": f". {where} 0:10:file\n"}
    assert site.call("POST", "collections", body, token=narrow).status == 403
    body = {"replace_segments": {f"{bare(mine['manifest_text'].split()[1])} 0 10": f"{where} 0 10"}}
    assert site.call("PUT", f"collections/{mine['uuid']}", body, token=narrow).status == 403


@pytest.mark.attack("mounts a collection that the token may not read in a container of its own")
def test_mounts(site: Stranger, secret: Record) -> None:
    narrow = site.token(f"POST {REQUESTS}", f"GET {REQUESTS}/", f"PUT {REQUESTS}/")
    spec = _spec(site, secret)
    assert site.call("POST", "container_requests", spec, token=narrow).status == 403
    draft = site.ok("POST", "container_requests", {**spec, "state": "Uncommitted"}, token=narrow)
    path = f"container_requests/{draft['uuid']}"
    assert site.call("PUT", path, {"state": "Committed"}, token=narrow).status == 403
    image = f"GET {COLLECTIONS}/{spec['container_image']}"
    assert (
        site.call(
            "POST", "container_requests", spec, token=site.token(f"POST {REQUESTS}", image)
        ).status
        == 403
    )


@pytest.mark.attack("runs a container from an image that the token may not read")
def test_image(site: Stranger, secret: Record) -> None:
    narrow = site.token(f"POST {REQUESTS}", f"GET {COLLECTIONS}/{secret['uuid']}")
    answer = site.call("POST", "container_requests", _spec(site, secret), token=narrow)
    assert (answer.status, "container_image" in answer.text) == (403, True)


@pytest.mark.attack("makes another collection the log of a request, and reads that")
def test_log_of_a_request(site: Stranger, secret: Record) -> None:
    made = site.ok("POST", "container_requests", _spec(site, secret))
    narrow = site.token(f"PUT {REQUESTS}/{made['uuid']}", f"GET {REQUESTS}/{made['uuid']}/")
    body = {"log_uuid": secret["uuid"]}
    assert site.call("PUT", f"container_requests/{made['uuid']}", body, token=narrow).status == 403


@pytest.mark.attack("reads containers through `include` and through filters on 'container.'")
def test_include_and_filters(site: Stranger, secret: Record) -> None:
    made = site.ok("POST", "container_requests", _spec(site, secret))
    narrow = site.token(f"GET {REQUESTS}")
    page = site.ok("GET", 'container_requests?include=["container_uuid"]', token=narrow)
    assert (made["uuid"] in {one["uuid"] for one in page["items"]}, page["included"]) == (True, [])
    assert (
        site.call(
            "GET", 'container_requests?filters=[["container.state","=","Queued"]]', token=narrow
        ).status
        == 403
    )


@pytest.mark.attack(
    "lets a token that reads more come along as a reader token, beyond the scopes of either"
)
def test_reader_tokens(site: Stranger, secret: Record) -> None:
    stranger = site.token(owner=site.user("eve"))
    narrow = site.token(f"GET {COLLECTIONS}")
    path = f"collections/{secret['uuid']}?reader_tokens=%5B%22{narrow.replace('/', '%2F')}%22%5D"
    assert site.call("GET", path, token=stranger).status == 404


@pytest.mark.attack(
    "follows a link that shares one collection to the containers and inputs that it came from"
)
def test_shared_address(site: Stranger, secret: Record) -> None:
    made = site.ok("POST", "container_requests", _spec(site, secret))
    place = f"{COLLECTIONS}/{secret['uuid']}"
    shared = site.token(f"GET {place}", f"GET {place}/")
    assert made["container_uuid"] in site.ok("GET", f"collections/{secret['uuid']}/used_by")
    for name in ("provenance", "used_by"):
        found = site.ok("GET", f"collections/{secret['uuid']}/{name}", token=shared)
        assert found.keys() == {secret["uuid"]}


@pytest.mark.attack(
    "is refused although the token's scopes cover the inputs, and its container is to run"
)
def test_a_container_within_the_scopes_runs(tmp_path: Path) -> None:
    need_root()
    with running_cluster(tmp_path / "data") as cluster:
        site = Stranger(cluster)
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", "cat", "sh")
        (link,) = site.ok("GET", 'links?filters=[["name","=","tools:1"]]')["items"]
        mounted = site.collection(b"an input")
        scopes = [f"GET {COLLECTIONS}/{uuid}" for uuid in (mounted["uuid"], link["head_uuid"])]
        narrow = site.token(f"POST {REQUESTS}", f"GET {REQUESTS}/", *scopes)
        for api in (False, True):
            constraints = {"vcpus": 1, "ram": 1 << 28, "API": api}
            command = ["sh", "-c", "cat /in/file >/out/copied"]
            spec = _spec(
                site,
                mounted,
                runtime_constraints=constraints,
                command=command,
                container_image="tools:1",
            )
            made = site.ok("POST", "container_requests", spec, token=narrow)
            until = time.monotonic() + PATIENCE
            while made["state"] != "Final":
                assert time.monotonic() < until, made
                time.sleep(0.1)
                made = site.ok("GET", f"container_requests/{made['uuid']}", token=narrow)
            assert (
                ":copied" in site.ok("GET", f"collections/{made['output_uuid']}")["manifest_text"]
            )
