from __future__ import annotations

from lading.testing.supervising import CONTAINER
from tests.supervisor.supervised import Bench


async def test_a_container_is_given_back_where_the_disk_has_no_room(bench: Bench) -> None:
    bench.settings = {"disk_reserve": 1 << 60}
    record = bench.add("true")
    assert await bench.run() == 0
    assert (record["state"], bench.server.states) == ("Queued", ["Queued"])
    assert "error" not in record["runtime_status"]


async def test_a_missing_image(bench: Bench) -> None:
    record = bench.add("true", container_image="acbd18db4cc2f85cedef654fccc4a4d8+3")
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")


async def test_mounts_that_cannot_be_made_run_nothing(bench: Bench) -> None:
    record = bench.add("true", mounts={"/out": {"kind": "tmp"}, "/x": {"kind": "file"}})
    await bench.run()
    assert record["runtime_status"]["error"].startswith("mounts[/x]")
    assert bench.server.states == ["Cancelled"]


async def test_inputs_streams_and_references(bench: Bench) -> None:
    pdh = bench.server.add_collection({"d/x": b"input\n", "y": b"other\n"})
    record = bench.add(
        "cat; cat /in/x; ln -s /i''n/x /out/link",
        mounts={
            "/out": {"kind": "tmp"},
            "/in": {"kind": "collection", "portable_data_hash": pdh, "path": "d"},
            "stdin": {"kind": "json", "content": {"a": 1}},
            "stdout": {"kind": "file", "path": "/out/deep/out.txt"},
        },
    )
    await bench.run()
    assert record["state"] == "Complete"
    assert bench.output() == {"deep/out.txt": b'{"a":1}input\n', "link": b"input\n"}
    assert "stdout.txt" not in bench.server.files(record["log"])


async def test_secrets_reach_the_command_and_nothing_else(bench: Bench) -> None:
    record = bench.add("cat /key > /out/copy")
    bench.server.secrets[CONTAINER] = {"/key": {"kind": "text", "content": "hush"}}
    await bench.run()
    assert record["state"] == "Complete"
    assert bench.output() == {"copy": b"hush"}
    assert b"hush" not in b"".join(bench.server.files(record["log"]).values())


async def test_json_as_input_is_a_stream_and_no_mount(bench: Bench) -> None:
    """It must not become a bind to the relative target `stdin` (docs/spec/containers, section
    Mounts).
    """
    bench.add(
        "cat > /out/x", mounts={"/out": {"kind": "tmp"}, "stdin": {"kind": "json", "content": [1]}}
    )
    await bench.run()
    assert bench.engine is not None
    assert bench.engine.spec is not None
    assert [bind.target for bind in bench.engine.spec.binds] == ["/out"]
    assert bench.output() == {"x": b"[1]"}


async def test_a_secret_as_input_is_delivered_and_not_saved(bench: Bench) -> None:
    """docs/spec/containers, section Secrets."""
    record = bench.add("read -r word; echo ${#word} > /out/x")
    bench.server.secrets[CONTAINER] = {"stdin": {"kind": "text", "content": "hush\n"}}
    await bench.run()
    assert bench.output() == {"x": b"4\n"}
    everything = b"".join(bench.server.files(record["log"]).values()) + b"".join(
        bench.server.blocks.values()
    )
    assert b"hush" not in everything
