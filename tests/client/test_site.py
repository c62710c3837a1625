"""The Python API on the API's own application; containers are acted on a stage."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.client.site import fill
from lading.core.errors import Invalid, NotFound
from tests.cli.site import Play, Site


def test_a_run_gives_its_output(stage: Site, site: lading.Site, image: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b\na\n")
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
    assert run.uuid in run.to_html()
    # Known at once, as it has ended.
    assert site.request(run.uuid).state == "succeeded"
    assert site.request(run.uuid).result(30).output["y"].read_bytes() == b"2"


def test_outputs_are_inputs_before_they_exist(stage: Site, site: lading.Site, image: str) -> None:
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


def test_a_failure_has_the_last_lines(stage: Site, site: lading.Site, image: str) -> None:
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
    with pytest.raises(Invalid, match="inputs: /in: .*/missing: no such file or directory"):
        site.run(["x"], image="none", inputs={"/in": tmp_path / "missing"})
    with pytest.raises(Invalid, match="no such file or directory"):
        site.map(["x"], [tmp_path, tmp_path / "missing"], image="none", inputs={"/in": "{}"})


def test_values_as_texts(stage: Site, site: lading.Site, image: str) -> None:
    run = site.run(
        ["texts"], image=image, ram="1GiB-2GiB", vcpus="1-2", tmp={"/scratch": "2GiB"},
        max_run_time="2h", output_ttl="14d", start_after="2030-01-02T03:04:05Z", expires="9d",
    )  # fmt: skip
    record = stage.call(stage.world.ok("GET", f"container_requests/{run.uuid}"))
    assert record["runtime_constraints"]["ram"] == [1 << 30, 2 << 30]
    assert record["mounts"]["/scratch"] == {"kind": "tmp", "capacity": 2 << 30}
    assert record["scheduling_parameters"]["max_run_time"] == 7200
    assert (record["output_ttl"], bool(record["expires_at"])) == (14 * 86400, True)
    run.cancel()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ram": "much"}, "ram: 'much': write an amount, or the least and the most"),
        ({"ram": 64}, "ram: '64': is 64 bytes, which is too little; write a unit"),
        ({"vcpus": 0}, "vcpus: '0': write an amount"),
        ({"tmp": "scratch"}, "tmp: scratch: must be an absolute path"),
        ({"max_run_time": "soon"}, "max_run_time: not a duration: 'soon'"),
        ({"start_after": "later"}, "start_after: 'later' is no moment; write for example 2h30m"),
        ({"ramm": "1GiB"}, "ramm: is no option and no attribute of a request; did you mean 'ram'"),
        ({"inputs": {"in": b"x"}}, "inputs: in: must be an absolute path"),
        ({"inputs": {"/in": 5}}, "inputs: /in: is of type int; give a path, bytes, a run"),
        ({"inputs": {"/\udcff": b"x"}}, "inputs: has text that is not UTF-8"),
        ({"inputs": {"/in": {"kind": "\udcff"}}}, "inputs: /in: has text that is not UTF-8"),
        ({"inputs": {5: b"x"}}, "inputs: 5: give the path as text"),
        ({"name": "\udcff"}, "name: has text that is not UTF-8"),
        ({"secrets": {"KEY": "\udcff"}}, "secret_mounts: has text that is not UTF-8"),
        ({"properties": {"a": object()}}, "properties: cannot be sent as JSON"),
        ({"env": {"A": 1}}, "env: A: 1 is of type int; write str(...)"),
        ({"env": {"A": "\udcff"}}, "env: A: '\\xff' is not UTF-8 text"),
        ({"env": {"A": "x\0"}}, "env: A: has a NUL character"),
        ({"env": ["A=1"]}, "env: is of type list; give texts by their names"),
        ({"after": ["a-uuid"]}, "after: a-uuid is of type str; give runs"),
        ({"after": "a-uuid"}, "after: is of type str; give a list of runs"),
    ],
)
def test_mistakes_are_refused_at_once(site: lading.Site, options: Any, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        site.run(["x"], image="none", **options)
    with pytest.raises(Invalid, match="give it as a list of words"):
        site.run("sort x")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["echo", 1], "command: word 2: 1 is of type int; write str(...)"),
        (["echo", "a\0"], "command: word 2: has a NUL character"),
        (["echo", "\udcff"], "command: word 2: '\\xff' is not UTF-8 text"),
    ],
)
def test_a_wrong_word_is_named_at_once(site: lading.Site, command: Any, said: str) -> None:
    with pytest.raises(Invalid, match=re.escape(said)):
        site.run(command)


def test_items_are_mapped(stage: Site, site: lading.Site, image: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    first = site.run(["first"], image=image)
    runs = site.map(
        ["wc", "-{}", "{x}"],
        [tmp_path / "a", first.output["b"]],
        image=image,
        inputs={"/in": "{}", "/same": tmp_path / "a", "/text": b"t", "/bytes": b"\xff"},
        env={"FILE": "{}"},
        name="count",
    )
    records = [stage.call(stage.world.ok("GET", f"container_requests/{one.uuid}")) for one in runs]
    assert [one["name"] for one in records] == ["count.0", "count.1"]
    assert records[0]["command"] == ["wc", f"-{tmp_path}/a", "{x}"]
    assert records[0]["environment"] == {"FILE": f"{tmp_path}/a"}
    mounts = records[0]["mounts"]
    assert mounts["/in"] == mounts["/same"]
    assert mounts["/text"] == {"kind": "text", "content": "t"}
    assert mounts["/bytes"]["path"] == "content"
    assert records[1]["mounts"]["/in"]["container_request"] == first.uuid
    first.cancel()


def test_a_closed_site_says_so(site: lading.Site) -> None:
    site.close()
    site.close()
    with pytest.raises(Invalid, match="is closed"):
        site.put("x")


def test_closing_ends_the_calls_of_other_threads(site: lading.Site) -> None:
    begun = threading.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as other:
        call = other.submit(lambda: site.call(hang()))
        assert begun.wait(30)
        site.close()
        with pytest.raises(Invalid, match="is closed"):
            call.result(30)


def test_several_threads_may_close_a_site(site: lading.Site) -> None:
    with ThreadPoolExecutor(8) as threads:
        for closed in [threads.submit(site.close) for _ in range(8)]:
            closed.result(30)
    with pytest.raises(Invalid, match="is closed"):
        site.put("x")


def test_the_names_of_the_python_api_can_be_completed() -> None:
    assert dir(lading) == sorted(lading.__all__)


def test_secrets_are_in_no_record(
    stage: Site, site: lading.Site, image: str, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("canary-of-a-file\n")
    given: dict[str, Any] = {"DB": "canary-of-a-text", "/etc/key": tmp_path / "key"}
    run = site.run(["x"], image=image, secrets=given, reuse=False)
    record = stage.call(stage.world.ok("GET", f"container_requests/{run.uuid}"))
    assert [one["target"] for one in record["secrets_needed"]] == ["/etc/key", "/run/secrets/DB"]
    container = record["container_uuid"]
    assert "canary" not in str(
        [record, stage.call(stage.world.ok("GET", f"containers/{container}")), repr(run)]
    )
    stage.call(stage.world.lock(container))
    own = stage.call(stage.world.container_token(container))
    path = f"containers/{container}/secret_mounts"
    read = stage.call(stage.world.ok("GET", path, token=own))["secret_mounts"]
    assert {target: one["content"] for target, one in read.items()} == {
        "/run/secrets/DB": "canary-of-a-text", "/etc/key": "canary-of-a-file\n",
    }  # fmt: skip
    run.cancel()
    with pytest.raises(Invalid, match="UTF-8"):
        (tmp_path / "key").write_bytes(b"\xff")
        site.run(["x"], image=image, secrets={"DB": tmp_path / "key"})


def test_an_item_is_one_word_in_the_script_of_a_shell() -> None:
    made = fill(["sh", "-c", "echo {0} > {1}"], ["a; touch x", "b c"], inputs={"/in": "{1}"})
    assert made["command"][2] == (
        "item_0='a; touch x'; item_1='b c'; echo \"${item_0}\" > \"${item_1}\""
    )
    assert made["inputs"] == {"/in": "b c"}
    odd = fill(["cut", "-f{}"], [3], inputs={"/a": "x3y", "/b": "{}", "/c": "{7}", "/d": b"x"})
    assert odd["command"] == ["cut", "-f3"]
    assert odd["inputs"] == {"/a": "x3y", "/b": 3, "/c": "{7}", "/d": b"x"}
