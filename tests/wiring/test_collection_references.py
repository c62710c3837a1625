from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lading.blobs.collector import Hit, Named
from lading.config.site import Config
from lading.core.data.confirmation import CopyCount
from lading.core.data.placement import CONFIRMATION
from lading.testing.world import world
from lading.wiring.stores import RecordedReferences


async def test_what_collections_name_with_the_copies_that_they_need(tmp_path: Path) -> None:
    async with world(tmp_path) as site:
        asked = RecordedReferences(site.database, Config(ClusterID="zzzzz"))
        one, two = site.blocks.put(b"one"), site.blocks.put(b"two")
        text = f". {one} {two} d41d8cd98f00b204e9800998ecf8427e+0 0:3:a 3:3:b\n"
        made = await site.ok("POST", "collections", {"name": "mine", "manifest_text": text})
        site.clock.moment += timedelta(days=1)
        await site.ok(
            "POST", "collections", {"manifest_text": f". {two} 0:3:c\n", "replication_desired": 3}
        )
        await site.ok("POST", "collections", {"manifest_text": ""})
        for _ in range(25):
            await site.ok(
                "POST",
                "collections",
                {"manifest_text": f". {one} 0:3:d\n", "replication_desired": 0},
            )
        await site.ok("DELETE", f"collections/{made['uuid']}")
        found = [named async for named in asked.all()]
        assert len(found) == 29
        assert all(named.classes == ("default",) for named in found)
        whole = next(named for named in found if len(named.hashes) == 2)
        assert (list(whole.hashes), whole.copies) == ([one[:32], two[:32]], 1)
        assert sorted({named.copies for named in found}) == [1, 3]
        late = site.clock.moment.timestamp() - 60
        assert len([named async for named in asked.changed(late)]) == 28
        assert [named async for named in asked.changed(late + 3600)] == []
        hits = await asked.naming(two[:32])
        assert Hit(made["uuid"], "mine", ["b"]) in hits
        assert len(hits) == 2


async def listed(references: RecordedReferences, uuid: str) -> Named:
    (found,) = [named async for named in references.all() if named.uuid == uuid]
    return found


async def test_counted_copies_are_recorded(tmp_path: Path) -> None:
    async with world(tmp_path) as site:
        asked = RecordedReferences(site.database, Config(ClusterID="zzzzz"))
        body = {"manifest_text": f". {site.blocks.put(b'one')} 0:3:a\n"}
        made = await site.ok("POST", "collections", body)
        named = await listed(asked, made["uuid"])
        assert named.recorded.classes == tuple(made["storage_classes_confirmed"])
        count = CopyCount(2, ("default",))
        assert await asked.record([(named, count)], at=0.0) == 1
        found = await site.ok("GET", f"collections/{made['uuid']}")
        assert {name: found[name] for name in CONFIRMATION} == {
            "replication_confirmed": 2,
            "replication_confirmed_at": "1970-01-01T00:00:00.000000000Z",
            "storage_classes_confirmed": ["default"],
            "storage_classes_confirmed_at": "1970-01-01T00:00:00.000000000Z",
        }
        # Nobody has changed it.
        assert found["modified_at"] == made["modified_at"]
        assert (await listed(asked, made["uuid"])).recorded == count
        await asked.record([(named, CopyCount())], at=0.0)
        found = await site.ok("GET", f"collections/{made['uuid']}")
        assert (found["storage_classes_confirmed"], found["replication_confirmed"]) == ([], 0)
        # Its content is another one by now.
        changed = {"manifest_text": f". {site.blocks.put(b'two')} 0:3:a\n"}
        await site.ok("PUT", f"collections/{made['uuid']}", changed)
        assert await asked.record([(named, count)], at=0.0) == 0
