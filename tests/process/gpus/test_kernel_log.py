"""The kernel's log, each record once."""

from __future__ import annotations

from pathlib import Path

from lading.process.gpus.kernel_log import KernelLog


def test_each_record_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    log = tmp_path / "dev/kmsg"
    log.write_text("3,1,5,-;first\n3,2,6,-;second\n SUBSYSTEM=pci\n12,3,7,-;a program\n")
    memory = tmp_path / "state/kernel-log"
    assert KernelLog(tmp_path, memory).read() == ["first", "second"]
    with log.open("a") as file:
        file.write("3,4,7,-;third\n")
    reader = KernelLog(tmp_path, memory)
    assert reader.read() == ["third"]
    assert reader.read() == []


def test_a_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert KernelLog(tmp_path, tmp_path / "x").read() == []
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text("3,1,5,-;first\n")
    (tmp_path / "file").touch()
    reader = KernelLog(tmp_path, tmp_path / "file/x")
    assert reader.read() == reader.read() == ["first"]
