from __future__ import annotations

from pathlib import Path

from lading.supervisor import machine


def test_the_machine_is_described(tmp_path: Path) -> None:
    text = machine.describe_machine(tmp_path).decode()
    for title in (
        "Host Information",
        "CPU Information",
        "Memory Information",
        "Disk Space",
        "Disk INodes",
    ):
        assert f"{title}\n" in text
    assert str(tmp_path) in text


def test_the_mount_table() -> None:
    assert "/proc" in machine.mount_table()


def test_certificates_are_found_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "ca").touch()
    places = (str(tmp_path / "none"), str(tmp_path / "ca"))
    assert machine.certificates(places) == str(tmp_path / "ca")
    assert machine.certificates(()) is None


def test_what_cannot_be_read_is_said() -> None:
    assert machine.mount_table("/none") == "/none: No such file or directory"
