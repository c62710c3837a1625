"""Templates that are run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lading
from lading.client.templates import starting
from lading.core.errors import Forbidden
from tests.cli.site import Site
from tests.client.templates.making import save


def test_a_runner_makes_its_requests_in_the_project(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    with connecting() as site:
        constraints = {"vcpus": 1, "ram": 1 << 28, "API": True}
        found = save(
            site, image, "flow", runtime_constraints=constraints,
            scheduling_parameters={"supervisor": True}, command=["arvados-cwl-runner", "25"],
        )  # fmt: skip
        template = lading.template("flow", site=site)
        with pytest.raises(Forbidden, match="act in your name"):
            template.run()
        body = {"name": "for flows", "group_class": "project"}
        project = stage.call(stage.world.ok("POST", "groups", body))["uuid"]
        run = template.run(allow_api=True, project=project, name="flow 7")
        record = stage.call(stage.world.ok("GET", f"container_requests/{run.uuid}"))
        assert record["command"] == ["arvados-cwl-runner", f"--project-uuid={project}", "25"]
        assert (record["owner_uuid"], record["name"], run.record["kind"]) == (
            project, "flow 7", "workflow",
        )  # fmt: skip
        run.requests[0].cancel()
        assert starting.secrets_of(found.version()) == []


def test_a_template_does_not_choose_whose_the_results_are(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    body = {"name": "of its author", "group_class": "project"}
    project = stage.call(stage.world.ok("POST", "groups", body))["uuid"]
    with connecting() as site:
        save(
            site, image, "crafted", scheduling_parameters={"supervisor": True}, owner_uuid=project,
            priority=1000,
        )  # fmt: skip
        run = lading.template("crafted", site=site).run()
        record = stage.call(stage.world.ok("GET", f"container_requests/{run.uuid}"))
        assert record["owner_uuid"] != project
        assert record["priority"] == 500
        run.requests[0].cancel()
