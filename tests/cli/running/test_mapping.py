"""`lading map`: one request for each file or row."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lading.cli.running import mapping
from lading.core.placeholders import fill_command
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


@pytest.fixture
def reads(here: Path) -> Path:
    """Three files."""
    folder = here / "reads"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.fq").write_text(name)
    return folder


def test_one_request_for_each_file(site: Site, image: str, reads: Path, here: Path) -> None:
    plays = [Play(files={"n": str(number).encode()}) for number in range(3)]
    done = site.command(
        "map", "--image", image, "-i", "reads/*.fq", "--input", "/in={}", "--env", "F={stem}",
        "--output", "results", "--", "count", "{name}", "awk {print}",
        plays=plays,
    )  # fmt: skip
    assert "3 of 3 succeeded" in done.stderr
    rows = json.loads(site.lading("wait", "--json", "--name", "count.*").stdout)
    assert [row["name"] for row in rows] == ["count.0", "count.1", "count.2"]
    first = json.loads(site.lading("request", "show", "--json", rows[0]["uuid"]).stdout)
    assert first["command"] == ["count", "a.fq", "awk {print}"]
    assert first["environment"] == {"F": "a"}
    assert first["mounts"]["/in"]["path"] == "a.fq"
    found = {path.parent.name: path.read_text() for path in (here / "results").rglob("n")}
    assert found == {"count.0": "0", "count.1": "1", "count.2": "2"}


_ODD = ("a b", "it's", '"', "$(touch PWNED)", "`touch PWNED`", "; touch PWNED", "*", "a\nb", "\\")
_SCRIPTS = ("{}", "'{}'", '"{}"', '"$(printf %s {})"', "$'{}'", "{:q}")


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("text", _SCRIPTS)
@pytest.mark.parametrize("value", _ODD)
def test_a_shell_reads_each_value_as_one_word(
    tmp_path: Path, shell: str, text: str, value: str
) -> None:
    if (shell, text) == ("sh", "$'{}'"):
        shell = "bash"  # A quoting of bash alone.
    command = fill_command((shell, "-c", f"printf '%s|' {text} end"), {"": value})
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode() == f"{value}|end|"
    assert not list(tmp_path.iterdir())


def test_values_in_a_script_are_recorded_as_variables(site: Site, image: str, here: Path) -> None:
    (here / "t.csv").write_text('name,val\n"a $(b)",1\n')
    uuid = site.lading(
        "map", "--image", image, "--table", "t.csv", "--detach", "--",
        "sh", "-c", "echo {val} > {name}",
    ).stdout.strip()  # fmt: skip
    shown = json.loads(site.lading("request", "show", "--json", uuid).stdout)
    assert shown["command"][2] == (
        'item_val=1; item_name=\'a $(b)\'; echo "${item_val}" > "${item_name}"'
    )
    site.lading("request", "cancel", uuid)


def test_failures_are_listed_and_the_first_one_is_the_exit_code(
    site: Site, image: str, reads: Path
) -> None:
    plays = [Play(), Play(exit_code=3), Play(exit_code=4)]
    done = site.command(
        "map", "--image", image, "-i", str(reads / "*.fq"), "--name", "bad", "--", "f", "{}",
        plays=plays, code=3,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert "bad.1: exit code 3" in lines[0]
    assert "bad.2: exit code 4" in lines[1]
    assert "1 of 3 succeeded" in done.stderr
    again = site.lading("wait", "--name", "bad.[12]", code=3)
    assert "0 of 2 succeeded" in again.stderr


def test_every_command_reads_all_of_standard_input(site: Site, image: str, reads: Path) -> None:
    ask = ("map", "--image", image, "--detach", "-i", "reads/*.fq", "--stdin", "--gpu-type", "8")
    done = site.lading(*ask, "--", "grep", "-f-", "{}", stdin=b"what")
    records = [
        json.loads(site.lading("request", "show", "--json", uuid).stdout)
        for uuid in done.stdout.split()
    ]
    assert all(record["runtime_constraints"]["gpu"]["device_count"] == 1 for record in records)
    shown = [record["mounts"]["stdin"] for record in records]
    assert len(shown) == 3
    assert shown[0] == shown[1] == shown[2]
    assert site.lading("cat", f"{shown[0]['portable_data_hash']}/stdin").stdout == "what"
    refused = site.lading(*ask, "--input", "stdin={}", "--", "sort", code=125, stdin=b"x")
    assert "--input stdin: given twice" in refused.stderr


def test_a_table_has_a_request_in_each_row(site: Site, image: str, here: Path) -> None:
    (here / "t.csv").write_text("sample, cut\nx,1\ny,2\n")
    done = site.lading(
        "map", "--image", image, "--table", "t.csv", "--detach", "--name", "t-{sample}",
        "--", "cut", "-f{cut}", "{}",
    )  # fmt: skip
    first, second = done.stdout.split()
    shown = json.loads(site.lading("request", "show", "--json", second).stdout)
    assert (shown["command"], shown["name"]) == (["cut", "-f2", "y"], "t-y.1")
    assert "lading wait --name" in done.stderr
    site.lading("request", "cancel", first, second)
    ended = site.lading("wait", first, second, code=125)
    assert "t-x.0: No request needs this container any more" in ended.stdout


def test_json_names_every_request(site: Site, image: str, reads: Path) -> None:
    done = site.command(
        "map", "--json", "--image", image, "-i", "reads/*", "--", "json", "{}",
        plays=[Play()] * 3,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert [one["exit_code"] for one in told["requests"]] == [0, 0, 0]
    assert told["output"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("map", "--", "x"), "Give --items PATTERN or --table FILE"),
        (("map", "-i", "nothing*", "--", "x"), "nothing to do"),
        (("map", "--table", "empty.csv", "--", "x"), "must have the names of the columns"),
        (("map", "--table", "short.csv", "--", "x"), "short.csv: line 2 has not 2 columns"),
        (
            ("map", "--table", "good.csv", "--input", "/in={fil}", "--", "x"),
            "good.csv: line 2: --input /in={fil}: {fil} is none of {}, {file}",
        ),
        (
            ("map", "--table", "good.csv", "--input", "/in={file}", "--image", "x", "--", "x"),
            "--input /in: no file here; nosuch: names nothing stored",
        ),
    ],
)
def test_mistakes_are_named(site: Site, here: Path, arguments: tuple[str, ...], said: str) -> None:
    (here / "empty.csv").write_text("\n")
    (here / "short.csv").write_text("a,b\n1\n")
    (here / "good.csv").write_text("file\nnosuch\n")
    assert said in site.lading(*arguments, code=125).stderr


def test_files_of_any_name_but_hidden_ones_are_items(site: Site, image: str, here: Path) -> None:
    for name in (b"good.fq", b"caf\xe9.fq", b".hidden.fq"):
        (here / os.fsdecode(name)).write_text("reads")
    done = site.lading(
        "map", "--image", image, "-i", "*.fq", "--input", "/in/{name}={}", "--detach",
        "--", "cat", "/in/{name}",
    )  # fmt: skip
    shown = [
        json.loads(site.lading("request", "show", "--json", uuid).stdout)
        for uuid in done.stdout.split()
    ]
    assert [request["command"][1] for request in shown] == ["/in/%raw-caf%E9.fq", "/in/good.fq"]
    assert ["/in/%raw-caf%E9.fq" in request["mounts"] for request in shown] == [True, False]


def test_text_that_no_record_holds_is_named(site: Site, image: str) -> None:
    text = os.fsdecode(b"\xff")
    said = site.lading("run", "--image", image, "--", "echo", text, code=125).stderr
    assert "'\\xff' is not UTF-8 text, and records hold no other" in said
    said = site.lading("request", "show", text, code=1).stderr
    assert "is not UTF-8 text" in said


def test_at_most_so_many_at_a_time(site: Site, image: str, reads: Path) -> None:
    arguments = ("map", "--image", image, "-i", f"{reads}/*", "--max-parallel", "1", "--detach")
    uuids = site.lading(*arguments, "--", "echo", "turns", "{}").stdout.split()
    found = [site.call(site.world.ok("GET", f"container_requests/{uuid}")) for uuid in uuids]
    assert len({one["parallel_group"] for one in found}) == 1
    assert {one["max_parallel"] for one in found} == {1}
    waiting = [
        site.call(site.world.ok("GET", f"containers/{one['container_uuid']}"))["priority"]
        for one in found
    ]
    assert [value > 0 for value in waiting] == [True] + [False] * (len(uuids) - 1)
    assert len(uuids) > 1
    site.lading("request", "cancel", *uuids)


def test_ctrl_c_cancels_all(
    site: Site, image: str, reads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = mapping.submit_all

    async def submit_and_interrupt(*arguments: Any, **more: Any) -> list[str]:
        made = await submit(*arguments, **more)
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        return made

    monkeypatch.setattr(mapping, "submit_all", submit_and_interrupt)
    arguments = ("map", "--image", image, "-i", f"{reads}/*", "--name", "stopped")
    done = site.lading(*arguments, "--", "forever", "{}", code=130)
    assert "0 of 3 succeeded, 3 cancelled" in done.stderr
    assert done.stdout == ""


def test_the_same_again_has_its_collection_already(site: Site, image: str, reads: Path) -> None:
    def outputs(*more: str, plays: list[Play]) -> str:
        asked = ("map", "--json", "--image", image, "-i", f"{reads}/*", "--name", "once", *more)
        told = json.loads(site.command(*asked, "--", "once", "{}", plays=plays).stdout)
        return str(told["output_uuid"])

    first = outputs(plays=[Play()] * 3)
    assert outputs(plays=[]) == first
    other = outputs("--output-property", "batch=1", plays=[])
    assert other != first
    # What somebody has changed is theirs.
    site.lading("rm", f"{first}/once.0/result.txt")
    assert outputs(plays=[]) not in (first, other)
