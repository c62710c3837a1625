"""lading run against a real API, with containers that are acted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lading.client.outcomes import RequestOutcome
from lading.core.quantities import parse_time
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def test_streams_exit_code_and_output(site: Site, image: str, here: Path) -> None:
    play = Play(
        stdout=b"one\ntwo\n", stderr=b"oops\n", exit_code=3, files={"a": b"A", "d/b": b"BB"}
    )
    done = site.command(
        "run", "--image", image, "--output", "out", "--", "make", "it", plays=[play], code=3
    )
    assert done.stdout == "one\ntwo\n"
    assert done.stderr.splitlines()[1] == "oops"
    assert "exit code 3, output" in done.stderr
    assert "wrote 2 files, 3 B, to out" in done.stderr
    assert (here / "out" / "d" / "b").read_text() == "BB"


def test_an_output_is_not_mixed_with_an_older_one_unasked(
    site: Site, image: str, here: Path
) -> None:
    (here / "old").mkdir()
    (here / "old" / "file").write_text("older")
    command = ("run", "--image", image, "--output", "old")
    # No container is acted: nothing is submitted.
    refused = site.lading(*command, "--", "mix", code=125)
    assert "old: has files already; name another directory, or --overwrite" in refused.stderr
    assert "submitted" not in refused.stderr
    site.command(*command, "--overwrite", "--", "mix", plays=[Play(files={"new": b"N"})])
    assert sorted(one.name for one in (here / "old").iterdir()) == ["file", "new"]


def test_the_same_again_is_reused(site: Site, image: str) -> None:
    command = ("run", "--image", image, "--", "compute")
    first = site.command(*command, plays=[Play(stdout=b"42\n")])
    assert "ran " in first.stderr
    again = site.lading(*command)
    assert again.stdout == "42\n"
    assert "reused zzzzz-dz642-" in again.stderr
    anew = site.command(*command[:3], "--no-reuse", *command[3:], plays=[Play(stdout=b"43\n")])
    assert anew.stdout == "43\n"


def test_json_is_apart_from_what_the_command_writes(site: Site, image: str) -> None:
    done = site.command(
        "run",
        "--json",
        "--image",
        image,
        "--",
        "j",
        plays=[Play(stdout=b"text\n", exit_code=2)],
        code=2,
    )
    answer = json.loads(done.stdout)
    assert "text" in done.stderr
    assert (answer["exit_code"], answer["state"], answer["reused"]) == (2, "Complete", False)
    assert (
        json.loads(site.lading("ls", "--json", answer["output"]).stdout)[0]["path"] == "result.txt"
    )


def test_what_the_system_ended_is_said(site: Site, image: str) -> None:
    play = Play(stdout=b"begun\n", error="Out of memory: it needed more than 256 MiB.")
    done = site.command(
        "run", "--image", image, "--attempts", "1", "--", "hog", plays=[play], code=125
    )
    assert done.stdout == "begun\n"
    assert "lading: not finished: Out of memory: it needed more than 256 MiB (see:" in done.stderr


def test_a_complaint_about_what_ended_by_itself_is_said(site: Site, image: str) -> None:
    play = Play(
        exit_code=137, complaint="the kernel killed a process: it used all of its ram; ask for more"
    )
    done = site.command("run", "--image", image, "--", "greedy", plays=[play], code=137)
    assert (
        "lading: the kernel killed a process: it used all of its ram; ask for more\n" in done.stderr
    )


def test_entries_of_the_output_that_are_not_saved_are_named(site: Site, image: str) -> None:
    play = Play(warning="output: 2 entries not saved", warning_detail="/out/a is\n/out/b is")
    done = site.command("run", "--image", image, "--", "links", plays=[play])
    assert (
        "lading: warning: output: 2 entries not saved\n"
        "lading: warning: /out/a is\nlading: warning: /out/b is\n"
    ) in done.stderr


def test_a_retry_is_said(site: Site, image: str) -> None:
    plays = [Play(stdout=b"a\n", error="the node failed", failure="node"), Play(stdout=b"b\n")]
    done = site.command("run", "--image", image, "--attempts", "2", "--", "flaky", plays=plays)
    assert "trying again" in done.stderr or done.stdout == "b\n", (
        "an attempt can be over before it is seen"
    )
    assert done.stdout.endswith("b\n")
    assert "ran " in done.stderr


def test_the_request_that_the_options_describe(site: Site, image: str, here: Path) -> None:
    (here / "reads").write_text("ACGT")
    (here / "dir").mkdir()
    (here / "dir" / "x").write_text("x")
    stored = site.lading("put", "reads").stdout.strip()
    done = site.lading(
        "run", "--detach", "--json", "--image", image,
        "--input", "/in/reads=reads", "--input", "/in/dir=dir",
        "--input", f"/in/part={stored}/reads", "--input", f"stdin={stored}/reads",
        "--vcpus", "2", "--ram", "1.5GiB", "--env", "A=b=c", "--name", "N", "--workdir", "/tmp",
        "--output-path", "/o", "--output-glob", "*.txt", "--tmp", "/scratch", "--priority", "7",
        "--strict-output", "--gpus", "2", "--gpu-memory", "16GiB", "--gpu-type", "Ampere",
        "--gpu-type", "sm_90", "--cuda", "12.4.1",
        "--max-run-time", "2h", "--attempts", "2", "--network", "--", "x", "-y",
    )  # fmt: skip
    made = json.loads(done.stdout)
    assert (made["command"], made["name"], made["priority"], made["cwd"]) == (
        ["x", "-y"],
        "N",
        7,
        "/tmp",
    )
    assert (made["output_path"], made["output_glob"], made["environment"]) == (
        "/o",
        ["*.txt"],
        {"A": "b=c"},
    )
    assert (made["container_count_max"], made["strict_output"]) == (2, True)
    constraints = made["runtime_constraints"]
    assert (constraints["vcpus"], constraints["ram"], constraints["API"]) == (2, 3 << 29, True)
    assert constraints["gpu"] == {
        "device_count": 2, "vram": 16 << 30, "hardware_target": ["9.0", "ampere"],
        "stack": "cuda", "driver_version": "12.4",
    }  # fmt: skip
    assert made["scheduling_parameters"]["max_run_time"] == 7200
    mounts = made["mounts"]
    assert mounts["/in/reads"] == {
        "kind": "collection",
        "portable_data_hash": stored,
        "path": "reads",
    }
    assert mounts["/in/part"] == mounts["stdin"] == mounts["/in/reads"]
    assert set(mounts["/in/dir"]) == {"kind", "portable_data_hash"}
    assert (mounts["/o"]["kind"], mounts["/scratch"]["kind"]) == ("tmp", "tmp")


def test_when_it_runs_and_what_becomes_of_it(site: Site, image: str) -> None:
    first, second = (
        site.lading("run", "--detach", "--image", image, "--", name).stdout.strip() for name in "ab"
    )
    project = site.call(site.world.ok("POST", "groups", {"name": "p", "group_class": "project"}))[
        "uuid"
    ]
    done = site.lading(
        "run", "--detach", "--json", "--image", image, "--after", first, "--after", "last",
        "--start-after", "2h", "--expires", "2126-12-24T18:00:00Z",
        "--vcpus", "2-8", "--ram", "1GiB-4GiB", "--internet",
        "--partition", "fast", "--partition", "slow", "--output-name", "O", "--output-ttl", "14d",
        "--output-property", "n=1", "--storage-class", "default", "--property", "sample=S1",
        "--property", "lanes=[1, 2]", "--description", "D", "--project", project, "--", "later",
    )  # fmt: skip
    made = json.loads(done.stdout)
    assert (made["depends_on"], made["owner_uuid"], made["description"]) == (
        [first, second],
        project,
        "D",
    )
    assert (
        timedelta(minutes=119)
        < parse_time(made["start_after"]) - datetime.now(UTC)
        <= timedelta(hours=2)
    )
    assert made["expires_at"] == "2126-12-24T18:00:00.000000000Z"
    sizes = made["runtime_constraints"]
    assert (sizes["vcpus"], sizes["ram"], sizes["internet"]) == ([2, 8], [1 << 30, 4 << 30], True)
    assert made["scheduling_parameters"]["partitions"] == ["fast", "slow"]
    assert (made["output_name"], made["output_ttl"], made["output_properties"]) == (
        "O",
        14 * 86400,
        {"n": 1},
    )
    assert (made["output_storage_classes"], made["properties"]) == (
        ["default"],
        {"sample": "S1", "lanes": [1, 2]},
    )
    shown = site.lading("request", "show", made["uuid"]).stdout
    assert f"after         {first}, {second}" in shown
    assert "2 to 8 vcpus, 1.0 GiB to 4.0 GiB" in shown
    assert "given       2 vcpus, 1.0 GiB" in shown


def test_a_container_chosen_by_hand(site: Site, image: str) -> None:
    command = ("run", "--json", "--image", image, "--no-reuse")
    chosen = json.loads(site.command(*command, "--", "by", "hand", plays=[Play()]).stdout)[
        "container_uuid"
    ]
    site.command(*command, "--", "by", "hand", plays=[Play()])
    again = site.lading(
        "run", "--json", "--image", image, "--container", chosen, "--", "by", "hand"
    )
    assert json.loads(again.stdout)["container_uuid"] == chosen
    refused = site.lading(
        "run", "--image", image, "--container", chosen, "--", "by", "foot", code=125
    )
    assert "does not satisfy the request: command[1] differs" in refused.stderr


def test_detach_prints_the_uuid(site: Site, image: str) -> None:
    done = site.lading("run", "--detach", "--image", image, "--", "later")
    assert done.stdout.startswith("zzzzz-xvhdp-")
    assert f"lading request logs -f {done.stdout.strip()}" in done.stderr


def test_the_output_of_another_request_as_input(site: Site, image: str) -> None:
    first = json.loads(
        site.command("run", "--json", "--image", image, "--", "make", plays=[Play()]).stdout
    )
    made = site.lading(
        "run",
        "--detach",
        "--json",
        "--image",
        image,
        "--input",
        f"/in={first['uuid']}",
        "--",
        "use",
    )
    assert json.loads(made.stdout)["mounts"]["/in"]["portable_data_hash"] == first["output"]


def test_the_output_of_a_request_that_has_not_run_as_input(site: Site, image: str) -> None:
    first = site.lading("run", "--detach", "--image", image, "--", "not", "yet").stdout.strip()
    for name in (first, "last"):
        made = json.loads(
            site.lading(
                "run", "--detach", "--json", "--image", image, "--input", f"/in={name}/part",
                "--", "use", name,
            ).stdout
        )  # fmt: skip
        assert made["mounts"]["/in"] == {
            "kind": "output",
            "container_request": made["depends_on"][0],
            "path": "part",
        }
        assert made["container_uuid"] is None
    assert made["depends_on"] != [first]


def test_outputs_of_several_requests_as_inputs(site: Site, image: str) -> None:
    ended = json.loads(
        site.command("run", "--json", "--image", image, "--", "one", plays=[Play()]).stdout
    )
    waiting = site.lading("run", "--detach", "--image", image, "--", "two").stdout.strip()
    made = json.loads(
        site.lading(
            "run", "--detach", "--json", "--image", image, "--input", f"/a={ended['uuid']}",
            "--input", f"/b={waiting}/part", "--", "use", "both",
        ).stdout
    )  # fmt: skip
    assert made["mounts"]["/a"] == {"kind": "collection", "portable_data_hash": ended["output"]}
    assert made["mounts"]["/b"] == {
        "kind": "output", "container_request": waiting, "path": "part",
    }  # fmt: skip


def test_preview_stores_nothing(site: Site, image: str) -> None:
    before = len(json.loads(site.lading("request", "list", "--json").stdout))
    assert (
        "would run a new container: "
        in site.lading("run", "--preview", "--image", image, "--", "pre").stdout
    )
    assert (
        json.loads(site.lading("run", "--preview", "--json", "--image", image, "--", "pre").stdout)[
            "decision"
        ]
        == "new"
    )
    assert len(json.loads(site.lading("request", "list", "--json").stdout)) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--input", "x", "--", "c"],
            "x: not TARGET=SOURCE; write for example /in/reads.fq=reads.fq",
        ),
        (
            ["--input", "in=/etc", "--", "c"],
            "TARGET must be an absolute path in the container without '..', or stdin",
        ),
        (["--input", "/../in=/etc", "--", "c"], "TARGET must be an absolute path"),
        (
            ["--input", "/in=nosuch", "--", "c"],
            "--input /in: no file here; nosuch: names nothing stored",
        ),
        (["--input", "/in=./nosuch", "--", "c"], "./nosuch is no file here"),
        (["--input", "/in=a", "--input", "/in=a", "--", "c"], "--input /in: given twice"),
        (["--input", "/out=a", "--", "c"], "/out: is where the output goes"),
        (
            ["--ram", "lots", "--", "c"],
            "'lots': write an amount, or the least and the most, for example 2GiB-8GiB",
        ),
        (["--gpus", "some", "--", "c"], "'some': write a number of GPUs, for example 1"),
        (["--gpu-memory", "16", "--", "c"], "is 16 bytes, which no GPU has; write a unit"),
        (["--gpu-type", "", "--", "c"], "is empty; write a kind of GPUs"),
        (["--gpu-type", "gfx90a", "--cuda", "12.4", "--", "c"], "has GPUs of one maker"),
        (["--gpus", "0", "--cuda", "12.4", "--", "c"], "ask for 1 or leave these out"),
        (["--max-run-time", "long", "--", "c"], "not a duration: 'long'"),
        (["--env", "=x", "--", "c"], "'=x' is not K=V"),
        (["--env", "NO_SUCH_VARIABLE", "--", "c"], "NO_SUCH_VARIABLE is not set here"),
        (["--nosuch", "--", "c"], "No such option"),
        (["--image", "nosuch:1", "--", "c"], "nosuch:1"),
        (
            ["--vcpus", "8-2", "--", "c"],
            "'8-2': write an amount, or the least and the most, for example 2-8",
        ),
        (["--ram", "1GiB-2GiB-3GiB", "--", "c"], "for example 2GiB-8GiB"),
        (["--start-after", "soon", "--", "c"], "'soon' is no moment; write for example 2h30m"),
        (["--property", "x", "--", "c"], "'x' is not K=V"),
        (["--after", "000000", "--", "c"], "000000: no request has this name"),
        (
            ["--storage-class", "nosuch", "--", "c"],
            "no class 'nosuch'; its classes: default",
        ),
        (["--preemptible", "--", "c"], "preemptible instances are not configured"),
        (["--project", "x", "--", "c"], "x: no project is called so"),
    ],
)
def test_mistakes_are_named(
    site: Site, image: str, here: Path, arguments: list[str], said: str
) -> None:
    (here / "a").write_text("a")
    done = site.lading("run", "--image", image, *arguments, code=125)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_cancels(site: Site, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lading.cli.running import run as module

    submit = module.submit

    async def submit_and_interrupt(*arguments: object, **more: object) -> dict[str, object]:
        made: dict[str, object] = await submit(*arguments, **more)  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        return made

    monkeypatch.setattr(module, "submit", submit_and_interrupt)
    done = site.lading("run", "--image", image, "--", "forever", code=130)
    assert "; press Ctrl-C again to leave without waiting" in done.stderr
    uuid = done.stderr.split()[1]
    shown = json.loads(site.lading("request", "show", "--json", uuid).stdout)
    assert shown["priority"] == 0


@pytest.mark.parametrize(
    ("container", "code"),
    [
        (None, 125),
        ({"state": "Cancelled", "exit_code": None}, 125),
        ({"state": "Complete", "exit_code": 0}, 0),
        ({"state": "Complete", "exit_code": 137}, 137),
        ({"state": "Complete", "exit_code": 256}, 1),
    ],
)
def test_exit_codes(container: dict[str, object] | None, code: int) -> None:
    assert RequestOutcome({}, container).exit_code == code


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [((), (False, None)), (("--api",), (True, None)), (("--network",), (True, True)),
     (("--internet",), (False, True)), (("--no-internet",), (False, False)),
     (("--api", "--internet"), (True, True))],
)  # fmt: skip
def test_which_network_it_has(
    site: Site, image: str, flags: tuple[str, ...], wanted: tuple[bool, bool | None]
) -> None:
    made = json.loads(
        site.lading("run", "--detach", "--json", "--image", image, *flags, "--", "x").stdout
    )
    constraints = made["runtime_constraints"]
    assert (constraints["API"], constraints.get("internet")) == wanted


def test_without_a_command_that_of_the_image_is_run(site: Site, image: str) -> None:
    done = site.command(
        "run", "--json", "--no-reuse", "--image", image, plays=[Play(stdout=b"own\n")]
    )
    assert "own" in done.stderr
    uuid = json.loads(done.stdout)["uuid"]
    assert "(that of the image)" in site.lading("request", "show", uuid).stdout
    assert "(that of the image)" in site.lading("request", "list").stdout


def test_standard_input_reaches_the_command(site: Site, image: str) -> None:
    def submit(text: bytes) -> tuple[str, dict[str, object]]:
        arguments = ("--detach", "--json", "--stdin", "--image", image, "--", "sort")
        made = json.loads(site.lading("run", *arguments, stdin=text).stdout)
        return made["container_uuid"], made["mounts"]["stdin"]

    container, mount = submit(b"b\na\n")
    assert (mount["kind"], mount["path"]) == ("collection", "stdin")
    stored = site.lading("cat", f"{mount['portable_data_hash']}/stdin")
    assert stored.stdout == "b\na\n"
    assert submit(b"b\na\n")[0] == container
    assert submit(b"other\n")[0] != container
    twice = ("--stdin", "--input", f"stdin={mount['portable_data_hash']}/stdin")
    refused = site.lading("run", "--image", image, *twice, "--", "sort", code=125, stdin=b"x")
    assert "--input stdin: given twice" in refused.stderr


def test_quiet_says_nothing_but_faults(site: Site, image: str) -> None:
    run = ("run", "--quiet", "--image", image, "--")
    done = site.command(*run, "quiet", plays=[Play(stdout=b"x", stderr=b"y")])
    assert (done.stdout, done.stderr) == ("x", "y")
    detached = site.lading("run", "-q", "--detach", "--image", image, "--", "quiet", "2")
    assert (len(detached.stdout.split()), detached.stderr) == (1, "")
    site.lading("request", "cancel", detached.stdout.strip())
    failed = site.command(*run, "bad", plays=[Play(error="no room", failure="user")], code=125)
    assert "not finished: no room" in failed.stderr
    assert "submitted" not in failed.stderr
    refused = site.lading("run", "-q", "--image", "nope:1", "--", "x", code=125)
    assert "nope:1" in refused.stderr


def test_a_preview_names_what_never_counts_if_asked(site: Site, image: str) -> None:
    run = ("run", "--preview", "--image", image)
    assert "never compared" not in site.lading(*run, "--", "looked at").stdout
    assert "never compared: " in site.lading(*run, "--verbose", "--", "looked at").stdout
