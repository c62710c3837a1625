"""What mounts show, and the reuse that it decides."""

from __future__ import annotations

from lading.api.mounts.tree_cache import CONTENTS
from lading.core.records.schema import JSON, Record
from lading.testing.world import World


async def packed(it: World, *files: tuple[str, bytes], token: str | None = None) -> Record:
    """A collection whose files are in one block."""
    data = b"".join(one for _, one in files)
    tokens, position = [], 0
    for name, one in files:
        tokens.append(f"{position}:{len(one)}:{name}")
        position += len(one)
    text = f". {it.blocks.put(data)} {' '.join(tokens)}\n"
    found: Record = await it.ok("POST", "collections", {"manifest_text": text}, token=token)
    return found


def mount(collection: Record, path: str, **more: JSON) -> JSON:
    shown = {"kind": "collection", "portable_data_hash": collection["portable_data_hash"]}
    return {"/out": {"kind": "tmp"}, "/in": {**shown, "path": path, **more}}


async def test_equal_bytes_under_another_name_are_equal_work(it: World) -> None:
    alone = await it.collection({"reads.fq": b"ACGT"})
    first = await it.submit(mounts=mount(alone, "reads.fq"))
    renamed = await it.collection({"sample.fq": b"ACGT", "other": b"x"})
    beside = await packed(it, ("a", b"TTTT"), ("b", b"ACGT"))
    for mounts in (mount(renamed, "sample.fq"), mount(beside, "b"), mount(beside, "/b")):
        assert (await it.submit(mounts=mounts))["container_uuid"] == first["container_uuid"]
    other = await it.submit(mounts=mount(beside, "a"))
    assert other["container_uuid"] != first["container_uuid"]
    made = await it.ok("GET", f"containers/{first['container_uuid']}")
    assert made["mounts"]["/in"]["path"] == "reads.fq"
    assert "mount_contents" not in made
    why = await it.ok("GET", f"container_requests/{other['uuid']}/why")
    assert why["decision"]["nearest"]["differences"][0]["field"] == "mounts./in.content"
    assert "ram and vcpus of work that succeeded" in str(why["not_compared"])


async def test_a_directory_beside_others_is_the_same_directory(it: World) -> None:
    block = it.blocks.put(b"ACGT")
    first = await it.ok("POST", "collections", {"manifest_text": f"./one {block} 0:4:x\n"})
    text = f"./one {block} 0:4:x\n./two {block} 0:4:x\n"
    second = await it.ok("POST", "collections", {"manifest_text": text})
    made = await it.submit(mounts=mount(first, "one"))
    assert (await it.submit(mounts=mount(second, "two")))["container_uuid"] == made[
        "container_uuid"
    ]


async def test_uuids_batches_previews_and_streams_count_too(it: World) -> None:
    alone, beside = (
        await it.collection({"x": b"ACGT"}),
        await packed(it, ("a", b"TTTT"), ("b", b"ACGT")),
    )
    by_uuid = {"kind": "collection", "uuid": beside["uuid"], "path": "b"}
    first = await it.submit(mounts={"/out": {"kind": "tmp"}, "stdin": {**by_uuid}})
    spec = await it.spec(
        mounts={
            "/out": {"kind": "tmp"},
            "stdin": {
                "kind": "collection",
                "portable_data_hash": alone["portable_data_hash"],
                "path": "x",
            },
        }
    )
    preview = await it.ok("POST", "container_requests/preview", spec)
    assert preview["container_uuid"] == first["container_uuid"]
    batch = await it.ok("POST", "container_requests/batch", {"container_requests": [spec]})
    assert batch["items"][0]["container_uuid"] == first["container_uuid"]


async def test_a_block_is_read_once_for_all_its_files(it: World) -> None:
    beside = await packed(it, *((f"f{number}", b"%d" % number) for number in range(9)))
    specs = [await it.spec(mounts=mount(beside, f"f{number}")) for number in range(9)]
    await it.ok("POST", "container_requests/batch", {"container_requests": specs[:2]})
    # What was learned with the first does not need the block any more.
    it.blocks.damaged = True
    alone = await it.collection({"x": b"8"})
    made = await it.submit(mounts=mount(alone, "x"))
    assert (await it.submit(mounts=mount(beside, "f8")))["container_uuid"] == made["container_uuid"]


async def test_what_cannot_be_read_is_compared_by_name(it: World) -> None:
    beside = await packed(it, ("a", b"TTTT"), ("b", b"ACGT"))
    it.blocks.damaged = True
    first = await it.submit(mounts=mount(beside, "b"))
    assert (await it.submit(mounts=mount(beside, "b")))["container_uuid"] == first["container_uuid"]
    missing = await it.submit(mounts=mount(beside, "nothing"))
    assert missing["container_uuid"] != first["container_uuid"]


async def test_a_file_in_several_blocks_is_put_together(it: World) -> None:
    text = f". {it.blocks.put(b'AC')} {it.blocks.put(b'GT')} 0:4:x\n"
    split = await it.ok("POST", "collections", {"manifest_text": text})
    first = await it.submit(mounts=mount(split, "x"))
    alone = await it.collection({"y": b"ACGT"})
    assert (await it.submit(mounts=mount(alone, "y")))["container_uuid"] == first["container_uuid"]


async def test_only_readable_collections_are_looked_into(it: World) -> None:
    secret = await packed(it, ("a", b"TTTT"), ("b", b"ACGT"))
    token = await it.user("eve")
    await it.ensure_image(token)
    spec = await it.spec(mounts=mount(secret, "b"), token=token)
    refused = await it.request("POST", "container_requests", spec, token=token)
    assert refused.status == 422
    assert not len(it.app.services.features[CONTENTS].entries)


async def test_a_writable_copy_keeps_its_name(it: World) -> None:
    first, second = await it.collection({"x": b"ACGT"}), await it.collection({"y": b"ACGT"})
    one = await it.submit(mounts=mount(first, "x", writable=True))
    other = await it.submit(mounts=mount(second, "y", writable=True))
    assert one["container_uuid"] != other["container_uuid"]


async def test_the_ram_of_finished_work_counts_only_if_asked(it: World) -> None:
    plain = {"vcpus": 1, "ram": 1 << 28}
    first = await it.submit()
    more = await it.submit(runtime_constraints={**plain, "ram": 1 << 30})
    assert more["container_uuid"] != first["container_uuid"]
    await it.run(first["container_uuid"])
    again = await it.submit(runtime_constraints={"vcpus": 4, "ram": 1 << 34})
    assert (again["state"], again["container_uuid"]) == ("Final", first["container_uuid"])
    exact = await it.submit(runtime_constraints={"vcpus": 4, "ram": 1 << 34}, match_resources=True)
    assert exact["container_uuid"] not in (first["container_uuid"], more["container_uuid"])
    why = await it.ok("GET", f"container_requests/{exact['uuid']}/why")
    assert "runtime_constraints.ram" in str(why["decision"]["nearest"])
