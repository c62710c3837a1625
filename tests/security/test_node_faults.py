"""Names of a container and of its image, in messages of an engine, do not take a machine out of
service.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.testing.images import first_layer, make_archive, make_layer, tiny_image
from tests.reality import need_program, need_root
from tests.system.test_supervisor import staged

pytestmark = pytest.mark.system


@pytest.mark.attack("names a command like the message of a broken engine")
@pytest.mark.parametrize("command", ["crun cannot be run", "No space left on device"])
async def test_a_command_marks_no_machine(tmp_path: Path, command: str) -> None:
    need_root()
    need_program("crun")
    async with staged(engine="native", lock_directory=str(tmp_path)) as stage:
        mounts = {"/out": {"kind": "tmp"}}
        record = await stage.run([command], mounts=mounts, output_path="/out")
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "user")
    assert not (tmp_path / "crunch-run-broken").exists()


@pytest.mark.attack("mounts on a path, named like the message of a broken engine, below a file")
async def test_a_mount_marks_no_machine(tmp_path: Path) -> None:
    need_root()
    need_program("crun")
    target = "/d/No space left on device"
    async with staged(engine="native", lock_directory=str(tmp_path)) as stage:
        layers = [first_layer(tiny_image()[1]), make_layer({"d": b"a file"})]
        name, archive = make_archive(layers)
        stage.image = stage.server.add_collection({f"{name}.tar": archive})
        mounts = {"/out": {"kind": "tmp"}, target: {"kind": "text", "content": ""}}
        record = await stage.run(["true"], mounts=mounts, output_path="/out")
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "image")
    assert not (tmp_path / "crunch-run-broken").exists()


FULL = "No space left on device"
IMAGES: dict[str, tuple[dict[str, bytes | str | None], dict[str, object]]] = {
    "user": ({}, {"User": FULL}),
    "directory": ({FULL: b"a file"}, {"WorkingDir": f"/{FULL}/x"}),
    "volume": ({FULL: b"a file"}, {"Volumes": {f"/{FULL}/v": {}}}),
    "stop signal": ({}, {"StopSignal": FULL}),
    "environment": ({}, {"Env": [f"={FULL}"]}),
    "linked mount": ({FULL: b"a file", "m": f"/{FULL}"}, {}),
    "loop": ({FULL: FULL, "m": f"/{FULL}"}, {}),
    "linked proc": ({"proc": f"/{FULL}", FULL: b"x"}, {}),
    "linked dev": ({"dev": f"/{FULL}", FULL: b"x"}, {}),
    "entry point": ({}, {"Entrypoint": [f"/{FULL}"]}),
    "connection": ({}, {"User": "no answer from x; is the daemon running?"}),
}


@pytest.mark.parametrize("engine", ["native", "docker", "podman"])
@pytest.mark.attack("brings an image with names like the message of a machine whose disk is full")
async def test_an_image_marks_no_machine(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    need_root()
    need_program("crun")
    fixture = {"docker": "docker_daemon", "podman": "podman_service"}.get(engine)
    sockets: dict[str, Any] = {}
    if fixture is not None:
        sockets[f"{engine}_socket"] = str(request.getfixturevalue(fixture).socket)
    base = first_layer(tiny_image()[1])
    mounts = {"/out": {"kind": "tmp"}, "/m/x": {"kind": "text", "content": ""}}
    async with staged(engine=engine, lock_directory=str(tmp_path), **sockets) as stage:
        for what, (files, settings) in IMAGES.items():
            name, archive = make_archive([base, make_layer(files)], settings)
            stage.image = stage.server.add_collection({f"{name}.tar": archive})
            record = await stage.run(["true"], mounts=mounts, output_path="/out")
            assert record["state"] in {"Complete", "Cancelled"}, what
            assert not (tmp_path / "crunch-run-broken").exists(), what
