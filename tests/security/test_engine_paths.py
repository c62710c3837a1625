"""A record or an image names paths that lead an engine out of the container: the descriptors, the
directory or the root of its own processes, by the working directory and by targets of mounts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import Bind
from lading.testing.conformance.engines import Kit
from lading.testing.images import ArchiveImage, first_layer, make_archive, make_layer, tiny_image
from tests.security.test_native_isolation import TestDocker as Docker
from tests.security.test_native_isolation import TestNative as Native
from tests.security.test_native_isolation import TestNativeOnCrun as NativeOnCrun
from tests.security.test_native_isolation import TestPodman as Podman
from tests.system.test_engines import own_mounts

__all__ = ["own_mounts"]

DIRECTORIES = (
    *(f"/proc/self/fd/{number}" for number in range(14)),
    *(f"/proc/1/fd/{number}" for number in range(3, 8)),
    "/proc/self/cwd",
    "/proc/1/cwd",
    "/proc/1/root",
    "/proc/self/task/1/cwd",
    "/proc/thread-self/cwd",
)
LINKS: dict[str, bytes | str | None] = {
    "cwd": "/proc/self/cwd",
    "root": "/proc/1/root",
    "descriptor": "/proc/self/fd/7",
    "up": "../../../../..",
}
"""Links in an image, with targets of mounts below them."""
SEALED = ("proc/sysrq-trigger", "proc/sys/kernel/core_pattern", "sys/kernel/uevent_helper")


def _image(links: dict[str, bytes | str | None]) -> ArchiveImage:
    return ArchiveImage(*make_archive([first_layer(tiny_image()[1]), make_layer(links)]))


class Attacks:
    """What is tried on each engine."""

    @pytest.mark.attack("starts in a directory that a descriptor of the engine's process leads to")
    async def test_the_working_directory_is_inside(self, kit: Kit) -> None:
        (kit.directory / "canary").touch()
        for cwd in DIRECTORIES:
            script = f"ls -d ../../../..{kit.directory}/canary /work; ls /"
            try:
                _, out, _ = await kit.run(script, cwd=cwd)
            except ExecutionError:
                # There is no such descriptor, or it is no directory.
                continue
            assert "canary" not in out, cwd
            assert "bin" in out.split(), cwd

    @pytest.mark.attack("has an image with links that lead targets of mounts out of the container")
    async def test_targets_of_mounts_stay_inside(self, kit: Kit) -> None:
        kit.image = _image({**LINKS, "absolute": f"{kit.directory}/victim"})
        (kit.directory / "victim").mkdir()
        bind = kit.bind("/source")
        roots = [Path("/"), Path.cwd(), kit.directory, kit.directory / "victim"]
        before = [sorted(root.iterdir()) for root in roots]
        for link in (*LINKS, "absolute"):
            for target in (f"/{link}", f"/{link}/planted"):
                try:
                    await kit.run("true", binds=(Bind(bind.source, target, False),))
                except ExecutionError:
                    continue
        added = {
            path.name
            for root, earlier in zip(roots, before, strict=True)
            for path in set(root.iterdir()) - set(earlier)
        }
        # What a test of an engine makes.
        assert added <= {"cache", "out.txt", "err.txt", kit.settings.container_uuid}

    @pytest.mark.attack("has an image whose /proc, /sys or /dev lead to files that it may write to")
    @pytest.mark.parametrize("name", ["proc", "sys", "dev"])
    async def test_no_kernel_file_is_written(self, kit: Kit, name: str) -> None:
        kit.image = _image({name: "/elsewhere", "elsewhere": None})
        places = " ".join(f"/{path} /elsewhere/{path.partition('/')[2]}" for path in SEALED)
        script = f"for f in {places}; do [ -e $f ] && echo > $f && echo wrote $f; done; true"
        before = Path("/proc/sys/kernel/core_pattern").read_text()
        try:
            _, out, _ = await kit.run(f"{{ {script}; }} 2>/dev/null")
        except ExecutionError:
            out = ""
        assert out == ""
        assert Path("/proc/sys/kernel/core_pattern").read_text() == before


@pytest.mark.quick
class TestNative(Attacks):
    """Against lading-start."""

    engine = Native.engine
    kit = Native.kit


class TestNativeOnCrun(TestNative):
    """Against crun."""

    engine = NativeOnCrun.engine


class TestDocker(Attacks):
    """Against the Docker daemon."""

    kit = Docker.kit


class TestPodman(Attacks):
    """Against podman's service."""

    kit = Podman.kit
