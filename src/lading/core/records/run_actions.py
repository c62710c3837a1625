"""The calls about runs, on projects and on the requests of workflow runners."""

from __future__ import annotations

from typing import Final

from lading.core.records.schema import Parameter, RecordAction, Scope, Type

RUN_READING: Final = (
    RecordAction(
        name="run", method="GET", scope=Scope.MEMBER, path="run", answer="object",
        doc="The run that it is: state, counts, attempts, parameters, cost.",
        parameters=(
            Parameter(name="attempt", type=Type.INTEGER, doc="Its number; by default the latest."),
        ),
    ),
    RecordAction(
        name="run_steps", method="GET", scope=Scope.MEMBER, path="run_steps", answer="object",
        doc="The steps of the run that it is, in the order of their submission.",
        parameters=(
            Parameter(name="attempt", type=Type.INTEGER, doc="Its number; by default the latest."),
            Parameter(name="limit", type=Type.INTEGER, default=1000, doc="Most steps."),
            Parameter(name="after", doc="Steps after this one: `next` of the answer before."),
        ),
    ),
)  # fmt: skip
"""Actions on a project, or on the request of a workflow runner, that is a run."""
RUN_WRITING: Final = (
    RecordAction(
        name="runs", method="GET", scope=Scope.COLLECTION, path="runs", answer="object",
        doc="Runs of pipelines, the last begun first, with state, counts and cost.",
        parameters=(
            Parameter(name="limit", type=Type.INTEGER, default=50, doc="Most runs, up to 100."),
            Parameter(name="after", doc="Runs after this one: `next` of the answer before."),
            Parameter(name="name", doc="Text in its name, in any case."),
            Parameter(name="project", doc="Uuid of the project or user that owns it."),
            Parameter(name="user", doc="Uuid of the user who began it last."),
            Parameter(name="state", doc="waiting, running, failed, done or cancelled."),
            Parameter(name="since", doc="Time after which it began."),
        ),
    ),
    RecordAction(
        name="begin_run", method="POST", scope=Scope.COLLECTION, path="begin_run", answer="object",
        doc="Begin the next attempt of a run, or join one; the run is made with its first one.",
        parameters=(
            Parameter(name="name", required=True, doc="Name of the run."),
            Parameter(name="project", doc="Uuid of the project or user that owns it."),
            Parameter(name="params", type=Type.OBJECT, doc="Parameters; no secrets."),
            Parameter(name="source", type=Type.OBJECT, doc="Origin of the pipeline's code."),
            Parameter(
                name="session",
                doc="Name of the submitting process: it joins the latest attempt if that has it.",
            ),
            Parameter(name="attempt", type=Type.INTEGER, doc="Attempt to join."),
        ),
    ),
    RecordAction(
        name="end_run", method="POST", scope=Scope.MEMBER, path="end_run", answer="object",
        doc="Report how the program of a run ended.",
        parameters=(
            Parameter(name="attempt", type=Type.INTEGER, doc="Its number; by default the latest."),
            Parameter(name="outcome", default="done", doc="done, failed or cancelled."),
            Parameter(name="note", doc="Why; 1,000 characters at most."),
        ),
    ),
    RecordAction(
        name="add_to_run", method="POST", scope=Scope.MEMBER, path="add_to_run", answer="object",
        doc="Move requests, with their outputs and logs, into an attempt of a run.",
        parameters=(
            Parameter(
                name="uuids", type=Type.ARRAY, required=True, doc="The requests; 1,000 at most.",
            ),
            Parameter(name="attempt", type=Type.INTEGER, doc="Its number; by default the latest."),
            Parameter(name="step", doc="Name of the step that they are of."),
        ),
    ),
)  # fmt: skip
"""Actions on projects that are runs: the list, and the bounds of an attempt."""
