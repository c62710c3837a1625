"""Who may store blocks and read them: every kind of token that is not meant for it, on a running
server.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

import pytest

from tests.security.stranger import ANONYMOUS, QUIET, Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    with running_cluster(tmp_path_factory.mktemp("blocks") / "data", QUIET) as cluster:
        yield Stranger(cluster)


def _tries(site: Stranger, token: str, data: bytes) -> list[int]:
    """The statuses of both ways to store a block."""
    put = site.send("PUT", f"/{md5(data).hexdigest()}", data, token=token)
    post = site.send("POST", "/", data, token=token)
    return [put.status, post.status]


@pytest.mark.attack("stores a block with the anonymous user's token")
def test_anonymous(site: Stranger) -> None:
    assert _tries(site, ANONYMOUS, b"from nobody") == [403, 403]


@pytest.mark.attack("stores a block with the token of a user who was switched off")
def test_inactive_user(site: Stranger) -> None:
    user = site.user("mallory")
    token = site.token(owner=user)
    assert _tries(site, token, b"while active") == [200, 200]
    signed = site.keep(b"while active", token=token)

    site.ok("PUT", f"users/{user}", {"is_active": False})
    assert _tries(site, token, b"afterwards") == [403, 403]
    assert site.send("GET", f"/{signed}", token=token).status == 403


@pytest.mark.attack("stores a block with a token that is for one GET only")
@pytest.mark.parametrize(
    "scope",
    [
        "GET /",
        "GET /arvados/v1/users/current",
        "GET /arvados/v1/collections/",
        "POST /arvados/v1/links",
        "POST /arvados/v1/collections/zzzzz-4zz18-000000000000000/trash",
    ],
)
def test_narrow_token(site: Stranger, scope: str) -> None:
    assert _tries(site, site.token(scope), scope.encode()) == [403, 403]


@pytest.mark.attack("stores a block with a token that has ended, or that nobody made")
def test_no_token(site: Stranger) -> None:
    token = site.token()
    site.ok("DELETE", f"api_client_authorizations/{token.split('/')[1]}")
    assert _tries(site, token, b"too late") == [401, 401]
    assert _tries(site, "v2/zzzzz-gj3su-000000000000000/invented", b"invented") == [401, 401]


@pytest.mark.attack(
    "reads a block with a signature made for another token, "
    "or with a token that reads no collections"
)
def test_reading(site: Stranger) -> None:
    signed = site.keep(b"a secret", token=site.admin)
    assert site.send("GET", f"/{signed}", token=site.token()).status == 400
    assert (
        site.send("GET", f"/{signed}", token=site.token("GET /arvados/v1/users/current")).status
        == 403
    )
    assert site.send("GET", f"/{signed}", token=ANONYMOUS).status == 400


@pytest.mark.attack("is refused although the token is for storing collections, or for reading one")
def test_what_stays_possible(site: Stranger) -> None:
    uploading = site.token("POST /arvados/v1/collections")
    made = site.collection(b"uploaded", token=uploading)
    reading = site.token(f"GET /arvados/v1/collections/{made['uuid']}")
    signed = site.ok("GET", f"collections/{made['uuid']}", token=reading)["manifest_text"].split()[
        1
    ]
    assert site.send("GET", f"/{signed}", token=reading).text == "uploaded"
