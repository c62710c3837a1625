"""The spans of a supervisor, from the lines of its journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lading.process.tracing import OFF, TracingSettings, make_tracer
from lading.supervisor.container_trace import ContainerTrace, close_tracer, tracer_of
from lading.supervisor.engines import EngineSettings
from lading.supervisor.journal import JournalHeader, RunJournal, StepMark

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UUID = "zzzzz-dz642-000000000000000"


def _run(trace: ContainerTrace, directory: Path, traceparent: object) -> str:
    journal = RunJournal(directory, trace)
    settings = EngineSettings(container_uuid=UUID, run_directory="", cache_directory="")
    journal.open(JournalHeader(engine="stub", settings=settings))
    journal.write("record", StepMark.BEGUN)
    given = trace.join(traceparent, UUID)
    journal.write("record", StepMark.DONE)
    journal.write("inputs", StepMark.BEGUN)
    with trace.doing("unpacking its image"):
        pass
    journal.write("inputs", StepMark.DONE)
    journal.write("command", StepMark.BEGUN)
    journal.write("command", StepMark.DONE)
    journal.write("inputs", StepMark.UNDONE)
    journal.close()
    journal.close()
    return given


def test_steps_are_spans_of_the_trace_of_the_record(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    clock = iter(range(100, 200))
    trace = ContainerTrace(
        make_tracer(exporter, "supervisor", is_batched=False), clock=lambda: float(next(clock))
    )
    given = _run(trace, tmp_path, PARENT)
    found: dict[str, ReadableSpan] = {one.name: one for one in exporter.get_finished_spans()}
    assert set(found) == {
        "supervise", "record", "inputs", "unpacking its image", "command", "save results",
    }  # fmt: skip
    whole = found.pop("supervise")
    assert whole.context is not None
    assert whole.parent is not None
    assert f"{whole.parent.trace_id:032x}" == PARENT.split("-")[1]
    assert given == f"00-{whole.context.trace_id:032x}-{whole.context.span_id:016x}-01"
    assert {one.parent.span_id for one in found.values() if one.parent} == {whole.context.span_id}
    # The first step had begun before the record named the trace.
    assert (whole.start_time, found["record"].start_time) == (100 * 10**9, 101 * 10**9)


@pytest.mark.parametrize("traceparent", [None, "", "nonsense", 7])
def test_a_container_outside_of_a_trace_has_no_spans(tmp_path: Path, traceparent: object) -> None:
    exporter = InMemorySpanExporter()
    trace = ContainerTrace(make_tracer(exporter, "supervisor", is_batched=False))
    assert _run(trace, tmp_path, traceparent) == ""
    assert exporter.get_finished_spans() == ()


def test_without_a_collector_nothing_is_kept(tmp_path: Path) -> None:
    assert _run(ContainerTrace(OFF), tmp_path, PARENT) == ""


def test_a_machine_without_the_programs_runs_containers_untraced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(__import__("sys").modules, name, None)
    settings = TracingSettings(endpoint="http://127.0.0.1:1/v1/traces")
    try:
        assert tracer_of(settings) is OFF
        assert "install the extra otel" in caplog.text
    finally:
        close_tracer(settings)
