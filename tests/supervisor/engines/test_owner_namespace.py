"""The one id of an ordinary user's containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.images import Account, ImageProcess
from lading.core.user_ids import Extent
from lading.supervisor.engines.bundle import Bundle, make_config
from lading.supervisor.engines.owner_namespace import OwnerNamespace, admit


@pytest.mark.parametrize(
    ("account", "note"), [(Account(0, 0), ""), (Account(1000, 0), "1000:0"), (Account(0, 5), "0:5")]
)
def test_every_command_runs_as_root_of_its_container(account: Account, note: str) -> None:
    admitted, text = admit(account, 1)
    assert admitted == Account(0, 0)
    assert note in text
    assert bool(text) is bool(note)


@pytest.mark.parametrize(
    ("account", "is_kept"),
    [
        (Account(1000, 1000, (5, 65_536)), True),
        (Account(65_537, 0), False),
        (Account(0, 0, (65_537,)), False),
    ],
)
def test_an_account_of_the_range_is_the_command_s(account: Account, is_kept: bool) -> None:
    admitted, note = admit(account, 65_537)
    assert admitted == (account if is_kept else Account(0, 0))
    assert ("this user has 65537 ids" in note) is not is_kept


def test_no_file_changes_its_owner(tmp_path: Path) -> None:
    namespace = OwnerNamespace(tmp_path / "run", tmp_path / "machine")
    # Root of the machine could: the call must do nothing even then.
    before = tmp_path.stat().st_uid
    namespace.root = 12_345
    namespace.own(tmp_path)
    assert tmp_path.stat().st_uid == before
    assert namespace.lacking(Account(3_000_000, 3_000_000)) == frozenset()


def test_a_terminal_has_no_group_that_the_container_lacks() -> None:
    def options(ids: tuple[Extent, ...]) -> list[str]:
        process = ImageProcess(arguments=("true",), environment=(), cwd="/", user="")
        bundle = Bundle(
            rootfs="/r",
            process=process,
            account=Account(0, 0),
            binds=(),
            gate="/g",
            machine="x86_64",
            ids=ids,
        )
        mounts = make_config(bundle)["mounts"]
        found: list[str] = next(one["options"] for one in mounts if one["type"] == "devpts")
        return found

    assert "gid=5" in options(())
    assert "gid=5" in options((Extent(0, 1000, 10),))
    assert "gid=5" not in options((Extent(0, 0, 1),))
