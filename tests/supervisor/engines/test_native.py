from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lading.core import images
from lading.core.errors import ExecutionError
from lading.supervisor import linux
from lading.supervisor.engines import ContainerSpec, EngineSettings, native
from lading.supervisor.engines.native import NativeEngine
from lading.supervisor.engines.native_crun import CrunEngine
from lading.supervisor.limits.cgroup import Cgroup
from lading.testing.images import ArchiveImage, tiny_image
from tests.reality import need_root
from tests.supervisor.supervised import open_files


@pytest.fixture
def engine(tmp_path: Path) -> NativeEngine:
    run = tmp_path / "run"
    run.mkdir()
    return CrunEngine(
        EngineSettings(
            container_uuid="zzzzz-dz642-nativeunittest0",
            run_directory=str(run),
            cache_directory=str(tmp_path / "cache"),
            user_namespaces="never",
        )
    )


async def test_the_order_of_calls_is_checked(engine: NativeEngine) -> None:
    with pytest.raises(ExecutionError, match="no image"):
        await engine.create(ContainerSpec(command=("true",)))
    with pytest.raises(ExecutionError, match="no container"):
        await engine.run(stop=asyncio.Event(), stop_grace=0.0)
    await engine.remove()


async def test_it_does_not_mount_where_others_would_see(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "has_own_mounts", lambda: False)
    need_root()
    await engine.prepare(ArchiveImage(*tiny_image(programs=())))
    with pytest.raises(ExecutionError, match="namespace of its own"):
        await engine.create(ContainerSpec(command=("true",)))
    await engine.remove()


async def test_it_needs_root_and_crun(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(ExecutionError, match="install the package crun"):
        await engine.check()
    monkeypatch.setattr("os.geteuid", lambda: 5)
    with pytest.raises(ExecutionError, match="needs root"):
        await engine.check()


async def test_processes_that_do_not_die_are_told(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cgroup, "remove_empty", lambda self: False)
    monkeypatch.setattr(Cgroup, "remove", lambda self: [7])
    with pytest.raises(ExecutionError, match=r"\[7\] do not die"):
        await engine.remove()


def _make_root(layers: object, bundle: Path, *_: object, name: str) -> tuple[Path, str]:
    """An empty directory in the place of the mounted layers."""
    root = bundle / name
    root.mkdir(parents=True, exist_ok=True)
    return root, ""


async def test_a_kept_container_leaves_no_descriptor_open(
    engine: NativeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_root()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "crun").write_text("#!/bin/sh\n")
    (programs / "crun").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(images, "DEFAULT_PATH", str(programs))
    monkeypatch.setattr(linux, "has_own_mounts", lambda: True)
    monkeypatch.setattr(native, "mount_root", _make_root)
    counts = []
    for _ in range(2):
        await engine.prepare(ArchiveImage(*tiny_image(programs=())))
        await engine.create(ContainerSpec(command=("true",)))
        await engine.hold()
        await engine.remove()
        counts.append(open_files())
    assert counts[0] == counts[1]
