"""One request in a real browser: its log, what it uses, and what it made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.system.cluster import Cluster
from tests.system.page_visitor import (
    PATIENCE,
    Visitor,
    chromium,
    cluster,
    reader,
    submit,
    visitor,
)

__all__ = ["chromium", "cluster", "reader", "visitor"]
pytestmark = pytest.mark.system
REPORT = (
    "<h1>Report</h1><p id=said>no script</p><script>let s=[];"
    "s.push(self.origin);"
    "try{parent.document.title}catch(e){s.push('parent is closed')}"
    "try{localStorage.x}catch(e){s.push('no storage')}"
    "try{document.cookie}catch(e){s.push('no cookies')}"
    "said.textContent=s.join(', ')</script>"
)


def _ended(cluster: Cluster, name: str, script: str, *options: str) -> str:
    uuid = submit(cluster, name, script, *options)
    cluster.lading("wait", uuid, check=False)
    return uuid


def test_a_long_log_is_read_in_bounded_pieces(cluster: Cluster, reader: Visitor) -> None:
    request = _ended(cluster, "long log", "seq 7000; echo at the end >&2")
    page = reader.page
    reader.go(f"/ui/requests/{request}/log")
    lines = page.locator("#log .line")
    expect(lines.last).to_be_in_viewport()
    earlier = page.get_by_role("link", name="Earlier lines")
    while earlier.is_visible():
        before = lines.first.inner_text()
        earlier.click()
        expect(lines.first).not_to_have_text(before, timeout=PATIENCE)
        # Only then it is decided whether the link stays.
        expect(page.locator("[data-more][data-busy]")).to_have_count(0)
        assert lines.count() <= 5000
    # The same page: nothing was loaded anew, and the lines at the end made room.
    assert page.url.endswith("/log")
    expect(page.get_by_role("link", name="The end of the log")).to_be_visible()
    reader.check()
    page.get_by_role("link", name="The end of the log").click()
    expect(page.get_by_text("at the end")).to_be_visible()


def test_the_log_is_filtered_searched_and_saved(cluster: Cluster, visitor: Visitor) -> None:
    request = _ended(cluster, "filtered", "seq 300; echo needle; echo '<b>bad</b> Needle' >&2")
    page = visitor.page
    visitor.go(f"/ui/requests/{request}/log")
    visitor.check()
    page.get_by_role("link", name="stdout.txt").click()
    expect(page.get_by_text("<b>bad</b> Needle")).to_be_visible()
    assert page.locator("#log .source", has_text="stdout").count() == 0
    page.get_by_role("link", name="stdout.txt").click()
    page.get_by_label("Text in these files").fill("needle")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("2 lines with"))).to_be_visible()
    visitor.check()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download these lines").click()
    assert len(Path(saved.value.path()).read_text().splitlines()) == 2
    with page.expect_download() as whole:
        page.get_by_role("link", name="Download the whole log").click()
    assert len(Path(whole.value.path()).read_text().splitlines()) > 300


def test_the_log_is_there_before_and_after(cluster: Cluster, reader: Visitor) -> None:
    request = submit(cluster, "before and after", "for i in 1 2 3; do echo turn $i; sleep 1; done")
    # Opened at once, perhaps before there is a log.
    reader.go(f"/ui/requests/{request}/log")
    expect(reader.page.get_by_text("turn 3")).to_be_visible(timeout=PATIENCE)
    cluster.lading("wait", request)
    expect(reader.page.get_by_text("turn 3")).to_be_visible()
    reader.page.reload()
    expect(reader.page.get_by_text("turn 1")).to_be_visible()
    reader.check()


def test_use_of_resources_is_plotted(cluster: Cluster, visitor: Visitor) -> None:
    request = _ended(
        cluster, "plotted", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 1"
    )
    visitor.go(f"/ui/requests/{request}/usage")
    page = visitor.page
    expect(page.locator("#plots canvas")).to_have_count(2)
    expect(page.get_by_role("columnheader", name="Memory in use")).to_be_visible()
    # Something is drawn: not all points have the colour of the ground.
    colours = page.evaluate(
        "Array.from(document.querySelectorAll('#plots canvas'), one => new Set(new Uint32Array("
        "one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer)).size)"
    )
    assert all(one > 5 for one in colours)
    visitor.check()


def test_files_are_shown(cluster: Cluster, visitor: Visitor) -> None:
    script = (
        "cd /out; printf 'name,n\\n\"a, b\",<b>1</b>\\n' > t.csv; echo '<i>text</i>' > '<b>.txt'"
    )
    request = _ended(cluster, "shown", script)
    page = visitor.page
    visitor.go(f"/ui/requests/{request}/files")
    visitor.check()
    page.get_by_role("link", name="t.csv", exact=True).click()
    expect(page.get_by_role("cell", name="a, b")).to_be_visible()
    expect(page.get_by_role("cell", name="<b>1</b>")).to_be_visible()
    visitor.check()
    page.get_by_role("link", name="Output", exact=True).last.click()
    page.get_by_role("link", name="<b>.txt", exact=True).click()
    expect(page.get_by_text("<i>text</i>")).to_be_visible()
    visitor.check()


def test_html_has_no_rights(cluster: Cluster, reader: Visitor, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(REPORT)
    (tmp_path / "drawing.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><circle r='9' onclick='alert(1)'/></svg>"
    )
    cluster.lading("put", "--name", "reports", str(tmp_path))
    page = reader.page
    page.get_by_label("Search everything").fill("reports")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="reports").first.click()
    if page.get_by_role("link", name=f"{tmp_path.name}/").count():
        page.get_by_role("link", name=f"{tmp_path.name}/").click()
    page.get_by_role("link", name="drawing.svg", exact=True).click()
    reader.check()
    page.go_back()
    page.get_by_role("link", name="report.html", exact=True).click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_text("no script")).to_be_visible()
    # The browser says that it has refused the script.
    assert all("sandboxed" in one for one in reader.faults)
    reader.faults.clear()
    page.get_by_role("link", name="Run its scripts").click()
    expect(frame.locator("#said")).to_have_text(
        "null, parent is closed, no storage, no cookies", timeout=PATIENCE
    )
    reader.check()


_ACTIONS = {
    "address": "<</S/URI/URI(http://127.0.0.1:9/seen)>>",
    "form": "<</S/SubmitForm/F<</FS/URL/F(http://127.0.0.1:9/seen)>>/Flags 4>>",
    "launch": "<</S/JavaScript/JS(app.launchURL\\('http://127.0.0.1:9/seen', true\\);)>>",
    "submit": "<</S/JavaScript/JS(this.submitForm\\('http://127.0.0.1:9/seen'\\);)>>",
}
"""What a document does when it is opened."""
_DOCUMENT = """%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction ACTION>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/MediaBox[0 0 300 200]/Parent 2 0 R/Resources<<>>>>endobj
trailer<</Root 1 0 R>>
"""


def test_a_document_has_no_rights(cluster: Cluster, reader: Visitor, tmp_path: Path) -> None:
    for name, action in _ACTIONS.items():
        (tmp_path / f"{name}.pdf").write_text(_DOCUMENT.replace("ACTION", action))
    files = [str(tmp_path / f"{name}.pdf") for name in _ACTIONS]
    put = cluster.lading("put", "--json", "--name", "documents", *files)
    uuid = json.loads(put.stdout)["uuid"]
    page, windows = reader.page, list[object]()
    page.context.on("page", lambda window: windows.append(window))
    for name in _ACTIONS:
        place = f"{reader.origin}/ui/collections/{uuid}/show?path={name}.pdf"
        with page.expect_response(lambda answer: "/raw?" in answer.url) as raw:
            page.goto(place)
        assert raw.value.headers["content-type"] == "application/pdf"
        page.wait_for_timeout(1500)  # What it may do comes without a sign.
        assert page.url == place
        # Nothing but the reader of the browser was loaded.
        assert all(fault.startswith("request to chrome") for fault in reader.faults), reader.faults
        assert any("chrome-extension" in fault for fault in reader.faults)
        reader.faults.clear()
    assert windows == []
    # Alone in a window it is not shown.
    alone = page.request.get(raw.value.url, headers={"Sec-Fetch-Dest": "document"})
    assert alone.status == 422


def test_a_graph_marks_where_two_pipelines_differ(cluster: Cluster, visitor: Visitor) -> None:
    last = []
    for mark in ("one", "two"):
        made = _ended(cluster, "clean", f"echo {mark} > /out/x")
        last.append(_ended(cluster, "plot", "echo < /in/x > /out/y", "--input", f"/in={made}"))
    visitor.go(f"/ui/requests/{last[1]}/compare?with={last[0]}")
    expect(visitor.page.get_by_text("Machine: ").first).to_be_visible()
    visitor.check()
    visitor.page.get_by_role("link", name="Show the steps that differ in the graph").click()
    # Two steps, and the output of the first one.
    expect(visitor.page.locator("rect.on-path")).to_have_count(3)
    drawing = visitor.page.locator("#drawing-svg")
    larger = visitor.page.get_by_role("button", name="Larger")
    # The script of the page shows it, and makes the drawing fit: the size is known from then on.
    expect(larger).to_be_visible()
    before = drawing.bounding_box()
    larger.click()
    after = drawing.bounding_box()
    assert before
    assert after
    assert after["width"] > before["width"] * 1.2
    visitor.page.locator("#canvas").focus()
    visitor.page.keyboard.press("0")
    visitor.check()


def test_a_phone_of_320_pixels(cluster: Cluster, reader: Visitor) -> None:
    request = _ended(cluster, "on a phone with a long name", "echo text > /out/a-long-name.txt")
    reader.page.set_viewport_size({"width": 320, "height": 640})
    for view in ("", "/log", "/usage", "/files", "/timeline", "/graph", "/compare", "/shell",
                 "/files/show?path=a-long-name.txt"):  # fmt: skip
        reader.go(f"/ui/requests/{request}{view}")
        reader.check()


@pytest.mark.parametrize("width", [1280, 390])
def test_names_without_a_space_are_broken(cluster: Cluster, reader: Visitor, width: int) -> None:
    name = "w" * 200
    request = _ended(cluster, name, f"echo text > /out/{name}")
    output = cluster.lading("request", "show", request, "--json").stdout
    collection = json.loads(output)["output_uuid"]
    reader.page.set_viewport_size({"width": width, "height": 800})
    pages = [f"/ui/requests/{request}{view}" for view in ("", "/files", "/graph", "/timeline")]
    pages += [f"/ui/requests/{request}/files/show?path={name}", f"/ui/collections/{collection}"]
    for page in (*pages, f"/ui/search?q={name}", "/ui/projects"):
        reader.go(page)
        reader.check()
