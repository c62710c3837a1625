"""States and logs of tasks."""

from __future__ import annotations

from tests.tes.site import LEGACY, TaskWorld


async def test_the_three_views(it: TaskWorld) -> None:
    task = await it.create(inputs=[{"path": "/in/a", "content": "é"}])
    await it.world.run(await it.container(task), exit_code=3)
    basic = await it.ok("GET", f"tasks/{task}", query="view=BASIC")
    assert basic["inputs"] == [{"path": "/in/a", "type": "FILE"}]
    assert "system_logs" not in basic["logs"][0]
    assert set(basic["logs"][0]["logs"][0]) == {"start_time", "end_time", "exit_code"}
    whole = await it.full(task)
    assert whole["inputs"] == [{"path": "/in/a", "type": "FILE", "content": "é"}]
    assert whole["state"] == "EXECUTOR_ERROR"
    assert whole["logs"][0]["logs"][0]["stdout"] == ""
    assert (await it.call("GET", f"tasks/{task}", query="view=SOME")).status == 400


async def test_the_end_of_a_stream(it: TaskWorld) -> None:
    task = await it.create()
    container = await it.container(task)
    supervisor = await it.world.lock(container)
    path = f"containers/{container}"
    await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    own = await it.world.container_token(container)
    text = b"2026-01-02T03:04:05.000006000Z hello\n"
    files = {"stdout.txt": text, "stderr.txt": 6000 * text}
    log = await it.world.collection(files, token=own, is_trashed=True)
    ended = {"state": "Complete", "exit_code": 0, "log": log["portable_data_hash"]}
    await it.world.ok("PUT", path, ended, token=supervisor)
    found = (await it.full(task))["logs"][0]["logs"][0]
    assert found["stdout"] == "hello\n"
    assert found["stderr"].splitlines()[0].endswith(f"; lading request logs {task}]")


async def test_outputs_are_listed_and_missed(it: TaskWorld) -> None:
    outputs = [{"url": "keep:", "path": "/out/out.txt"}]
    good = await it.create(outputs=outputs)
    await it.world.run(await it.container(good))
    assert await it.state(good) == await it.state(good) == "COMPLETE"
    [file] = (await it.full(good))["logs"][0]["outputs"]
    assert (file["path"], file["size_bytes"]) == ("/out/out.txt", "6")
    assert file["url"].startswith("keep:")
    lost = await it.create(outputs=[*outputs, {"url": "keep:", "path": "/out/none"}])
    await it.world.run(await it.container(lost))
    found = await it.full(lost)
    assert found["state"] == "SYSTEM_ERROR"
    assert found["logs"][0]["system_logs"][0] == "missing outputs: /out/none"
    may = await it.create(
        outputs=[{"url": "keep:", "path": "/out/none"}], tags={"lading.missing_outputs": "ignore"}
    )
    await it.world.run(await it.container(may))
    assert await it.state(may) == "COMPLETE"
    record = await it.world.ok("GET", f"container_requests/{good}")
    await it.world.ok("DELETE", f"collections/{record['output_uuid']}")
    assert (await it.full(good))["logs"][0]["outputs"] == []


async def test_what_a_waiting_task_says(it: TaskWorld) -> None:
    task = await it.create(
        resources={"zones": ["a"], "preemptible": True, "backend_parameters": {"odd": "1"}}
    )
    logs = (await it.full(task))["logs"][0]["system_logs"]
    assert sum(one.startswith("warning:") for one in logs) == 3
    assert any("queue" in one.lower() or "wait" in one.lower() for one in logs)


async def test_a_lost_machine(it: TaskWorld) -> None:
    task = await it.create(tags={"lading.retries": "1"})

    async def lose() -> None:
        container = await it.container(task)
        supervisor = await it.world.lock(container)
        path = f"containers/{container}"
        await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
        status = {"failure": "preempted", "error": "the machine was taken back"}
        end = {"state": "Cancelled", "runtime_status": status}
        await it.world.ok("PUT", path, end, token=supervisor)

    await lose()
    assert await it.state(task) == "INITIALIZING"
    assert await it.state(task, LEGACY) == "RUNNING"
    await lose()
    found = await it.full(task)
    assert (found["state"], len(found["logs"])) == ("PREEMPTED", 2)
    assert "preempted" in found["logs"][1]["system_logs"][0]
    old = await it.full(task, LEGACY)
    assert (old["state"], len(old["logs"])) == ("SYSTEM_ERROR", 1)


async def test_executors_in_turn(it: TaskWorld) -> None:
    image = await it.world.ensure_image()
    one = {"image": image, "command": ["a"]}
    two = {"image": image, "command": ["b"], "stdout": "/log/out"}
    task = await it.create(executors=[one, two])
    container = await it.container(task)
    record = await it.world.ok("GET", f"containers/{container}")
    assert [step["command"] for step in record["steps"]] == [["a"], ["b"]]
    supervisor = await it.world.lock(container)
    path = f"containers/{container}"
    await it.world.ok("PUT", path, {"state": "Running"}, token=supervisor)
    own = await it.world.container_token(container)
    stamp = b"2026-01-02T03:04:05.000006000Z "
    files = {"stdout.txt": stamp + b"a\n" + stamp + b"b\n"}
    log = await it.world.collection(files, token=own, is_trashed=True)
    times = {"started_at": record["created_at"], "finished_at": record["created_at"]}
    steps = [
        {**times, "exit_code": 0, "stdout": [0, 33], "stderr": [0, 0]},
        {**times, "exit_code": 4, "stdout": [33, 66], "stderr": [0, 5]},
    ]
    await it.world.ok("PUT", path, {"runtime_status": {"steps": steps}}, token=supervisor)
    assert len((await it.full(task))["logs"][0]["logs"]) == 2
    ended = {"state": "Complete", "exit_code": 4, "log": log["portable_data_hash"]}
    await it.world.ok("PUT", path, ended, token=supervisor)
    found = await it.full(task)
    assert found["state"] == "EXECUTOR_ERROR"
    logs = found["logs"][0]["logs"]
    assert [(each["stdout"], each["stderr"]) for each in logs] == [("a\n", ""), ("b\n", "")]
    odd = await it.task(executors=[one, {"image": "none:1", "command": ["b"]}])
    reply = await it.call("POST", "tasks", odd)
    assert reply.json["errors"][0]["pointer"] == "/executors/1/image"
