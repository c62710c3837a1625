"""What addresses lead to."""

from __future__ import annotations

from uuid import uuid4

import pytest

import lading
from lading.client.remote_files.faults import NoSuchFile
from lading.client.remote_files.places import StoredPlace
from lading.core.errors import Invalid
from tests.cli.site import Play, Site


def test_names_lead_through_projects_to_a_collection(site: lading.Site) -> None:
    name = f"p{uuid4().hex}"
    project = site.call(site.api.create("groups", {"name": name, "group_class": "project"}))
    inside = {"name": "data", "owner_uuid": project["uuid"]}
    collection = site.call(site.api.create("collections", inside))
    locations = site.files.locations
    assert site.call(locations.find(name)) == StoredPlace(owner=project["uuid"])
    assert site.call(locations.find(f"{name}/data/x/y")) == StoredPlace(
        owner=project["uuid"], collection=collection["uuid"], path="x/y"
    )
    missing = site.call(locations.find(f"{name}/none/x"))
    assert missing == StoredPlace(owner=project["uuid"], missing="none", path="x")
    assert site.call(locations.find(project["uuid"])).is_project
    home = site.call(locations.find(""))
    assert home.is_project
    assert home.owner == site.call(locations.home())


def test_a_project_elsewhere_is_found_by_its_name(site: lading.Site) -> None:
    names = [f"p{uuid4().hex}" for _ in range(3)]
    top = site.call(site.api.create("groups", {"name": names[0], "group_class": "project"}))
    inside = {"name": names[1], "group_class": "project", "owner_uuid": top["uuid"]}
    project = site.call(site.api.create("groups", inside))
    assert site.call(site.files.locations.find(names[1])).owner == project["uuid"]
    for owner in (top, project):
        double = {"name": names[2], "group_class": "project", "owner_uuid": owner["uuid"]}
        site.call(site.api.create("groups", double))
    with pytest.raises(Invalid, match="several projects"):
        site.call(site.files.locations.find(names[2]))


def test_a_request_stands_for_its_output(stage: Site, site: lading.Site, image: str) -> None:
    with stage.acting(Play(files={"x": b"1"})):
        run = site.run(["place x"], image=image).result(30)
    request = site.call(site.api.get("container_requests", run.uuid))
    by_request = site.call(site.files.locations.find(f"{run.uuid}/x"))
    assert by_request == StoredPlace(collection=request["output_uuid"], path="x")
    by_container = site.call(site.files.locations.find(f"{request['container_uuid']}/x"))
    assert by_container.collection.endswith("+43")
    waiting = site.run(["place y"], image=image)
    with pytest.raises(Invalid, match="has no output yet"):
        site.call(site.files.locations.find(waiting.uuid))
    waiting.cancel()


def test_a_uuid_of_another_kind(site: lading.Site) -> None:
    with pytest.raises(NoSuchFile, match="names neither"):
        site.call(site.files.locations.find("zzzzz-gj3su-000000000000000"))
