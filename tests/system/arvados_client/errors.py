"""Checks of refusals: the exception that the client documents, its status, and words that name the
fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tests.system.arvados_client.site import Site, client, equal

import arvados  # isort: skip
import arvados.errors  # isort: skip

NOBODY = "zzzzz-4zz18-000000000000000"
BAD_FILTERS: tuple[tuple[Any, str], ...] = (
    ([["nothing", "=", 1]], "Invalid attribute"),
    ([["name", "~", "x"]], "Invalid operator"),
    ([["name", "@@", "x"]], "no longer supported"),
    ([["name", "in", "x"]], "Invalid operand"),
    ([["name", "=", {"a": 1}]], "Invalid operand"),
    ([["created_at", ">", "yesterday"]], "Invalid operand"),
    ([["replication_desired", "=", 1 << 64]], "Invalid operand"),
    ([["is_trashed", "<", True]], "Invalid operator"),
    ([["properties", "contains", []]], "must not be empty"),
    ([["name", "="]], "Invalid filter"),
    ("(name ~ uuid)", "filters"),
)


def refused(call: Callable[[], Any], status: int, words: str = "") -> str:
    """The text of a refusal with this status."""
    try:
        done = call()
    except arvados.errors.ApiError as error:
        text = str(error)
        equal(error.resp.status, status, text)
        assert words in text, text
        return text
    raise AssertionError(f"done instead of refused with {status}: {done}")


def check_400_bad_vocabulary(site: Site) -> None:
    body = {"name": site.name(), "manifest_text": "", "properties": {"species": "unheard of"}}
    refused(lambda: site.made("collections", body), 400, "species")


def check_401_bad_token(site: Site) -> None:
    for token in ("v2/zzzzz-gj3su-000000000000000/secret", "secret"):
        stranger = client(os.environ["ARVADOS_API_HOST"], token)
        refused(
            lambda stranger=stranger: stranger.users().current().execute(),  # type: ignore[misc]
            401,
            "Not logged in",
        )


def check_401_expired_token(site: Site) -> None:
    body = {"expires_at": "2020-01-01T00:00:00Z"}
    token = site.made("api_client_authorizations", body)
    stranger = client(os.environ["ARVADOS_API_HOST"], f"v2/{token['uuid']}/{token['api_token']}")
    refused(lambda: stranger.users().current().execute(), 401, "Not logged in")


def check_403_of_others(site: Site) -> None:
    refused(lambda: site.user.users().create(body={"email": "x@example.org"}).execute(), 403)
    project = site.made("groups", {"name": site.name("shown"), "group_class": "project"})
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": site.user_uuid,
        "head_uuid": project["uuid"],
    }
    site.made("links", link)
    mine = site.made(
        "collections", {"owner_uuid": project["uuid"], "manifest_text": "", "name": site.name()}
    )
    site.user.collections().get(uuid=mine["uuid"]).execute()
    body = {"owner_uuid": project["uuid"], "manifest_text": "", "name": site.name()}
    refused(lambda: site.user.collections().create(body=body).execute(), 403)
    refused(
        lambda: (
            site.user.collections().update(uuid=mine["uuid"], body={"name": "theirs"}).execute()
        ),
        403,
    )


def check_403_scope(site: Site) -> None:
    body = {"owner_uuid": site.user_uuid, "scopes": ["GET /arvados/v1/collections"]}
    token = site.made("api_client_authorizations", body)
    limited = client(os.environ["ARVADOS_API_HOST"], f"v2/{token['uuid']}/{token['api_token']}")
    limited.collections().list().execute()
    limited.api_client_authorizations().current().execute()
    refused(lambda: limited.links().list().execute(), 403)


def check_403_unsigned_locators(site: Site) -> None:
    body = {"name": site.name(), "manifest_text": ". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:foo\n"}
    refused(lambda: site.user.collections().create(body=body).execute(), 403)


def check_404_absent_or_unreadable(site: Site) -> None:
    refused(lambda: site.api.collections().get(uuid=NOBODY).execute(), 404)
    refused(
        lambda: site.api.collections().get(uuid="acbd18db4cc2f85cedef654fccc4a4d8+999").execute(),
        404,
    )
    hidden = site.collection()
    refused(lambda: site.user.collections().get(uuid=hidden["uuid"]).execute(), 404)
    refused(
        lambda: site.user.collections().update(uuid=hidden["uuid"], body={"name": "x"}).execute(),
        404,
    )
    refused(lambda: site.api.containers().current().execute(), 404)


def check_422_attributes(site: Site) -> None:
    text = ". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:../foo\n"
    name = site.name()
    site.collection(name=name)
    for body, words in (
        ({"nothing": 1}, "unknown attribute 'nothing'"),
        ({"properties": "text"}, "properties"),
        ({"name": "a/b"}, "cannot contain a '/' character"),
        ({"name": ".."}, "cannot be"),
        ({"name": name}, "duplicate key value"),
        ({"manifest_text": text}, "manifest_text"),
        ({"manifest_text": "x"}, "manifest_text"),
        (
            {"portable_data_hash": "acbd18db4cc2f85cedef654fccc4a4d8+3"},
            "does not match computed hash",
        ),
        ({"storage_classes_desired": ["no where"]}, "storage_classes_desired"),
        ({"trash_at": "soon"}, "trash_at"),
    ):
        refused(
            lambda body=body: site.made("collections", {"manifest_text": "", **body}),  # type: ignore[misc]
            422,
            words,
        )


def check_422_lists(site: Site) -> None:
    listing = site.api.collections().list
    for filters, words in BAD_FILTERS:
        refused(lambda filters=filters: listing(filters=filters).execute(), 422, words)  # type: ignore[misc]
    refused(lambda: listing(count="some").execute(), 422, "count")
    refused(lambda: listing(limit=-1).execute(), 422, "limit")
    refused(lambda: listing(offset=-1).execute(), 422, "offset")
    refused(lambda: listing(select=["nothing"]).execute(), 422, "Invalid attribute")
    refused(lambda: listing(select=[]).execute(), 422, "select")


def check_422_requests(site: Site) -> None:
    ready = {
        "command": ["true"], "container_image": site.image, "output_path": "/out", "cwd": "/out",
        "mounts": {"/out": {"kind": "tmp", "capacity": 1000}},
        "runtime_constraints": {"vcpus": 1, "ram": 1 << 28},
    }  # fmt: skip
    for change, words in (
        ({"state": "Committed", "priority": None}, "riority"),
        ({"priority": 1001}, "riority"),
        ({"state": "Final"}, "tate"),
        ({"state": "Committed", "priority": 1, "command": []}, "ommand"),
        ({"state": "Committed", "priority": 1, "container_image": "no/such:image"}, "image"),
        ({"state": "Committed", "priority": 1, "mounts": {}}, "ount"),
        ({"state": "Committed", "priority": 1, "runtime_constraints": {"ram": 1}}, "vcpus"),
    ):
        refused(
            lambda change=change: site.made("container_requests", {**ready, **change}),  # type: ignore[misc]
            422,
            words,
        )


def check_the_request_id_is_told(site: Site) -> None:
    text = refused(lambda: site.api.collections().get(uuid=NOBODY).execute(), 404)
    assert "(req-" in text, text


def check_unknown_parameter_is_a_type_error(site: Site) -> None:
    try:
        site.api.collections().list(nothing=1)
    except TypeError:
        return
    raise AssertionError("taken")
