"""The outputs of a run, with their first files."""

from __future__ import annotations

import re

from tests.web.addresses import EVIL_NAME
from tests.web.browsing import Browser, PageSite
from tests.web.runs.making import begin_run, submit_step

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def _names(page: str) -> list[str]:
    return re.findall(r'<a href="/ui/requests/[^"/]*">([^<]*)</a>', page)


async def test_outputs_of_the_last_steps_come_first(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "made")
    before = await submit_step(here, run, "align", "1", exit_code=0, files={"a.bam": b"a"})
    await submit_step(
        here, run, "plot", "1", exit_code=0, files={"p.png": b"p"}, depends_on=[before["uuid"]]
    )
    await submit_step(here, run, "empty", "1", exit_code=0, files={})
    path = f"/ui/runs/{run['uuid']}/outputs"
    assert _names(await browser.text(path)) == ["plot_1", "align_1"]
    assert _names(await browser.text(f"{path}?step=align")) == ["align_1"]
    assert "No step has an output" in await browser.words(f"{path}?step=none")


async def test_files_to_look_at_are_named_first(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "plots")
    files = {f"data/{number}.txt": b"x" for number in range(9)}
    files |= {"fig/k.png": PNG, "Rplots.pdf": b"%PDF-1.4", EVIL_NAME: b"x"}
    plot = await submit_step(here, run, "plot", "1", exit_code=0, files=files)
    page = await browser.text(f"/ui/runs/{run['uuid']}/outputs")
    place = f"/ui/requests/{plot['uuid']}/files"
    shown = re.findall(r'/files/show\?path=([^"]*)"', page)
    assert shown[:2] == ["Rplots.pdf", "fig%2Fk.png"]
    assert len(shown) == 5
    assert f'src="{place}/raw?path=fig%2Fk.png"' in page
    assert "raw?path=Rplots.pdf" not in page
    assert f'href="{place}" aria-label="All files of plot_1">All 12 files' in page
    assert "<script>alert" not in page
    for path in shown[:2]:
        assert (await browser.get(f"{place}/show?path={path}")).status == 200


async def test_pictures_of_a_page_are_few_and_small(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "pictures")
    for number in range(4):
        files = {f"{name}.png": PNG + bytes([number]) for name in "abcd"}
        await submit_step(here, run, "draw", str(number), exit_code=0, files=files)
    large = {"z.png": PNG + b"x" * (3 << 20)}
    await submit_step(here, run, "large", "1", exit_code=0, files=large)
    page = await browser.text(f"/ui/runs/{run['uuid']}/outputs")
    assert page.count('class="thumbnail"') == 12
    assert "z.png" in page
    assert "raw?path=z.png" not in page


async def test_an_output_of_many_files_is_not_read(here: PageSite, browser: Browser) -> None:
    run = await begin_run(here, "many")
    files = {f"{number:04}.txt": b"" for number in range(300)}
    await submit_step(here, run, "split", "1", exit_code=0, files=files)
    page = await browser.text(f"/ui/runs/{run['uuid']}/outputs")
    assert "0000.txt" not in page
    assert ">All 300 files</a>" in page
