"""put, get, ls and cat against a real API and block store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.site import Site


def _put(site: Site, here: Path, text: str = "hello\n") -> str:
    (here / "d" / "sub").mkdir(parents=True)
    (here / "d" / "a.txt").write_text(text)
    (here / "d" / "sub" / "b.txt").write_text("b")
    return site.lading("put", "d").stdout.strip()


def test_a_directory_goes_in_and_comes_out(site: Site, here: Path) -> None:
    pdh = _put(site, here)
    done = site.lading("get", pdh, "out")
    assert (here / "out" / "a.txt").read_text() == "hello\n"
    assert (here / "out" / "sub" / "b.txt").read_text() == "b"
    assert "out: 2 files, 7 B" in done.stderr


def test_what_is_there_is_not_sent_again(site: Site, here: Path) -> None:
    pdh = _put(site, here, "again\n")
    done = site.lading("put", "d")
    assert done.stdout.strip() == pdh
    assert "already stored 2 files, 7 B" in done.stderr
    named = json.loads(site.lading("put", "--json", "--name", "other", "d").stdout)
    assert (named["portable_data_hash"], named["name"], named["was_there"]) == (pdh, "other", True)
    listed = json.loads(site.lading("ls", "--json").stdout)
    assert [one["name"][:1] for one in listed if one["portable_data_hash"] == pdh] == ["o", "d"]


def test_how_and_where_it_is_kept(site: Site, here: Path) -> None:
    pdh = _put(site, here, "kept\n")
    project = site.call(
        site.world.ok("POST", "groups", {"group": {"group_class": "project", "name": "kept"}})
    )["uuid"]
    wish = ("--copies", "2", "--storage-class", "default", "--project", project)
    made = json.loads(site.lading("put", "--json", *wish, "d").stdout)
    record = site.call(site.world.ok("GET", f"collections/{made['uuid']}"))
    assert (record["portable_data_hash"], record["owner_uuid"], made["was_there"]) == (
        pdh,
        project,
        False,
    )
    assert (record["replication_desired"], record["storage_classes_desired"]) == (2, ["default"])
    again = json.loads(site.lading("put", "--json", *wish, "d").stdout)
    assert again == {**made, "was_there": True}
    refused = site.lading("put", "--storage-class=nosuch", "d", code=1).stderr
    assert "this site has no class 'nosuch'; its classes: default" in refused


def test_several_paths_by_their_names(site: Site, here: Path) -> None:
    pdh = _put(site, here, "several\n")
    assert site.lading("ls", pdh).stdout.split() == ["8", "B", "a.txt", "1", "B", "sub/"]
    both = site.lading("put", "d/a.txt", "d/sub").stdout.strip()
    assert json.loads(site.lading("ls", "-r", "--json", both).stdout) == [
        {"path": "a.txt", "type": "file", "size": 8},
        {"path": "sub/b.txt", "type": "file", "size": 1},
    ]
    (here / "e").mkdir()
    (here / "e" / "a.txt").write_text("other")
    assert "d/a.txt has the same name" in site.lading("put", "d/a.txt", "e/a.txt", code=1).stderr


def test_single_files(site: Site, here: Path) -> None:
    pdh = _put(site, here, "single\n")
    site.lading("get", f"{pdh}/sub/b.txt")
    assert (here / "b.txt").read_text() == "b"
    site.lading("get", f"{pdh}/a.txt", "e.txt")
    (here / "f").mkdir()
    answer = json.loads(site.lading("get", "--json", f"{pdh}/a.txt", "f").stdout)
    assert answer == {"path": "f/a.txt", "file_count": 1, "file_size_total": 7}
    assert (here / "f" / "a.txt").read_text() == (here / "e.txt").read_text() == "single\n"
    assert site.lading("ls", f"{pdh}/sub/b.txt").stdout.split() == ["1", "B", "sub/b.txt"]


def test_names_with_control_characters_come_back_as_they_were(site: Site, here: Path) -> None:
    names = ["new\nline", "esc\x1b[2J", "tab\t", "back\\slash", "del\x7f", "c:olon", " space"]
    (here / "in").mkdir()
    for name in names:
        (here / "in" / name).write_text(name)
    pdh = site.lading("put", "in").stdout.strip()
    listed = site.lading("ls", pdh).stdout.splitlines()
    assert len(listed) == len(names)
    assert all(line.isprintable() for line in listed)
    assert sorted(
        one["path"] for one in json.loads(site.lading("ls", "--json", pdh).stdout)
    ) == sorted(names)
    site.lading("get", pdh, "out")
    assert {path.name: path.read_text() for path in (here / "out").iterdir()} == {
        name: name for name in names
    }


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "./x", "/etc/passwd", "d/" * 10_000 + "f", "a\0b"]
)
def test_no_path_leads_out_of_a_collection(site: Site, here: Path, path: str) -> None:
    pdh = _put(site, here, "hostile\n")
    before = sorted(here.rglob("*"))
    for command in (
        ("get", f"{pdh}/{path}", "out"),
        ("cat", f"{pdh}/{path}"),
        ("ls", f"{pdh}/{path}"),
    ):
        said = site.lading(*command, code=1).stderr
        assert said.startswith("lading: ")
        assert len(said.splitlines()) == 1
    assert sorted(here.rglob("*")) == before


def test_cat(site: Site, here: Path) -> None:
    pdh = _put(site, here, "cat\n")
    assert site.lading("cat", f"{pdh}/a.txt", f"{pdh}/sub/b.txt").stdout == "cat\nb"
    (one,) = json.loads(site.lading("cat", "--json", f"{pdh}/a.txt").stdout)
    assert one == {"path": f"{pdh}/a.txt", "text": "cat\n"}
    assert site.lading("cat", "--range", "1-2", f"{pdh}/a.txt").stdout == "at"
    assert site.lading("cat", "--range", "2-", f"{pdh}/a.txt").stdout == "t\n"
    for wrong in ("2", "-2", "3-1", "a-b"):
        assert (
            f"'{wrong}': " in site.lading("cat", f"--range={wrong}", f"{pdh}/a.txt", code=2).stderr
        )
    assert site.lading("ls", "-l", pdh).stdout.split() == ["4", "1", "a.txt", "1", "1", "sub/"]


def test_the_list_of_collections(site: Site, here: Path) -> None:
    pdh = _put(site, here, "list\n")
    lines = site.lading("ls").stdout.splitlines()
    assert lines[0].split() == ["UUID", "HASH", "FILES", "SIZE", "AGE", "NAME"]
    assert any(pdh in line and " 2 " in line for line in lines[1:])


def test_projects_are_listed(site: Site, here: Path) -> None:
    site.lading("project", "create", "reads")
    site.lading("project", "create", "old", "--in", "reads")
    _put(site, here)
    site.lading("put", "--project", "reads", "--name", "first", "d")
    lines = site.lading("ls", "reads").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["NAME", "old/", "first"]
    listed = json.loads(site.lading("ls", "--json", "reads").stdout)
    assert [(one["name"], one["file_count"]) for one in listed] == [("old/", None), ("first", 2)]
    assert json.loads(site.lading("ls", "--json", "reads/old").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["get", "x", "y"], 1, "x: names nothing stored"),
        (["get", "d41d8cd98f00b204e9800998ecf8427e+1"], 2, "where to? name a directory"),
        (["get", "00000000000000000000000000000000+1/a"], 1, "not found"),
        (["cat", "{}/sub"], 1, "is a directory; see 'lading ls"),
        (["cat", "{}/nosuch"], 1, "holds no nosuch; see 'lading ls"),
        (["put", "nosuch"], 2, "'nosuch' does not exist"),
        (["ls", "zzzzz-gj3su-000000000000000"], 1, "is neither a collection nor a request"),
        (["ls", "zzzzz-j7d0g-00000000000nope"], 1, "not found"),
        (["ls", "nosuch/here"], 1, "nosuch: names nothing stored"),
    ],
)
def test_mistakes_are_named(
    site: Site, here: Path, arguments: list[str], code: int, said: str
) -> None:
    pdh = _put(site, here)
    done = site.lading(*(text.format(pdh) for text in arguments), code=code)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_get_replaces_nothing_unasked(site: Site, here: Path) -> None:
    pdh = _put(site, here, "mine\n")
    site.lading("get", pdh, "out")
    assert "out: 2 files" in site.lading("get", pdh, "out").stderr
    (here / "out" / "a.txt").write_text("changed")
    said = site.lading("get", pdh, "out", code=1).stderr
    assert "out/a.txt: is there already; --overwrite replaces it" in said
    assert "is there already" in site.lading("get", f"{pdh}/a.txt", "out", code=1).stderr
    site.lading("get", "--overwrite", pdh, "out")
    assert (here / "out" / "a.txt").read_text() == "mine\n"


def test_put_goes_on_after_a_file_could_not_be_read(site: Site, here: Path) -> None:
    _put(site, here, "resumed\n")
    (here / "d" / "bad").symlink_to("nowhere")
    said = site.lading("put", "d", code=1).stderr
    assert "d/bad: is a link to nowhere, which does not exist; remove the link" in said
    (here / "d" / "bad").unlink()
    os.mkfifo(here / "d" / "bad")
    assert "d/bad: is a named pipe; leave it out" in site.lading("put", "d", code=1).stderr
    (here / "d" / "bad").unlink()
    (here / "d" / "new").write_text("new")
    first = site.lading("put", "d").stdout
    assert site.lading("ls", first.strip()).stdout.split()[-1] == "sub/"
    assert site.lading("put", "d").stdout == first
