"""Templates in programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.core.errors import Invalid, NotFound
from tests.cli.site import Site
from tests.client.templates.making import save


def test_a_template_is_run_from_a_program(
    stage: Site, image: str, connecting: Callable[[], lading.Site], tmp_path: Path
) -> None:
    (tmp_path / "reads.fq").write_text("ACGT")
    with connecting() as site:
        save(site, image, "prog")
        save(site, image, "prog")
        template = lading.template("prog", site=site)
        assert (template.version, list(template.schema["properties"])) == (2, ["k", "reads"])
        run = template.run(k=21, reads=tmp_path / "reads.fq", name="cohort-9")
        assert (run.name, run.attempt, run.record["params"]["k"]) == ("cohort-9", 1, 21)
        (request,) = run.requests
        record = stage.call(stage.world.ok("GET", f"container_requests/{request.uuid}"))
        assert record["command"] == ["align", "21"]
        assert record["mounts"]["/in"]["path"] == "reads.fq"
        looks: list[float] = []

        def cancel(seconds: float) -> None:
            looks.append(seconds)
            request.cancel()

        assert run.wait(pause=cancel) == "cancelled"
        assert looks
        assert lading.template("prog@1", site=site).version == 1


def test_faults_are_found_before_anything_is_submitted(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    with connecting() as site:
        save(site, image, "faulty")
        template = lading.template("faulty", site=site)
        wrong: tuple[dict[str, Any], ...] = ({"k": "21"}, {"j": 1}, {"reads": "missing.fq"})
        for values in wrong:
            with pytest.raises(Invalid):
                template.run(values)
        names = [item["name"] for item in stage.call(stage.world.ok("GET", "groups/runs"))["items"]]
        assert "faulty" not in names
        with pytest.raises(NotFound):
            lading.template("none", site=site)
