from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lading.blobs.collector import Hit
from lading.config.site import Config
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
