"""lading doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.main import cli
from lading.wiring.checked_machine import Check, CheckedMachine, CheckResult
from lading.wiring.machine_checks import first_remedy
from tests.cli.site import Site


def _examine(monkeypatch: pytest.MonkeyPatch, crun: CheckResult) -> None:
    names = ("python", "overlay", "namespaces")
    fine = [Check(name=name, verdict=CheckResult.OK, finding="yes") for name in names]
    fine.append(Check(name="podman", verdict=CheckResult.WARNING, finding="none"))
    other = Check(
        name="docker",
        verdict=CheckResult.WARNING,
        finding="no socket",
        mend="apt install docker.io",
    )

    def examine(_machine: CheckedMachine) -> list[Check]:
        return [
            *fine,
            other,
            Check(
                name="native",
                verdict=crun,
                finding="x",
                mend="" if crun is CheckResult.OK else "mend it",
            ),
        ]

    monkeypatch.setattr("lading.wiring.machine_checks.examine", examine)


def test_a_fit_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _examine(monkeypatch, CheckResult.OK)
    done = CliRunner().invoke(cli, ["doctor", "--data", str(tmp_path)])
    assert done.exit_code == 0
    assert "apt install docker.io" in done.stdout
    assert done.stdout.endswith("This machine can run containers.\n")


def test_an_unfit_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    _examine(monkeypatch, CheckResult.MISSING)
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 1
    assert "This machine cannot run containers yet." in done.stdout
    answer = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)
    assert answer["can_run"] is False
    assert answer["checks"][-1] == {
        "name": "native",
        "verdict": "missing",
        "found": "x",
        "mend": "mend it",
    }


def test_a_site_is_checked_step_by_step(site: Site) -> None:
    # This site has no image, no files and no dispatcher.
    done = site.lading("doctor", "--live", code=1)
    lines = done.stdout.splitlines()
    assert lines[0].startswith(" 1  server      ok ")
    assert any(line.startswith(" 5  blocks      ok ") for line in lines)
    assert any(line.startswith(" 9  image       failed ") for line in lines)
    assert "    do: lading image add --from-host sh --name sh:1" in lines
    assert any(line.startswith("10  container   skipped ") for line in lines)
    assert lines[-1] == "This site is not well; see 'do' above."


def test_the_checks_of_a_site_as_json(site: Site) -> None:
    answer = json.loads(site.lading("doctor", "--live", "--json", code=1).stdout)
    assert answer["ok"] is False
    assert [one["number"] for one in answer["checks"]] == list(range(1, 13))
    first = answer["checks"][0]
    # In milliseconds: a server in the same process may answer in less than half of one.
    assert 0 <= first.pop("seconds") < 60
    assert first.pop("found").startswith("lading ")
    assert first == {"number": 1, "name": "server", "result": "ok", "mend": ""}


@pytest.mark.parametrize(
    ("user", "faults", "first"),
    [
        (0, ("native", "docker", "podman"), "native"),
        (1000, ("native", "docker", "podman"), "native"),
        (1000, ("native", "docker"), None),
    ],
)
def test_one_remedy_comes_first(user: int, faults: tuple[str, ...], first: str | None) -> None:
    names = ("python", "native", "docker", "podman")
    checks = [
        Check(
            name=name,
            verdict=CheckResult.MISSING if name in faults else CheckResult.OK,
            finding="x",
            mend="mend it" if name in faults else "",
        )
        for name in names
    ]
    remedy = first_remedy(checks, user=user)
    assert (remedy.name if remedy else None) == first


def test_a_batch_system_that_is_not_here_is_named_with_its_remedy(tmp_path: Path) -> None:
    config = tmp_path / "config.yml"
    config.write_text("Containers: {Dispatcher: batch, Batch: {System: pbs}}")
    environment = {"PATH": str(tmp_path)}
    done = CliRunner().invoke(cli, ["doctor", "--site", str(config)], env=environment)
    assert done.exit_code == 1
    assert "qstat: cannot be run" in done.output
    assert "install the programs of PBS here" in done.output
    assert "A dispatcher cannot run containers here yet." in done.output
