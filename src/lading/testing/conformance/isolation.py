"""Conformance suite of container engines that isolate the command: binds, network, limits, layers.

A test module subclasses `IsolatingEngineSuite` and gives the fixture `kit`, as for `EngineSuite`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, ContainerSpec, Device, Exec, Exit, NetworkAccess
from lading.supervisor.limits.cgroup import find_hierarchy
from lading.supervisor.limits.counters import CgroupCounters, find_folders
from lading.supervisor.machine import mount_table
from lading.testing.conformance import walls
from lading.testing.conformance.engines import PATIENCE, EngineSuite, Kit, heard
from lading.testing.images import (
    ArchiveImage,
    first_layer,
    layered_image,
    make_archive,
    make_devices,
    make_layer,
    tiny_image,
)
from lading.testing.odd_images import odd_images
from lading.testing.pulse import Bell


def command_lines() -> list[bytes]:
    """Command lines of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def read_limits(folders: CgroupCounters) -> dict[str, int]:
    """Bytes of RAM, microseconds of CPU in a tenth of a second, processes."""
    first = folders.version == 1
    files = {
        "ram": ("memory", "memory.limit_in_bytes" if first else "memory.max"),
        "cpu": ("cpu", "cpu.cfs_quota_us" if first else "cpu.max"),
        "pids": ("pids", "pids.max"),
    }
    texts = {
        name: (folders.paths[controller] / file).read_text()
        for name, (controller, file) in files.items()
    }
    return {name: int(content.split()[0]) for name, content in texts.items()}


class IsolatingEngineSuite(EngineSuite):
    """The promises of every engine, and those of an engine that isolates the command."""

    @pytest.mark.parametrize(
        ("cwd", "directory"),
        [("", "/usr/share"), (".", "/usr/share"), ("deep", "/usr/share/deep"), ("/tmp", "/tmp")],
    )
    async def test_what_the_record_leaves_out_is_the_image_s(
        self, kit: Kit, cwd: str, directory: str
    ) -> None:
        settings = {
            "Entrypoint": ["sh", "-c"],
            "Cmd": ["pwd; echo $FROM $BOTH"],
            "Env": ["PATH=/bin", "FROM=image", "BOTH=image"],
            "WorkingDir": "/usr/share",
        }
        kit.image = ArchiveImage(*tiny_image(settings=settings))
        more = {"environment": (("BOTH", "record"),), "cwd": cwd}
        assert (await kit.run_command((), **more))[:2] == (
            Exit(code=0),
            f"{directory}\nimage record\n",
        )
        assert (await kit.run_command(("echo hers",), **more))[1] == "hers\n"

    async def test_a_command_that_neither_names_is_refused(self, kit: Kit) -> None:
        with pytest.raises(
            ExecutionError, match="neither CMD nor ENTRYPOINT; name a command"
        ) as caught:
            await kit.run_command(())
        assert caught.value.failure is Failure.USER

    @pytest.mark.parametrize("user", ["ghost", "nobody:ghosts", "4294967296", "exec"])
    async def test_a_user_that_the_image_does_not_have_is_refused_for_good(
        self, kit: Kit, user: str
    ) -> None:
        kit.image = ArchiveImage(*tiny_image(settings={"User": user}))
        with pytest.raises(ExecutionError, match="the image's (user|group)") as caught:
            await kit.run("echo ran")
        assert caught.value.failure is Failure.IMAGE
        assert len(caught.value.message) <= 300

    async def test_root_reads_files_of_every_owner_in_the_image(self, kit: Kit) -> None:
        owner = (2_000_000, 3_000_000)
        own = make_layer({"own": b"mine\n"}, modes={"own": 0o600}, owner=owner)
        kit.image = ArchiveImage(*make_archive([first_layer(tiny_image()[1]), own]))
        done, out, _ = await kit.run("cat /own; ls -n /own")
        assert (done.code, out.split()[:5]) == (
            0,
            [
                "mine",
                "-rw-------",
                "1",
                *(str(0 if kit.is_of_user else owner_id) for owner_id in owner),
            ],
        )

    async def test_a_file_system_in_memory(self, kit: Kit) -> None:
        if kit.make(kit.settings).sees_private_mounts:
            pytest.skip("the caller makes them for this engine")
        memory = structs.replace(kit.bind("/fast"), memory=1 << 20)
        ended, out, _ = await kit.run(
            "echo x > /fast/file; cat /fast/file /proc/mounts", binds=(memory,)
        )
        assert out.startswith("x\n")
        assert [line.split()[2] for line in out.splitlines() if " /fast " in line] == ["tmpfs"]
        assert (ended.code, list((kit.directory / "fast").iterdir())) == (0, [])

    async def test_another_object_removes_what_was_left(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        await engine.prepare(kit.image)
        made = kit.bind("/made")
        await engine.create(
            ContainerSpec(command=("sh", "-c", "echo > /made/bell; sleep 1000"), binds=(made,))
        )
        with Bell(Path(made.source) / "bell") as bell:
            task = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=kit.grace))
            await bell.rung()
        other = kit.make(kit.settings)
        await other.remove()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), PATIENCE)
        await engine.remove()

    async def test_a_read_only_bind_cannot_be_written(self, kit: Kit) -> None:
        ended, _, _ = await kit.run(
            "echo x > /kept/file", binds=(kit.bind("/kept", readonly=True),)
        )
        assert ended.code != 0
        assert list((kit.directory / "kept").iterdir()) == []

    async def test_nested_binds_and_files(self, kit: Kit) -> None:
        outer, inner = kit.bind("/outer"), kit.bind("/inner", readonly=True)
        (kit.directory / "inner" / "file").write_text("deep\n")
        nested = (
            outer,
            structs.replace(inner, target="/outer/in"),
            Bind(f"{inner.source}/file", "/etc/some/file", True),
        )
        _, out, _ = await kit.run("cat /outer/in/file /etc/some/file", binds=nested)
        assert out == "deep\ndeep\n"

    async def test_no_network_but_loopback(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/net/dev")
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:]] == ["lo"]

    async def test_the_internet_by_an_interface_of_its_own_when_asked_for(self, kit: Kit) -> None:
        kit.need_program("slirp4netns")
        kit.need_program("nft")
        if kit.is_of_user and not os.access("/dev/net/tun", os.W_OK):
            pytest.skip("this user may not use /dev/net/tun")
        _, out, _ = await kit.run("cat /proc/net/dev /etc/resolv.conf", network=True)
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:4]] == ["lo", "eth0"]
        assert "nameserver 127.0.0.53" in out

    async def test_the_api_alone_needs_no_interface(self, kit: Kit) -> None:
        reach = NetworkAccess(api=("api.example:443",))
        _, out, _ = await kit.run("cat /proc/net/dev /etc/hosts", network=True, reach=reach)
        assert [line.split(":")[0].strip() for line in out.splitlines()[2:3]] == ["lo"]
        assert "127.0.100.1\tapi.example" in out

    async def test_a_network_is_there_again_in_a_container_that_is_kept(self, kit: Kit) -> None:
        engine = kit.make(kit.settings)
        try:
            await engine.prepare(kit.image)
            await engine.create(
                ContainerSpec(
                    command=("sh", "-c", "exit 5"), network=True, reach=NetworkAccess(api=("a:1",))
                )
            )
            await asyncio.wait_for(engine.run(stop=kit.stop, stop_grace=0.1), PATIENCE)
            await engine.hold()
            order = Exec(command=("cat", "/proc/net/tcp"))
            _, out, _ = await heard(await engine.execute(order))
            assert "0164007F:0001" in out
        finally:
            await engine.remove()

    async def test_few_capabilities_and_no_new_privileges(self, kit: Kit) -> None:
        _, out, _ = await kit.run("cat /proc/self/status")
        status = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0x404FB
        assert status["Seccomp"] == "2"

    async def test_each_wall_is_that_of_the_table(self, kit: Kit) -> None:
        if not kit.walls:
            pytest.skip("the walls of this engine are in no table")
        kit.image = ArchiveImage(*tiny_image(programs=walls.PROGRAMS))
        _, out, _ = await kit.run(walls.SCRIPT)
        seen, expected = walls.observed(out), dict(kit.walls)
        if kit.is_of_user and seen["control group"] == "its own":
            # systemd has delegated one to the user.
            expected["control group"] = "its own"
        assert seen == expected

    async def test_the_image_is_not_changed(self, kit: Kit) -> None:
        await kit.run("echo x > /etc/passwd; echo y > /new")
        _, out, _ = await kit.run("cat /etc/passwd; ls /")
        assert "nobody" in out
        assert "new" not in out

    async def test_using_up_the_ram_is_told(self, kit: Kit) -> None:
        ended, _, _ = await kit.run(
            "exec dd if=/dev/zero of=/dev/null bs=200M count=1", ram=32 << 20, vcpus=1
        )
        sampled = ended.sampled_memory
        assert ended == Exit(code=137, out_of_memory=True, sampled_memory=sampled)
        assert sampled > 32 << 20 if kit.is_of_user else sampled == 0

    async def test_the_user_and_directory_of_the_image(self, kit: Kit) -> None:
        kit.image = ArchiveImage(
            *tiny_image(settings={"User": "nobody", "WorkingDir": "/tmp", "Env": ["A=b"]})
        )
        _, out, _ = await kit.run("echo $A; pwd; echo x > file && cat file; cat /proc/self/status")
        assert out.startswith("b\n/tmp\nx\n")
        user = 0 if kit.is_of_user and kit.user_ids == 1 else 65534
        assert f"Uid:\t{user}\t{user}" in out

    async def test_the_entry_point_stands_before_the_command(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*tiny_image(settings={"Entrypoint": ["sh", "-c"]}))
        assert (await kit.run_command(("echo $0", "x")))[1] == "x\n"

    async def test_a_hundred_megabytes_of_output_arrive_whole(self, kit: Kit) -> None:
        ended, out, err = await kit.run("dd if=/dev/zero bs=1M count=100; echo end >&2; exit 4")
        assert (ended, len(out), err.splitlines()[-1]) == (Exit(code=4), 100 << 20, "end")

    async def test_what_lingers_ends_with_the_command(self, kit: Kit) -> None:
        ended, out, _ = await kit.run(
            "sleep 987.654 & (sleep 987.654; echo late) & echo done; exit 5"
        )
        assert (ended, out) == (Exit(code=5), "done\n")
        assert [line for line in command_lines() if b"987.654" in line] == []

    async def test_each_process_hears_of_the_stop(self, kit: Kit) -> None:
        # The shell is the first process, and has no handler: the kernel drops its TERM.
        program = (
            "trap 'echo saved > /made/file; exit' TERM; echo > /made/bell;"
            " while :; do sleep 0.01; done"
        )
        await kit.run_and_stop(f'sh -c "{program}"; sleep 600; :')
        assert (kit.directory / "made" / "file").read_text() == "saved\n"

    @pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
    async def test_the_end_by_a_signal_is_told_as_a_shell_does(
        self, kit: Kit, signal: str, code: int
    ) -> None:
        ended, _, _ = await kit.run(f"sh -c 'kill -{signal} $$'; exit $?")
        assert ended == Exit(code=code)

    async def test_more_processes_than_the_limit_are_refused(self, kit: Kit) -> None:
        script = "i=0; while [ $i -lt 40 ]; do sleep 0.2 & i=$((i+1)); done; echo all"
        assert (await kit.run(script, processes=20))[1] == ""
        assert (await kit.run(script, processes=60))[1] == "all\n"

    async def test_the_limits_are_those_of_the_record(self, kit: Kit) -> None:
        if kit.is_of_user:
            pytest.skip("without root there may be no control group")
        engine, hierarchy = kit.make(kit.settings), find_hierarchy(mount_table())
        bind = kit.bind("/made")
        await engine.prepare(kit.image)
        command = (
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo > /made/bell; while :; do sleep 0.01; done",
        )
        try:
            with Bell(Path(bind.source) / "bell") as bell:
                await engine.create(
                    ContainerSpec(
                        command=command, binds=(bind,), ram=64 << 20, vcpus=2, processes=99
                    )
                )
                running = asyncio.create_task(engine.run(stop=kit.stop, stop_grace=kit.grace))
                await bell.rung()
                while engine.pid is None:
                    await asyncio.sleep(0)
                folders = find_folders(engine.pid, hierarchy)
                assert folders is not None
                limits = read_limits(folders)
                kit.stop.set()
                await asyncio.wait_for(running, PATIENCE)
        finally:
            await engine.remove()
        assert limits == {"ram": 64 << 20, "cpu": 200_000, "pids": 99}

    async def test_devices_are_there_for_who_was_given_them(self, kit: Kit) -> None:
        if kit.is_of_user:
            pytest.skip("only root makes device files")
        tree = make_devices(kit.directory / "tree", rocm=2)
        devices = tuple(
            Device(f"{tree}/dev/{name}", f"/dev/{name}") for name in ("kfd", "dri/renderD129")
        )
        _, out, _ = await kit.run(
            "ls /dev/dri; echo x > /dev/kfd && cat /dev/dri/renderD129 && echo used",
            devices=devices,
        )
        assert out.split() == ["renderD129", "used"]

    async def test_a_device_of_the_machine(self, kit: Kit) -> None:
        zero = (Device("/dev/zero", "/dev/kfd"),)
        _, out, _ = await kit.run("dd if=/dev/kfd bs=3 count=1; echo x > /dev/kfd", devices=zero)
        assert out == "\0\0\0"

    async def test_upper_layers_hide_lower_ones(self, kit: Kit) -> None:
        kit.image = ArchiveImage(*layered_image())
        _, out, _ = await kit.run("ls -A /d /e /f; cat /f/same")
        assert out.split() == ["/d:", "kept", "/e:", "new", "/f:", "same", "upper"]

    async def test_images_in_forms_of_other_builders(self, kit: Kit) -> None:
        outputs = {}
        images = odd_images()
        for form, image in images.items():
            kit.image = ArchiveImage(image.name, image.archive)
            _, output, _ = await kit.run(image.script)
            outputs[form] = output
        assert outputs == {form: image.output for form, image in images.items()}

    async def test_a_mount_over_a_dangling_link_of_the_image(self, kit: Kit) -> None:
        links = make_layer({"made": "/nowhere/x", "l": "/made"})
        kit.image = ArchiveImage(*make_archive([first_layer(tiny_image()[1]), links]))
        made = kit.bind("/made")
        (Path(made.source) / "f").write_text("inner")
        _, said, _ = await kit.run("cat /made/f /nowhere/x/f /l/f", binds=(made,))
        assert said == "inner" * 3
