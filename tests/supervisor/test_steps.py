"""Containers of several steps, on the stub engine."""

from __future__ import annotations

from typing import Any

from lading.core.errors import ExecutionError, Failure
from lading.testing.engine import StubEngine
from tests.supervisor.supervised import STAMP, Bench


def step(script: str, **changes: Any) -> dict[str, Any]:
    return {
        "container_image": "",
        "command": ["sh", "-c", script],
        "cwd": ".",
        "environment": {},
        "stdin": "",
        "stdout": "",
        "stderr": "",
        "ignore_error": False,
        **changes,
    }


def add(bench: Bench, *steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    record = bench.add("true", **changes)
    for one in steps:
        one["container_image"] = one["container_image"] or record["container_image"]
    record["steps"] = [*steps]
    return record


async def test_steps_share_the_output_and_have_streams(bench: Bench) -> None:
    record = add(
        bench,
        step("echo one; echo err >&2; env | grep ^A=", stdout="/out/a/1", environment={"A": "b"}),
        step("cat", stdin="/out/a/1", stdout="/out/2", stderr="/out/3"),
        step("echo three; exit 4"),
        step("echo never"),
    )
    assert await bench.run() == 0
    assert (record["state"], record["exit_code"]) == ("Complete", 4)
    assert bench.output() == {"a/1": b"one\nA=b\n", "2": b"one\nA=b\n", "3": b""}
    assert bench.log("stderr.txt") == f"{STAMP} err\n"
    out = bench.log("stdout.txt")
    steps = record["runtime_status"]["steps"]
    assert [one["exit_code"] for one in steps] == [0, 0, 4]
    assert [out[slice(*one["stdout"])].count("\n") for one in steps] == [2, 2, 1]
    assert "step 3 of 4" in bench.log()


async def test_the_log_and_the_record_tell_the_same_exit_code(bench: Bench) -> None:
    refused = "echo 'exec container process `/x`: Argument list too long' >&2; exit 1"
    record = bench.add(refused)
    await bench.run()
    assert record["exit_code"] == 126
    assert "the command ended with exit code 126" in bench.log()
    several = Bench(bench.directory / "other")
    record = add(several, step("true"), step(refused))
    await several.run()
    steps = record["runtime_status"]["steps"]
    assert (record["exit_code"], [one["exit_code"] for one in steps]) == (126, [0, 126])


async def test_two_streams_into_one_file(bench: Bench) -> None:
    script = "echo one; echo two >&2; echo three"
    add(bench, step(script, stdout="/out/both", stderr="/out/both"))
    assert await bench.run() == 0
    assert sorted(bench.output()["both"].split()) == [b"one", b"three", b"two"]


async def test_errors_that_are_ignored(bench: Bench) -> None:
    record = add(bench, step("exit 5", ignore_error=True), step("true"))
    await bench.run()
    assert record["exit_code"] == 0
    last = Bench(bench.directory / "other")
    record = add(last, step("exit 5", ignore_error=True))
    await last.run()
    assert record["exit_code"] == 0


async def test_commands_and_files_that_are_not_there(bench: Bench) -> None:
    denied = ExecutionError("the command cannot be started: Permission denied", Failure.USER)
    faults = iter([{"create": denied}])
    bench.faults = {"create": ExecutionError("cannot be started: not found", Failure.USER)}
    # The faults of the next engine that is made.
    bench.on_engine = lambda _: setattr(bench, "faults", next(faults, {}))
    record = add(
        bench,
        step("a", ignore_error=True),
        step("b", ignore_error=True),
        step("cat", stdin="/out/none", ignore_error=True),
        step("cat", stdin="/odd/none", ignore_error=True),
        step("ln -s /etc/passwd /out/link; mkfifo /out/pipe", ignore_error=True),
        step("cat", stdin="/out/link", ignore_error=True),
        step("true", stdout="/out/pipe"),
    )
    await bench.run()
    codes = [one["exit_code"] for one in record["runtime_status"]["steps"]]
    assert codes == [127, 126, 1, 1, 0, 1, 1]
    errors = bench.log("stderr.txt")
    assert "not found" in errors
    assert "/out/none: No such file" in errors


async def test_a_step_reads_a_mount_that_is_a_single_file(bench: Bench) -> None:
    record = add(bench, step("cat", stdin="/names", stdout="/out/copy"))
    record["mounts"]["/names"] = {"kind": "text", "content": "a\n"}
    assert await bench.run() == 0
    assert bench.output() == {"copy": b"a\n"}


async def test_a_fault_of_the_machine_ends_the_container(bench: Bench) -> None:
    made: list[StubEngine] = []

    def fail(engine: StubEngine) -> None:
        made.append(engine)
        bench.faults = {"create": ExecutionError("no room", Failure.NODE)}

    bench.on_engine = fail
    record = add(bench, step("true"), step("true"))
    await bench.run()
    assert record["state"] == "Cancelled"
    assert record["runtime_status"]["failure"] == "node"
    assert all("remove" in one.calls for one in made)


async def test_all_images_are_read_before_the_first_step(bench: Bench) -> None:
    record = add(bench, step("touch /out/x"), step("true", container_image="0" * 32 + "+1"))
    await bench.run()
    assert record["state"] == "Cancelled"
    assert bench.server.states[-1] == "Cancelled"


async def test_a_step_that_is_stopped_is_the_last(bench: Bench) -> None:
    record = add(
        bench,
        step("while :; do sleep 0.01; done"),
        step("true"),
        scheduling_parameters={"max_run_time": 1},
    )
    await bench.run()
    assert (record["state"], record["runtime_status"]["failure"]) == ("Cancelled", "timeout")


async def test_a_status_that_cannot_be_told_is_told_later(bench: Bench) -> None:
    record = add(bench, step("echo a"), step("echo b"))
    await bench.run()
    assert len(record["runtime_status"]["steps"]) == 2
