"""`python -m tests.system.screenshots`: pictures of every page, light, dark and narrow, with the
data of the demonstration and of a tree of 1,000 requests, in build/screenshots. `--readme` also
makes the pictures that README shows, in docs/pictures.

The pages are those of the table of routes, so that none is forgotten.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

from examples.phage import __main__ as phage
from tests.system.cluster import Cluster, free_address
from tests.system.page_views import View, views
from tests.system.page_visitor import ROOT, look_at

_STEPS: Final = (
    "trim", "align", "sort", "index", "call", "filter", "annotate", "count", "plot", "report",
)  # fmt: skip
_LOOKS: Final = ("light", "dark", "narrow")
_TALLEST: Final = 2400
"""Pixels of a page that are drawn: a long list goes on in the same way."""
_PICTURES: Final = {"requests-uuid": "request.png", "requests-uuid-timeline": "timeline.png"}


def main() -> int:
    """Draw; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.screenshots", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build/screenshots")
    parser.add_argument("--steps", type=int, default=1000, help="requests of the large tree")
    parser.add_argument("--readme", action="store_true", help="draw those of README too")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    phage.check_machine()
    with tempfile.TemporaryDirectory(prefix="lading-pictures-") as folder:
        cluster = Cluster(Path(folder) / "data", free_address())
        cluster.start()
        try:
            earlier, report = _demonstrate(cluster)
            tree = _grow(cluster, options.steps)
            kept = _keep(cluster)
            compared = f"/ui/requests/{report}/compare?with={earlier}"
            more = (View("requests-uuid-compare-with", compared),)
            _draw(cluster, options.output, (report, *kept), more)
            _draw(cluster, options.output / "tree", (tree, report, *kept))
        finally:
            cluster.stop()
    if options.readme:
        _copy(options.output)
    sys.stdout.write(f"drawn in {options.output}\n")
    return 0


def _demonstrate(cluster: Cluster) -> list[str]:
    """Run the demonstration twice, with other settings; the uuids of both reports."""
    add = ["image", "add", "--name", phage.IMAGE, "--from-host", *phage.PROGRAMS]
    cluster.lading(*add)
    reports = []
    for quality in (20, 30):
        pipeline = phage.Pipeline(cluster.environment, minimum_quality=quality)
        pipeline.run()
        reports += [one.request for one in pipeline.outcomes if one.step == "report"]
    return reports


def _grow(cluster: Cluster, steps: int) -> str:
    """A tree of so many requests: samples of ten steps that follow each other, of which some fail,
    and one that needs all that did not; its uuid.
    """
    script = f"""
import asyncio, lading
from lading.client.servers.environment import find_server
from lading.client.api import ApiClient
from pathlib import Path
import os
async def main():
    server = find_server(os.environ, Path("/nonexistent"))
    async with server.transport() as transport:
        api = ApiClient(transport, server.token)
        image = (await api.list("container_requests", limit=1))[0]["container_image"]
        def request(name, command, needs):
            return dict(
                name=name, container_image=image, state="Committed", priority=1, command=command,
                output_path="/out", mounts={{"/out": {{"kind": "tmp", "capacity": 1 << 20}}}},
                depends_on=needs, runtime_constraints={{"vcpus": 1, "ram": 1 << 26}})
        before = []
        for step, name in enumerate({_STEPS}):
            made = []
            for sample in range({steps} // 10):
                code = int((step, sample % 12) == (6, 7))
                made.append(request(
                    f"{{name}}_{{sample}}", ["sh", "-c", f": {{name}} {{sample}}; exit {{code}}"],
                    [before[sample]] if before else []))
            answer = await api.request(
                "POST", "container_requests/batch", body={{"container_requests": made}})
            before = [one["uuid"] for one in answer["items"]]
        good = [one for sample, one in enumerate(before) if sample % 12 != 7]
        last = await api.create("container_requests", request("gather", ["true", "gather"], good))
        print(last["uuid"])
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **cluster.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    uuid = done.stdout.strip()
    cluster.lading("wait", uuid, check=False, timeout=1800)
    return uuid


def _keep(cluster: Cluster) -> tuple[str, ...]:
    """The uuids of a collection of data, its project, the user, a webhook with a dead letter, a
    run, and a template.
    """
    project = json.loads(cluster.lading("project", "create", "--json", "Phage lambda").stdout)
    put = ["put", "--json", "--project", project["uuid"], "--name", "reads", str(phage.HERE)]
    collection = json.loads(cluster.lading(*put).stdout)["uuid"]
    run = _run_samples(cluster)
    template = json.loads(cluster.lading("template", "save", run, "--json").stdout)["uuid"]
    hook = _receive(cluster)
    return collection, project["uuid"], project["owner_uuid"], hook, run, template


def _run_samples(cluster: Cluster) -> str:
    """A run of some samples, of which one fails; its uuid."""
    for sample in range(6):
        script = f"exit {3 if sample == 4 else 0} # {sample}"
        words = ("--name", f"align_{sample}", "--image", phage.IMAGE, "--", "sh", "-c", script)
        cluster.lading("run", "--run", "cohort-7", *words, check=False)
    return str(json.loads(cluster.lading("runs", "show", "cohort-7", "--json").stdout)["uuid"])


def _receive(cluster: Cluster) -> str:
    """The uuid of a webhook whose receiver is refused, beside one for Slack."""
    slack = ("https://hooks.slack.com/services/T0/B0/key", "--format", "slack", "--state", "Final")
    cluster.lading("webhook", "create", *slack)
    cluster.lading("quota", "set", "admin", "--containers", "20", "--ram", "64GiB")
    cluster.lading("quota", "set", "project:Phage lambda", "--money", "200/month")
    options = ("--json", "--name", "ci", "--on", "lading.group.create")
    made = cluster.lading("webhook", "create", "http://127.0.0.1:9/lading", *options)
    uuid = str(json.loads(made.stdout)["uuid"])
    cluster.lading("project", "create", "Sequencing")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = json.loads(cluster.lading("webhook", "deliveries", uuid, "--json").stdout)
        if found["dead"]:
            break
        time.sleep(1)
    return uuid


def _draw(
    cluster: Cluster, folder: Path, uuids: tuple[str, ...], more: tuple[View, ...] = ()
) -> None:
    """Draw each page about the first of these records that it is about, and `more` views."""
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        seen: list[View] = []
        for look in _LOOKS:
            seen = _draw_look(browser, cluster, folder / look, uuids, look, seen, more)
        browser.close()


def _draw_look(
    browser: Browser,
    cluster: Cluster,
    folder: Path,
    uuids: tuple[str, ...],
    look: str,
    seen: list[View],
    more: tuple[View, ...],
) -> list[View]:
    """Draw each page with one look; the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for visitor in look_at(cluster, browser, look):
        if not seen:
            path = next(phage.HERE.glob("*.fa")).name
            seen = [*views(visitor.page, visitor.origin, uuids, path=path), *more]
        for one in seen:
            visitor.go(one.path)
            visitor.page.wait_for_timeout(300)
            _shoot(visitor.page, folder / f"{one.name}.png")
            if one.name in _PICTURES:
                # README shows what a window shows.
                visitor.page.screenshot(path=folder / f"{one.name}-top.png")
        visitor.page.context.clear_cookies()
        visitor.go("/ui/login")
        _shoot(visitor.page, folder / "login.png")
    return seen


def _shoot(page: Page, path: Path) -> None:
    size = "[document.documentElement.clientWidth, document.documentElement.scrollHeight]"
    width, height = page.evaluate(size)
    clip: FloatRect = {"x": 0, "y": 0, "width": width, "height": min(height, _TALLEST)}
    page.screenshot(path=path, full_page=True, clip=clip)


def _copy(folder: Path) -> None:
    """The pictures that README shows."""
    target = ROOT / "docs/pictures"
    target.mkdir(exist_ok=True)
    for name, picture in _PICTURES.items():
        source = folder / ("tree/light" if "timeline" in name else "light") / f"{name}-top.png"
        (target / picture).write_bytes(source.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
