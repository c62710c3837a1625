"""Calls whose attributes would not be heard: an admin means a narrow token and must never get a
wide one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reality import need_program
from tests.security.stranger import QUIET, Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
USER_LINE = (
    """curl -sk https://$ARVADOS_API_HOST/arvados/v1/users """
    """-H "Authorization: Bearer $ARVADOS_API_TOKEN" \\
    -d '{"username": "ada", "email": "ada@example.org"}'"""
)
TOKEN_LINE = (
    """curl -sk https://$ARVADOS_API_HOST/arvados/v1/api_client_authorizations """
    """-H "Authorization: Bearer $ARVADOS_API_TOKEN" \\
    -d '{"owner_uuid": "%s", "scopes": ["GET /"]}'"""
)
SHARE_LINE = (
    """curl -sk https://$ARVADOS_API_HOST/arvados/v1/links """
    """-H "Authorization: Bearer $ARVADOS_API_TOKEN" \\
    -d '{"link_class": "permission", "name": "can_read",
         "tail_uuid": "eawiw-tpzed-jenmxnn03qdt6j8", "head_uuid": "eawiw-j7d0g-pt2996l0jpj9oys"}'"""
)
"""As docs/sharing.md had them: each sent JSON as a form, which was ignored; the second made a token
without limits.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    need_program("curl")
    with running_cluster(tmp_path_factory.mktemp("forms") / "data", QUIET) as cluster:
        yield Stranger(cluster)


def _shell(site: Stranger, line: str) -> dict[str, object]:
    done = subprocess.run(
        ["sh", "-c", line],
        env=os.environ | site.cluster.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _census(site: Stranger) -> list[int]:
    kinds = ("api_client_authorizations", "users", "links")
    return [site.ok("GET", f"{kind}?limit=0")["items_available"] for kind in kinds]


@pytest.mark.attack(
    "waits until an admin pastes the documented line for a narrow token, "
    "which made an unlimited one"
)
@pytest.mark.parametrize("line", [USER_LINE, TOKEN_LINE, SHARE_LINE])
def test_json_as_a_form(site: Stranger, line: str) -> None:
    user, before = site.ok("GET", "users/current")["uuid"], _census(site)
    told = str(_shell(site, line.replace("%s", user))["errors"])
    assert "Add the header 'Content-Type: application/json'" in told
    assert _census(site) == before
    made = _shell(site, line.replace("%s", user) + " -H 'Content-Type: application/json'")
    if line is TOKEN_LINE:
        assert made["scopes"] == ["GET /"]


@pytest.mark.attack("waits until an admin writes the scopes of a token where they are not heard")
@pytest.mark.parametrize(
    "argument",
    [
        """-d 'scopes=["GET /"]'""",
        """-d 'token={"scopes": ["GET /"]}'""",
        """--data-urlencode 'api_client_authorisation={"scopes": ["GET /"]}'""",
        """-d 'api_client_authorization[scopes][]=GET+/'""",
        """-X POST --url-query 'scopes=["GET /"]'""",
        """--json '{"token": {"scopes": ["GET /"]}}'""",
        """--json '{"api_client_authorization": {}, "scopes": ["GET /"]}'""",
        """-F 'scopes=["GET /"]'""",
    ],
)
def test_scopes_that_are_not_heard(site: Stranger, argument: str) -> None:
    before = _census(site)
    line = TOKEN_LINE.partition(" \\")[0]
    assert "errors" in _shell(site, f"{line} {argument}")
    assert _census(site) == before


@pytest.mark.attack("is refused although the attributes come as Arvados' clients send them")
def test_what_clients_send(site: Stranger, tmp_path: Path) -> None:
    line = TOKEN_LINE.partition(" \\")[0]
    wanted = '{"scopes": ["GET /"]}'
    (tmp_path / "body").write_text(
        f'{{"api_client_authorization": {wanted}, "ensure_unique_name": true}}'
    )
    for argument in (
        f"-d 'api_client_authorization={wanted}' -d alt=json -d 'select=[\"uuid\",\"scopes\"]'",
        f"--data-urlencode 'api_client_authorization={wanted}'",
        f"--json '{wanted}'",
        f"--json @{tmp_path}/body",
        f"-H Content-Type: -d '{wanted}'",
    ):
        assert _shell(site, f"{line} {argument}")["scopes"] == ["GET /"], argument
