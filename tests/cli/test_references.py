"""Names of stored things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lading.cli.references import FileReference, need_reference, parse_reference
from lading.core.errors import Invalid
from tests.cli.site import Play, Site

_PDH = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"
_UUID = "zzzzz-4zz18-000000000000001"


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (_PDH, FileReference(_PDH)),
        (f"{_PDH}/a/b/", FileReference(_PDH, "a/b")),
        (f"{_UUID}/", FileReference(_UUID)),
        (f"keep:{_PDH}/a", FileReference(_PDH, "a")),
        ("last/x", FileReference("last", "x")),
        ("file.txt", None),
        ("./last", None),
    ],
)
def test_forms(text: str, reference: FileReference | None) -> None:
    assert parse_reference(text) == reference


def test_what_names_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="names nothing stored; give a hash, a uuid or the name"):
        need_reference("/file.txt")


def test_names_of_collections(site: Site, here: Path) -> None:
    (here / "f").write_text("x")
    site.lading("put", "--name", "My data", "f")
    assert need_reference("My data/f") == FileReference("My data", "f")
    assert site.lading("cat", "My data/f").stdout == "x"
    assert "Your data: names nothing stored" in site.lading("cat", "Your data/f", code=1).stderr


def test_requests_and_containers_stand_for_their_output(site: Site) -> None:
    image = site.call(site.world.ensure_image())
    assert "you have made no request yet" in site.lading("cat", "last/x", code=1).stderr
    waiting = site.lading("run", "--detach", "--image", image, "--", "wait").stdout.strip()
    assert (
        f"{waiting}: has no output yet; see 'lading request why'"
        in site.lading("ls", waiting, code=1).stderr
    )
    (one,) = site.call(site.queued())
    assert "has no output; it is waiting" in site.lading("ls", one["uuid"], code=1).stderr
    site.command("run", "--image", image, "--", "make", plays=[Play(files={"x": b"made"})])
    assert site.lading("cat", "last/x").stdout == "made"
    done = site.call(
        site.world.ok("GET", "containers", params={"filters": [["state", "=", "Complete"]]})
    )
    assert site.lading("cat", f"{done['items'][0]['uuid']}/x").stdout == "made"


def test_an_end_that_several_have(site: Site) -> None:
    image = site.call(site.world.ensure_image())
    for number in range(40):
        site.call(site.world.submit(str(number), state="Uncommitted", container_image=image))
    ends = [
        one["uuid"][-1] for one in site.call(site.world.ok("GET", "container_requests"))["items"]
    ]
    common = max(ends, key=ends.count)
    assert (
        "several requests have a uuid that ends so"
        in site.lading("request", "show", common, code=1).stderr
    )


def test_requests_by_name(site: Site) -> None:
    image = site.call(site.world.ensure_image())
    for text in (b"older", b"newer"):
        site.command(
            "run", "--image", image, "--name", "made here", "--no-reuse", "--", "make",
            plays=[Play(files={"x": text})],
        )  # fmt: skip
    shown = json.loads(site.lading("request", "show", "--json", "made here").stdout)
    assert (
        shown["uuid"] == json.loads(site.lading("request", "show", "--json", "last").stdout)["uuid"]
    )
    assert site.lading("cat", "made here/x").stdout == "newer"


def test_the_last_request_is_that_of_the_caller(site: Site) -> None:
    image = site.call(site.world.ensure_image())
    mine = site.call(site.world.submit("mine", container_image=image))
    token = site.call(site.world.user("ada"))
    site.call(site.world.submit("hers", token=token))
    # An administrator sees both requests.
    shown = json.loads(site.lading("request", "show", "--json", "last").stdout)
    assert shown["uuid"] == mine["uuid"]


def test_projects_by_name(site: Site) -> None:
    def make(name: str, owner: str = "") -> str:
        body = {"group_class": "project", "name": name, **({"owner_uuid": owner} if owner else {})}
        return str(site.call(site.world.ok("POST", "groups", body))["uuid"])

    def listing(project: str, code: int = 0) -> str:
        return site.lading("request", "list", "--project", project, code=code).stderr

    thesis = make("thesis")
    figures, other = make("figures", thesis), make("other")
    make("figures", other)
    image = site.call(site.world.ensure_image())
    uuid = site.lading(
        "run", "--detach", "--image", image, "--project", "thesis/figures", "--", "draw"
    ).stdout.strip()
    assert (
        json.loads(site.lading("request", "show", "--json", uuid).stdout)["owner_uuid"] == figures
    )
    assert "several projects are called so; give PARENT/figures" in listing("figures", 1)
    make("figures")
    # Of several the own one.
    assert listing("figures") == listing(thesis) == ""
    assert "no project is called so; see 'lading project list'" in listing("thesis/none", 1)
    assert "is not the uuid of a project" in listing(_UUID, 1)


def test_a_failure_does_not_hide_the_output_before_it(site: Site) -> None:
    image = site.call(site.world.ensure_image())

    def run(*command: str, play: Play, code: int = 0) -> str:
        wanted = ("run", "--json", "--image", image, "--name", "plot", "--", *command)
        return str(json.loads(site.command(*wanted, plays=[play], code=code).stdout)["uuid"])

    first = run("plot", "1", play=Play(files={"x": b"good"}))
    assert site.lading("cat", "plot/x").stderr == ""
    second = run("plot", "2", play=Play(files={}, exit_code=3), code=3)
    for name in ("plot", "last"):
        done = site.lading("cat", f"{name}/x")
        assert done.stdout == "good"
        assert f"{name}: the newest, {second}, is failed 3 and has no output" in done.stderr
        assert f"this is the output of {first}" in done.stderr
    made = json.loads(site.lading("request", "show", "--json", first).stdout)
    assert made["output_uuid"] in site.lading("share", "--link", "plot").stdout
    third = run("plot", "3", play=Play(files={"x": b"part"}, exit_code=4), code=4)
    done = site.lading("cat", "plot/x")
    assert (done.stdout, f"{third} is failed 4; this is the output" in done.stderr) == (
        "part",
        True,
    )
    waiting = site.lading("run", "--detach", "--image", image, "--name", "plot", "--", "plot", "4")
    assert f"{waiting.stdout.strip()}, is waiting and has" in site.lading("cat", "plot/x").stderr
    site.lading("request", "cancel", "plot")
    assert "is cancelled and has no output" in site.lading("cat", "plot/x").stderr


def test_what_never_had_an_output_says_so(site: Site) -> None:
    image = site.call(site.world.ensure_image())
    play = Play(files={}, exit_code=3)
    site.command("run", "--image", image, "--name", "bad", "--", "x", plays=[play], code=3)
    assert site.lading("ls", "bad").stdout == ""
