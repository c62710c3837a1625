"""Versions of templates from runs and requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lading
from lading.client.run_records.reading import find_run
from lading.client.templates import saving
from lading.core.errors import Invalid
from lading.core.templates.making import ParameterWish
from tests.cli.site import Site


def test_a_request_that_was_never_submitted_is_no_template(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    with connecting() as site:
        draft = stage.call(
            stage.world.submit("a", name="draft", state="Uncommitted", container_image="none:1")
        )
        with pytest.raises(Invalid, match="draft: had no container"):
            site.call(saving.of_request(site.api, draft))


def test_the_runner_of_a_workflow_is_one_request_with_inputs(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    target = "/var/lib/cwl/cwl.input.json"
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        target: {"kind": "json", "content": {"k": 1}},
    }
    command = ("arvados-cwl-runner", "--project-uuid=zzzzz-j7d0g-012345678901234", "w.cwl")
    runner = stage.call(stage.world.submit(*command, name="flow", mounts=mounts))
    with connecting() as site:
        reference = site.call(find_run(site.api, runner["uuid"]))
        with pytest.raises(Invalid, match="is waiting"):
            site.call(saving.of_run(site.api, reference))
        site.request(runner["uuid"]).cancel()
        source = site.call(saving.of_run(site.api, reference))
        # Who runs it chooses the project.
        assert source.requests[0]["command"] == ["arvados-cwl-runner", "w.cwl"]
        draft = saving.version_of(source, [ParameterWish(name="k")])
        assert draft.version.properties["k"] == {"type": "integer", "default": 1}
        assert draft.version.is_workflow
