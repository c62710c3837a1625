from __future__ import annotations

import pytest

from lading.client.api import ApiClient
from lading.client.mount.layout import README, MountLayout, MountView
from lading.client.mount.nodes import MountedCollections, Text, Unknown, peek
from lading.client.record_events import RecordEvent
from lading.client.retry import NO_RETRY
from lading.core.data.filetree import File
from lading.core.errors import Invalid, NotFound
from tests.client.mount.conftest import Scene


async def _project(scene: Scene, name: str, **more: object) -> str:
    record = await scene.world.ok(
        "POST", "groups", {"group": {"name": name, "group_class": "project", **more}}
    )
    return str(record["uuid"])


async def test_the_top(scene: Scene) -> None:
    top = await scene.layout.top(MountView.ALL)
    assert await scene.names(top, "") == {"README", "by_id", "home", "shared", "by_tag"}
    readme = await scene.place(top, "by_id/README")
    assert readme is not None
    assert readme.node == Text(README)


async def test_by_id_finds_collections_and_projects(scene: Scene) -> None:
    record = await scene.world.collection({"a.txt": b"x"}, name="one")
    project = await _project(scene, "work")
    top = await scene.layout.top(MountView.ALL)
    for id in (record["uuid"], record["portable_data_hash"]):
        place = await scene.place(top, f"by_id/{id}/a.txt")
        assert place is not None
        assert isinstance(place.node, File)
        assert peek(top, ["by_id", id, "a.txt"]) == place
    assert await scene.place(top, f"by_id/{project}") is not None
    assert await scene.names(top, "by_id") == {
        "README",
        record["uuid"],
        record["portable_data_hash"],
        project,
    }


@pytest.mark.parametrize(
    "name", ["nothing", "zzzzz-4zz18-000000000000009", f"{'0' * 32}+10", "zzzzz-tpzed-" + "a" * 15]
)
async def test_by_id_does_not_find_what_is_not_there(scene: Scene, name: str) -> None:
    top = await scene.layout.top(MountView.ALL)
    assert await scene.place(top, f"by_id/{name}") is None


async def test_by_pdh_finds_hashes_only(scene: Scene) -> None:
    record = await scene.world.collection({"a.txt": b"x"})
    top = await scene.layout.top(MountView.BY_PDH)
    assert await scene.place(top, f"{record['portable_data_hash']}/a.txt") is not None
    assert await scene.place(top, record["uuid"]) is None


async def test_a_deleted_collection_goes(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"x"})
    top = await scene.layout.top(MountView.BY_ID)
    assert await scene.place(top, uuid) is not None
    await scene.world.ok("DELETE", f"collections/{uuid}")
    scene.layout.change(RecordEvent(event_type="delete", object_uuid=uuid))
    with pytest.raises(Unknown):
        peek(top, [uuid])
    assert await scene.place(top, uuid) is None
    assert await scene.names(top, "") == {"README"}


async def test_home_and_projects_by_name(scene: Scene) -> None:
    project = await _project(scene, "work")
    await scene.collection({"a.txt": b"x"}, name="one", owner_uuid=project)
    await scene.collection({"b.txt": b"x"}, name="loose")
    await scene.collection({"c.txt": b"x"})
    top = await scene.layout.top(MountView.ALL)
    assert {"work", "loose"} <= await scene.names(top, "home")
    assert await scene.names(top, "home/work") - {".arvados#project"} == {"one"}
    assert await scene.place(top, "home/work/one/a.txt") is not None
    alone = await scene.layout.top(MountView.PROJECT, project)
    assert await scene.place(alone, "one/a.txt") is not None
    own = await scene.layout.top(MountView.HOME)
    assert await scene.place(own, "loose/b.txt") is not None


async def test_a_new_collection_shows_with_its_event(scene: Scene) -> None:
    top = await scene.layout.top(MountView.ALL)
    before = await scene.names(top, "home")
    record = await scene.world.collection({"a.txt": b"x"}, name="fresh")
    assert await scene.names(top, "home") == before
    change = RecordEvent(
        event_type="create", object_uuid=record["uuid"], object_owner_uuid=record["owner_uuid"]
    )
    scene.layout.change(change)
    assert await scene.names(top, "home") == before | {"fresh"}
    await scene.world.collection({"a.txt": b"x"}, name="unheard")
    scene.now += 20
    assert "unheard" in await scene.names(top, "home")


async def test_what_moves_is_missed_where_it_was(scene: Scene) -> None:
    here, there = await _project(scene, "here"), await _project(scene, "there")
    uuid = await scene.collection({"a.txt": b"x"}, name="one", owner_uuid=here)
    top = await scene.layout.top(MountView.ALL)
    assert "one" in await scene.names(top, "home/here")
    await scene.names(top, "home/there")
    await scene.world.ok("PUT", f"collections/{uuid}", {"owner_uuid": there})
    old = {"old_attributes": {"owner_uuid": here}}
    scene.layout.change(
        RecordEvent(event_type="update", object_uuid=uuid, object_owner_uuid=there, properties=old)
    )
    assert "one" not in await scene.names(top, "home/here")
    assert "one" in await scene.names(top, "home/there")


async def test_names_are_made_fit(scene: Scene) -> None:
    project = await _project(scene, "work")
    for name in ("x" * 255, "é" * 200, "_.arvados#odd"):
        await scene.collection({"a": b"x"}, name=name, owner_uuid=project)
    group = await _project(scene, "x" * 255, owner_uuid=project)
    names = await scene.names(await scene.layout.top(MountView.PROJECT, project), "")
    assert all(len(name.encode()) <= 255 for name in names)
    assert len(names) == 5
    assert group not in names


async def test_tags(scene: Scene) -> None:
    uuid = await scene.collection({"a.txt": b"x"}, name="one")
    top = await scene.layout.top(MountView.ALL)
    assert await scene.names(top, "by_tag") == set()
    link = {"link_class": "tag", "name": "good", "head_uuid": uuid}
    made = await scene.world.ok("POST", "links", {"link": link})
    scene.layout.change(RecordEvent(event_type="create", object_uuid=made["uuid"]))
    assert await scene.names(top, "by_tag") == {"good"}
    assert await scene.names(await scene.layout.top(MountView.BY_TAG), "good") == {uuid}
    assert await scene.place(top, f"by_tag/good/{uuid}/a.txt") is not None


async def test_shared_shows_owners_and_projects(scene: Scene) -> None:
    tokens = [await scene.world.user(name) for name in ("ann", "bob")]
    ann, bob = [await scene.world.ok("GET", "users/current", token=token) for token in tokens]
    project = await _project(scene, "hers", owner_uuid=ann["uuid"])
    link = {
        "link_class": "permission",
        "name": "can_read",
        "tail_uuid": bob["uuid"],
        "head_uuid": project,
    }
    await scene.world.ok("POST", "links", {"link": link})
    api = ApiClient(scene.api.transport, tokens[1], retry=NO_RETRY)
    top = await MountLayout(MountedCollections(api)).top(MountView.ALL)
    assert "ann" in await scene.names(top, "shared")
    assert await scene.names(top, "shared/ann") == {"hers"}
    assert await scene.place(top, f"by_id/{project}") is not None


async def test_everything_is_asked_again_after_a_gap(scene: Scene) -> None:
    top = await scene.layout.top(MountView.ALL)
    await scene.names(top, "home")
    await scene.collection({"a.txt": b"x"}, name="missed")
    scene.layout.expire()
    assert "missed" in await scene.names(top, "home")


async def test_a_top_that_is_none(scene: Scene) -> None:
    with pytest.raises(Invalid, match="neither the uuid"):
        await scene.layout.top(MountView.COLLECTION, "nothing")
    with pytest.raises(NotFound):
        await scene.layout.top(MountView.COLLECTION, f"{'0' * 32}+10")
    with pytest.raises(NotFound):
        await scene.layout.top(MountView.PROJECT, "zzzzz-j7d0g-000000000000009")
