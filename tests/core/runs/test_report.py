"""The report on a run: facts, tables, tasks."""

from __future__ import annotations

from typing import Any

from lading.core.runs.report import make_report, show_value
from lading.core.runs.step_groups import read_step

T1, T2 = "2026-01-02T03:04:05.000000000Z", "2026-01-02T03:04:07.000000000Z"
RUN: dict[str, Any] = {
    "uuid": "u", "name": "r", "attempt": 2, "state": "failed", "note": "", "began_at": T1,
    "ended_at": None, "params": {"k": 25, "reads": "a.fq"}, "source": {"commit": "1a"},
    "cost": 1.5, "saved": 0.0,
    "counts": {
        "total": 3, "done": 2, "failed": 1, "cancelled": 0, "running": 0, "waiting": 0, "reused": 1,
    },
}  # fmt: skip


def item(uuid: str, **more: Any) -> dict[str, Any]:
    usual = {"name": uuid, "state": "done", "is_reused": False, "created_at": T1}
    return {"uuid": uuid, **usual, **more}


def test_a_report() -> None:
    steps = [
        read_step(item("a", output="1", started_at=T1, finished_at=T2, cost=1.5, output_uuid="x")),
        read_step(item("b", inputs=["1", "0"], output="2", is_reused=True, container_image="i")),
        read_step(
            item(
                "c", state="failed", exit_code=3, depends_on=["a"], usage={"memory": 2048},
                container_image="i", runtime_status={"warning": "w"},
            )
        ),
    ]  # fmt: skip
    report = make_report(
        RUN, steps, user="ada", lines={"c": ["no reads"]}, now=5.0, names={"0": "reads"}
    )
    tables = {table.title: table.rows for table in report.tables}
    assert tables["Parameters"] == (("k", "25"), ("reads", "a.fq"))
    assert tables["Inputs"] == (("reads", "0", "b"),)
    assert tables["Versions"] == (("i", "b, c"),)
    assert tables["Outputs"] == (("b", "b", "", "2"),)
    assert tables["Steps"][0][:4] == ("a", "done", "1 of 1", "")
    assert dict(report.facts)["Steps"] == "3: 2 done, 1 failed, 1 reused"
    assert dict(report.facts)["By"] == "ada"
    assert "Note" not in dict(report.facts)
    assert (report.failures[0].name, report.failures[0].lines) == ("c", ("no reads",))
    assert report.warnings == ("c: w",)
    assert set(report.edges) == {("a", "b"), ("a", "c")}
    reused = next(task for task in report.tasks if task.key == "b")
    assert reused.started == reused.ended == reused.created
    assert next(task for task in report.tasks if task.key == "c").started is None


def test_a_run_without_steps() -> None:
    counts = dict.fromkeys(RUN["counts"], 0)
    report = make_report({**RUN, "counts": counts, "name": ""}, [], user="", lines={}, now=5.0)
    assert report.title == "u, attempt 2"
    assert dict(report.facts)["Steps"] == "0"
    assert (report.groups, report.tasks, report.failures) == ((), (), ())


def test_values() -> None:
    assert [show_value(value) for value in ("a b", 5, [1])] == ["a b", "5", "[1]"]
