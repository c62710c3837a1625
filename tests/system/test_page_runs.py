"""Runs in a real browser on a real server: from the first screen to the line of standard error of a
failed sample in two clicks, live, clean in the eyes of axe-core.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.system.cluster import LADING, Cluster, running_cluster
from tests.system.page_visitor import PATIENCE, Visitor, chromium, need_page, reader, visitor

__all__ = ["chromium", "reader", "visitor"]
pytestmark = pytest.mark.system
_SAMPLES = 6
_BAD = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A site whose machine has a price."""
    need_page()
    config = "Containers: {StopGracePeriod: 500ms}\nLocal: {Price: 3600}\n"
    with running_cluster(tmp_path_factory.mktemp("page") / "data", config) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "cat", "echo")
        yield running


def _run(cluster: Cluster, name: str) -> str:
    """A run of some samples, of which one fails, and a step after them; its uuid."""
    for sample in range(_SAMPLES):
        script = f"echo reads of {sample} > /out/reads.txt; echo sample {sample} read >&2"
        if sample == _BAD:
            script = f"echo sample {sample} has no reads >&2; exit 3"
        cluster.lading("run", "--run", name, "--name", f"align_{sample}", "--image", "tools:1",
                       "--", "sh", "-c", script, check=False)  # fmt: skip
    cluster.lading("run", "--run", name, "--name", "plot", "--image", "tools:1",
                   "--", "sh", "-c", "echo drawn > /out/plot.txt")  # fmt: skip
    shown = json.loads(cluster.lading("runs", "show", name, "--json").stdout)
    return str(shown["uuid"])


def test_a_failed_sample_is_found_in_two_clicks(cluster: Cluster, reader: Visitor) -> None:
    _run(cluster, "cohort-7")
    page = reader.page
    reader.go("/ui/")
    clicks = 0
    page.get_by_role("link", name="cohort-7").first.click()
    clicks += 1
    failures = page.get_by_role("group", name=f"Last lines of align_{_BAD}")
    expect(failures).to_contain_text(f"sample {_BAD} has no reads")
    page.get_by_role("link", name="Whole log").first.click()
    clicks += 1
    expect(page.locator(".log")).to_contain_text(f"sample {_BAD} has no reads")
    assert clicks == 2
    reader.check()


def test_every_view_of_runs_is_clean(cluster: Cluster, visitor: Visitor) -> None:
    uuid = _run(cluster, "all views")
    for path in (
        "/ui/",
        "/ui/runs?state=failed",
        "/ui/runs?q=none",
        f"/ui/runs/{uuid}",
        f"/ui/runs/{uuid}/steps",
        f"/ui/runs/{uuid}/steps?state=failed",
        f"/ui/runs/{uuid}/graph",
        f"/ui/runs/{uuid}/timeline",
        f"/ui/runs/{uuid}/outputs",
        f"/ui/runs/{uuid}/compare",
        "/ui/requests?by=run&cols=user,project,image,cpus,memory",
        "/ui/requests/submit?run=all+views",
        "/ui/images",
    ):
        visitor.go(path)
        visitor.check()


def _template(cluster: Cluster, name: str) -> str:
    """A template with a number, a choice and a text; its uuid."""
    step = ("run", "--run", name, "--name", "count", "--image", "tools:1", "--env", "MODE=fast")
    cluster.lading(*step, "--", "sh", "-c", 'echo "$1 $2" > /out/counts.txt', "sh", "25", "all")
    saved = cluster.lading(
        "template", "save", name, "--param", "k=25", "--param", "mode=fast", "--param", "part=all",
        "--min", "k=11", "--max", "k=63", "--about", "k=size of k-mers", "--choice", "mode=fast",
        "--choice", "mode=slow", "--description", "Counts k-mers", "--json",
    )  # fmt: skip
    return str(json.loads(saved.stdout)["uuid"])


def test_a_template_is_run_from_its_form(cluster: Cluster, reader: Visitor) -> None:
    _template(cluster, "counting")
    page = reader.page
    reader.go("/ui/")
    page.get_by_role("link", name="Templates").click()
    page.get_by_role("link", name="counting").click()
    page.get_by_label("k", exact=False).first.fill("31")
    page.get_by_label("mode").select_option("slow")
    page.get_by_label("Run", exact=True).fill("by form")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="by form")).to_be_visible()
    reader.check()
    shown = json.loads(cluster.lading("runs", "show", "by form", "--json").stdout)
    assert shown["params"] == {"k": 31, "mode": "slow", "part": "all"}


def test_the_pages_of_templates_are_clean(cluster: Cluster, visitor: Visitor) -> None:
    uuid = _template(cluster, "clean")
    for path in ("/ui/templates", "/ui/templates?q=none", f"/ui/templates/{uuid}"):
        visitor.go(path)
        visitor.check()


def test_files_of_the_form_become_inputs(cluster: Cluster, reader: Visitor, tmp_path: Path) -> None:
    for name in ("reads.fq", "genome.fa"):
        (tmp_path / name).write_text(f"{name}\n")
    page = reader.page
    reader.go("/ui/requests/submit")
    page.get_by_label("Upload files").set_input_files(
        [tmp_path / "reads.fq", tmp_path / "genome.fa"]
    )
    expect(page.get_by_text("2 of 2 uploaded.")).to_be_visible()
    expect(page.get_by_label("Inputs")).to_have_value(
        re.compile(r"^/in/reads\.fq=(\S+)/reads\.fq\n/in/genome\.fa=\1/genome\.fa$")
    )
    reader.check()
    page.get_by_label("Image", exact=True).fill("tools:1")
    page.get_by_label("Command").fill("sh -c 'cat /in/reads.fq /in/genome.fa > both'")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("link", name="both", exact=True).click()
    expect(page.get_by_role("region", name="Text of both")).to_have_text("reads.fq\ngenome.fa\n")
    # A project that is not there: nothing is uploaded, and the form says why.
    reader.go("/ui/requests/submit")
    page.get_by_label("Project").fill("no such project")
    page.get_by_label("Upload files").set_input_files(tmp_path / "reads.fq")
    expect(page.locator("#upload .fault")).to_contain_text("no such project")
    expect(page.get_by_role("button", name="Submit")).to_be_enabled()
    assert all("404" in fault for fault in reader.faults), reader.faults


def test_the_list_follows_a_run(cluster: Cluster, reader: Visitor) -> None:
    _run(cluster, "followed")
    page = reader.page
    reader.go("/ui/runs?q=followed")
    expect(page.locator("#live")).to_have_text("Live")
    cluster.lading("run", "--run", "followed-next", "--image", "tools:1", "--", "sh", "-c", ":")
    expect(page.locator("#new")).to_contain_text("newer runs", timeout=PATIENCE)
    page.get_by_role("link", name="There are newer runs").click()
    expect(page.get_by_role("link", name="followed-next")).to_be_visible()
    reader.check()


_PLOT = """%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/MediaBox[0 0 300 200]/Parent 2 0 R/Resources<<>>>>endobj
trailer<</Root 1 0 R>>
"""


def _attempt(cluster: Cluster, name: str, k: int, *, bad: int) -> str:
    """An attempt of a run with a parameter, in which one sample fails; the run's uuid."""
    begun = json.loads(cluster.lading("runs", "begin", name, "--param", f"k={k}", "--json").stdout)
    names = {"LADING_RUN": begun["uuid"], "LADING_ATTEMPT": str(begun["attempt"])}
    for sample in range(3):
        script = f"echo k={k} > /out/counts.txt"
        if sample == bad:
            script += f"; echo sample {sample}: k={k} is more than its reads >&2; exit 3"
        _submit(cluster, names, f"count_{sample}", script)
    plot = "\n".join(("cat > /out/Rplots.pdf <<'END'", _PLOT + "END"))
    _submit(cluster, names, "plot", plot)
    return str(begun["uuid"])


def _submit(cluster: Cluster, names: dict[str, str], step: str, script: str) -> None:
    subprocess.run(
        [LADING, "run", "--name", step, "--image", "tools:1", "--", "sh", "-c", script],
        env=cluster.environment | names, check=False, capture_output=True, timeout=120,
    )  # fmt: skip


def test_the_page_answers_a_new_user(cluster: Cluster, reader: Visitor) -> None:
    """What failed and why, what differs from Monday, what it cost, where the plot is: a click or
    two from the first screen.
    """
    _attempt(cluster, "assay", 21, bad=-1)
    _attempt(cluster, "assay", 31, bad=1)
    page = reader.page
    reader.go("/ui/")
    row = page.get_by_role("row").filter(has_text="assay")
    expect(row).to_contain_text("4 steps")
    expect(row).to_contain_text("1 failed")
    # What it cost: no click.
    expect(row.locator(".c-cost")).to_contain_text("$")
    # What failed, and why: one click.
    row.get_by_role("link", name="assay").click()
    failures = page.get_by_role("group", name="Last lines of count_1")
    expect(failures).to_contain_text("sample 1: k=31 is more than its reads")
    expect(page.get_by_role("region", name="State")).to_contain_text("cost $")
    # What differs from Monday's: two clicks.
    page.get_by_role("link", name="Compare", exact=True).click()
    changed = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader", name="k", exact=True)
    )
    expect(changed).to_contain_text("21")
    expect(changed).to_contain_text("31")
    reader.check()
    # Where the plot is: two clicks from the run, and it is shown.
    page.get_by_role("link", name="Outputs", exact=True).click()
    reader.check()
    with page.expect_response(lambda answer: "/raw?" in answer.url) as raw:
        page.get_by_role("link", name="Rplots.pdf").first.click()
    assert raw.value.headers["content-type"] == "application/pdf"
    expect(page.locator("iframe.preview")).to_be_visible()
    # The reader of the browser is a page of the browser itself.
    assert all(fault.startswith("request to chrome") for fault in reader.faults), reader.faults
    reader.faults.clear()
    reader.check()
