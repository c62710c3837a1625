"""cp, mv and rm against a real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.site import Site


def _put(site: Site, here: Path, name: str) -> str:
    (here / "d" / "sub").mkdir(parents=True, exist_ok=True)
    (here / "d" / "a.txt").write_text("a")
    (here / "d" / "sub" / "b.txt").write_text("bb")
    uuid: str = json.loads(site.lading("put", "--json", "--name", name, "d").stdout)["uuid"]
    return uuid


def _files(site: Site, uuid: str) -> list[str]:
    return [one["path"] for one in json.loads(site.lading("ls", "-r", "--json", uuid).stdout)]


def test_into_a_new_collection_and_one_that_is_there(site: Site, here: Path) -> None:
    uuid = _put(site, here, "origin")
    made = json.loads(
        site.lading("cp", "--new", "--json", f"{uuid}/sub", f"{uuid}/a.txt", "copies").stdout
    )
    assert (made["name"], made["file_count"], made["file_size_total"]) == ("copies", 2, 3)
    assert _files(site, made["uuid"]) == ["a.txt", "sub/b.txt"]
    done = site.lading("cp", f"{uuid}/a.txt", f"{made['uuid']}/sub")
    assert f"{made['uuid']} (copies): 3 files" in done.stderr
    site.lading("cp", uuid, "copies/all")
    site.lading("cp", f"{uuid}/a.txt", f"{made['uuid']}/new/name")
    site.lading("cp", f"{uuid}/a.txt", f"{uuid}/sub/b.txt", f"{made['uuid']}/two")
    assert _files(site, made["uuid"]) == [
        "a.txt", "all/a.txt", "all/sub/b.txt", "new/name", "sub/a.txt", "sub/b.txt", "two/a.txt",
        "two/b.txt",
    ]  # fmt: skip
    assert site.lading("cat", f"{made['uuid']}/two/b.txt").stdout == "bb"


def test_nothing_is_replaced_unasked(site: Site, here: Path) -> None:
    uuid = _put(site, here, "kept")
    said = site.lading("cp", f"{uuid}/sub/b.txt", f"{uuid}/a.txt", code=1).stderr
    assert f"{uuid}/a.txt: is there already; --overwrite replaces it" in said
    site.lading("cp", "--overwrite", f"{uuid}/sub/b.txt", f"{uuid}/a.txt")
    assert site.lading("cat", f"{uuid}/a.txt").stdout == "bb"
    assert (
        "sub: a directory is there" in site.lading("cp", uuid, uuid, "--overwrite", code=1).stderr
    )


def test_moving_and_removing(site: Site, here: Path) -> None:
    uuid = _put(site, here, "moved")
    site.lading("mv", f"{uuid}/a.txt", f"{uuid}/sub")
    site.lading("mv", f"{uuid}/sub", "other")
    assert _files(site, uuid) == ["other/a.txt", "other/b.txt"]
    site.lading("rm", f"{uuid}/other/a.txt")
    assert _files(site, uuid) == ["other/b.txt"]
    site.lading("rm", f"{uuid}/other")
    assert _files(site, uuid) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mv", "{0}", "x"], 2, "which file?"),
        (["mv", "{0}/sub", "sub/x"], 1, "cannot be moved into itself"),
        (["mv", "{0}/a.txt", "zzzzz-4zz18-000000000000009/x"], 2, "within one collection"),
        (["mv", "{0}/nosuch", "x"], 1, "holds no nosuch; see 'lading ls"),
        (["rm", "{0}"], 2, "puts a whole collection into the trash"),
        (["rm", "{0}/a.txt", "other/b"], 2, "one collection at a time"),
        (["rm", "{0}/nosuch"], 1, "holds no nosuch"),
        (
            ["cp", "{0}/a.txt", "d41d8cd98f00b204e9800998ecf8427e+0/x"],
            1,
            "content that cannot change",
        ),
        (["cp", "{0}/a.txt", "{0}/a.txt", "{0}/y"], 1, "two sources have this name"),
    ],
)
def test_mistakes_change_nothing(
    site: Site, here: Path, arguments: list[str], code: int, said: str
) -> None:
    uuid = _put(site, here, f"mistakes {said}")
    assert said in site.lading(*(text.format(uuid) for text in arguments), code=code).stderr
    assert _files(site, uuid) == ["a.txt", "sub/b.txt"]
