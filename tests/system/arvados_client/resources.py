"""Checks of what stands beside collections and requests: links, logs, tokens, workflows,
credentials, keep services.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.system.arvados_client.errors import refused
from tests.system.arvados_client.site import Site, equal

import arvados.util  # isort: skip

DEFINITION = "cwlVersion: v1.2\nclass: CommandLineTool\nname: sorted\ndescription: sorts lines\n"


def check_keep_services(site: Site) -> None:
    found = site.api.keep_services().accessible().execute()["items"]
    equal(len(found), 1)
    equal(
        (found[0]["service_type"], found[0]["service_ssl_flag"], found[0]["read_only"]),
        ("proxy", True, False),
    )


def check_tags(site: Site) -> None:
    made = site.collection()
    for name in ("", "blue"):
        link = site.made("links", {"head_uuid": made["uuid"], "link_class": "tag", "name": name})
        equal((link["head_kind"], link["tail_kind"]), ("arvados#collection", None))
    where = [
        ["link_class", "=", "tag"],
        ["head_uuid", "=", made["uuid"]],
        ["head_uuid", "is_a", "arvados#collection"],
    ]
    equal(
        site.api.links().list(filters=[*where, ["name", "!=", ""]]).execute()["items_available"], 1
    )


def check_logs_of_ones_own(site: Site) -> None:
    made = site.collection()
    body = {
        "log": {
            "object_uuid": made["uuid"],
            "event_type": "remark",
            "properties": {"text": "read me"},
        }
    }
    row = site.api.logs().create(body=body).execute()
    equal((row["object_kind"], row["properties"]), ("arvados#collection", {"text": "read me"}))
    found = (
        site.api.logs()
        .list(filters=[["object_uuid", "=", made["uuid"]]], order="id asc")
        .execute()["items"]
    )
    equal([one["event_type"] for one in found], ["create", "remark"])


def check_tokens(site: Site) -> None:
    current = site.user.api_client_authorizations().current().execute()
    assert site.user_token.endswith(current["api_token"])
    made = (
        site.user.api_client_authorizations()
        .create(body={"scopes": ["GET /arvados/v1/users/current"]})
        .execute()
    )
    equal(made["owner_uuid"], site.user_uuid)
    listed = (
        site.user.api_client_authorizations()
        .list(filters=[["uuid", "=", made["uuid"]]])
        .execute()["items"]
    )
    equal([one["scopes"] for one in listed], [["GET /arvados/v1/users/current"]])
    assert not listed[0].get("api_token")
    site.user.api_client_authorizations().delete(uuid=made["uuid"]).execute()
    refused(lambda: site.user.api_client_authorizations().get(uuid=made["uuid"]).execute(), 404)


def check_workflows(site: Site) -> None:
    made = site.api.workflows().create(body={"workflow": {"definition": DEFINITION}}).execute()
    equal((made["name"], made["description"]), ("sorted", "sorts lines"))
    renamed = (
        site.api.workflows()
        .update(uuid=made["uuid"], body={"workflow": {"name": "mine"}})
        .execute()
    )
    equal((renamed["name"], renamed["definition"]), ("mine", DEFINITION))
    equal(site.api.workflows().get(uuid=made["uuid"]).execute()["uuid"], made["uuid"])
    assert made["uuid"] in [one["uuid"] for one in site.api.workflows().list().execute()["items"]]
    refused(
        lambda: site.api.workflows().create(body={"definition": "- a list"}).execute(),
        422,
        "efinition",
    )
    refused(
        lambda: site.api.workflows().create(body={"definition": "{"}).execute(), 422, "efinition"
    )
    site.api.workflows().delete(uuid=made["uuid"]).execute()
    refused(lambda: site.api.workflows().get(uuid=made["uuid"]).execute(), 404)


def check_credentials(site: Site) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat() + "Z"
    body = {
        "name": site.name("bucket"), "credential_class": "aws_access_key", "scopes": ["s3://bucket"],
        "external_id": "AKIA", "secret": "shh", "expires_at": tomorrow,
    }  # fmt: skip
    made = site.api.credentials().create(body={"credential": body}).execute()
    assert "secret" not in made
    where = [["credential_class", "=", "aws_access_key"], ["scopes", "contains", "s3://bucket"]]
    now = datetime.now(UTC).isoformat() + "Z"
    found = (
        site.api.credentials()
        .list(filters=[*where, ["expires_at", ">", now]], limit=2)
        .execute()["items"]
    )
    equal([one["uuid"] for one in found], [made["uuid"]])
    refused(
        lambda: site.api.credentials().secret(uuid=made["uuid"]).execute(), 403, "running container"
    )
    refused(lambda: site.api.credentials().list(filters=[["secret", "=", "shh"]]).execute(), 422)
    site.api.credentials().delete(uuid=made["uuid"]).execute()


def check_discovery_lists_only_what_is_there(site: Site) -> None:
    for name in ("configs", "vocabularies", "credentials", "workflows"):
        assert hasattr(site.api, name), name
    equal(site.api.containers().create(body={}).method, "POST")
    equal(site.api.groups().shared().method, "GET")


def check_projects(site: Site) -> None:
    project = site.made("groups", {"name": site.name("project"), "group_class": "project"})
    inner = site.made(
        "groups", {"name": "inner", "group_class": "project", "owner_uuid": project["uuid"]}
    )
    made = site.made("collections", {"name": "c", "manifest_text": "", "owner_uuid": inner["uuid"]})
    contents = (
        site.api.groups().contents(uuid=project["uuid"], recursive=True, count="none").execute()
    )
    equal({one["uuid"] for one in contents["items"]}, {inner["uuid"], made["uuid"]})
    where = [["uuid", "is_a", "arvados#group"], ["groups.group_class", "in", ["project", "filter"]]]
    listed = arvados.util.keyset_list_all(
        site.api.groups().contents, order_key="uuid", uuid=project["uuid"], filters=where
    )
    equal([one["uuid"] for one in listed], [inner["uuid"]])
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": site.user_uuid,
        "head_uuid": project["uuid"],
    }
    site.made("links", link)
    shared = (
        site.user.groups()
        .shared(order="uuid", limit=10_000, count="none", include="owner_uuid")
        .execute()
    )
    assert project["uuid"] in [one["uuid"] for one in shared["items"]]
    assert isinstance(shared["included"], list)
    found = arvados.util.iter_computed_permissions(site.api.computed_permissions().list)
    assert (site.user_uuid, project["uuid"]) in [
        (one["user_uuid"], one["target_uuid"]) for one in found
    ]
