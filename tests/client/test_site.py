"""The Python API on the API's own application; containers are acted on a stage."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lading
from lading.client.transport import HttpTransport
from lading.core.errors import Invalid, NotFound
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server, and a stage for containers."""
    with Site(tmp_path_factory.mktemp("site")) as it:
        it.call(it.world.ensure_image())
        yield it


@pytest.fixture
def site(stage: Site) -> Iterator[lading.Site]:
    """The server, for Python."""
    with lading.Site(HttpTransport(unix_socket=stage.socket), stage.world.admin) as it:
        yield it


def test_a_run_gives_its_output(stage: Site, site: lading.Site, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b\na\n")
    image = stage.call(stage.world.ensure_image())
    play = Play(stdout=b"hello\n", files={"d/x": b"1", "y": b"2"})
    with stage.acting(play):
        run = site.run(["sort", "/in"], image=image, inputs={"/in": tmp_path / "a.txt"}, name="s")
        assert run.result(30) is run
    assert (run.exit_code, run.stdout, run.stderr) == (0, "hello\n", "")
    assert list(run.output) == ["d/x", "y"]
    assert run.output["d"]["x"].read_text() == "1"
    assert (run.output["d"].save(tmp_path / "here") / "x").read_text() == "1"
    with pytest.raises(Invalid, match="is a directory"):
        run.output["d"].read_bytes()
    with pytest.raises(NotFound):
        run.output["z"].read_bytes()
    assert repr(run) == "<run s succeeded>"
    assert run.uuid in run._repr_html_()
    assert site.find(run.uuid).result(30).output["y"].read_bytes() == b"2"


def test_outputs_are_inputs_before_they_exist(stage: Site, site: lading.Site) -> None:
    image = stage.call(stage.world.ensure_image())
    with stage.acting(Play(files={"p": b"1"})):
        first = site.run(["one"], image=image)
        second = site.run(["two"], image=image, inputs={"/in": first.output["p"]}, after=[first])
        record = stage.call(stage.world.ok("GET", f"container_requests/{second.uuid}"))
        first.result(30)
    mount = {"kind": "output", "container_request": first.uuid, "path": "p"}
    assert record["mounts"]["/in"] == mount
    assert record["depends_on"] == [first.uuid]
    second.cancel()
    assert isinstance(second.exception(30), lading.RunFailed)


def test_a_failure_has_the_last_lines(stage: Site, site: lading.Site) -> None:
    image = stage.call(stage.world.ensure_image())
    with stage.acting(Play(stderr=b"no such column\n", exit_code=4)):
        run = site.run(["plot"], image=image)
        with pytest.raises(lading.RunFailed, match="plot: exit code 4\n  no such column") as failed:
            asyncio.run(_await(run))
    assert failed.value.run is run
    assert run.exit_code == 4


async def _await(run: lading.Run) -> lading.Run:
    return await run


def test_what_is_refused_is_raised_where_it_is_needed(site: lading.Site, tmp_path: Path) -> None:
    bad = site.run(["x"], image="no/such:image")
    follower = site.run(["y"], image="no/such:image", inputs={"/in": bad})
    for run in (bad, follower):
        with pytest.raises(Invalid):
            run.result(30)
    missing = site.run(["x"], image="none", inputs={"/in": tmp_path / "missing"})
    assert "no such file" in str(missing.exception(30))


def test_many_are_submitted_by_few_calls(stage: Site, site: lading.Site) -> None:
    image = stage.call(stage.world.ensure_image())
    began = time.monotonic()
    runs = [site.run(["many", str(number)], image=image) for number in range(50)]
    assert len({run.uuid for run in runs}) == 50
    # 50 calls, one after the other, take ten times as long as this on any machine.
    assert time.monotonic() - began < 30
    for run in runs:
        run.cancel()
