"""diff and du against a real API and block store."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.site import Site


def _put(site: Site, here: Path, **files: str) -> str:
    folder = here / str(len(list(here.iterdir())))
    for name, text in files.items():
        path = folder / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return site.lading("put", str(folder)).stdout.strip()


def test_differences(site: Site, here: Path) -> None:
    one = _put(site, here, same="same", changed="1", size="12", gone="g")
    two = _put(site, here, same="same", changed="2", size="123", d_new="n")
    done = site.lading("diff", one, two, code=1)
    assert done.stdout.splitlines() == [
        "~ changed (1 B)",
        "+ d/new (1 B)",
        "- gone (1 B)",
        "~ size (2 B -> 3 B)",
    ]
    found = json.loads(site.lading("diff", "--json", one, two, code=1).stdout)
    assert found[1] == {"path": "d/new", "change": "added", "before": None, "after": 1}
    assert site.lading("diff", one, one).stdout == ""
    assert site.lading("diff", f"{one}/same", f"{two}/same").stdout == ""
    assert (
        site.lading("diff", f"{one}/same", f"{two}/size", code=1).stdout
        == "~ (file) (4 B -> 3 B)\n"
    )


def test_usage(site: Site, here: Path) -> None:
    one = _put(site, here, a="12345", b="678")
    heading, row = site.lading("du", one).stdout.splitlines()
    # One alone shares nothing with others that were named.
    assert heading.split() == ["FILES", "SIZE", "STORED", "SOURCE"]
    assert row.split() == ["2", "8", "B", "8", "B", one]
    assert "SHARED" in site.lading("du", one, one).stdout
    both = json.loads(site.lading("du", "--json", one, f"{one}/a").stdout)
    assert both["sources"][1] == {
        "source": f"{one}/a",
        "files": 1,
        "logical": 5,
        "stored": 8,
        "shared": 8,
    }
    assert both["total"] == {"files": 3, "logical": 13, "stored": 8, "shared": 8}
    assert site.lading("du", one, one).stdout.splitlines()[-1].endswith("in all")


def test_usage_of_everything(site: Site, here: Path) -> None:
    _put(site, here, a="shared block")
    project = {"name": "study", "group_class": "project"}
    site.call(site.world.ok("POST", "groups", {"group": project}))
    site.lading("put", "--project", "study", "--name", "copy", str(here / "0"))
    site.lading("put", "--project", "study", "--name", "own", str(here / "0" / "a"))
    found = json.loads(site.lading("du", "--json").stdout)
    study = next(one for one in found["groups"] if one["project"].startswith("study ("))
    assert (study["collections"], study["logical"], study["stored"]) == (2, 24, 12)
    assert study["shared"] == 12
    assert found["total"]["stored"] < sum(one["stored"] for one in found["groups"])
    kinds = json.loads(site.lading("du", "--by", "kind", "--json").stdout)["groups"]
    assert [one["kind"] for one in kinds] == ["data"]
    done = site.lading("du", "--by", "collection", "--project", "study")
    assert [line.split()[-1] for line in done.stdout.splitlines()[1:]] == ["copy", "own"]
    assert "12 B stored in all" in done.stderr
