"""What a container uses, as a page."""

from __future__ import annotations

from lading.web.rendering import amount
from tests.web.browsing import Browser, PageSite

STAMP = "2026-11-24T10:00:{:02}.000000000Z"


def _samples(count: int) -> bytes:
    lines = []
    for number in range(count):
        stamp = STAMP.format(number * 10)
        lines.append(f"{stamp} mem {(number + 1) << 20} rss")
        lines.append(f"{stamp} cpu 9 user 9 sys 2 cpus -- interval 10 seconds {number} user 5 sys")
    return "\n".join([*lines, ""]).encode()


async def _ended(here: PageSite, files: dict[str, bytes], **more: object) -> str:
    request = await here.world.submit("x", **more)  # type: ignore[arg-type]
    log = await here.files.collection(files)
    await here.world.run(request["container_uuid"], log=await here.files.pdh(log))
    return f"/ui/requests/{request['uuid']}/usage"


async def test_a_table_beside_what_was_asked(here: PageSite, browser: Browser) -> None:
    node = b"Host Information\nLinux worker-7 6.1\n"
    path = await _ended(
        here,
        {"crunchstat.txt": _samples(3), "node-info.txt": node},
        runtime_constraints={"vcpus": 2, "ram": 1 << 30},
    )
    words = await browser.words(path)
    assert "Machine: worker-7" in words
    assert "Asked for 2 1.0 GiB" in words
    assert "10 s 0.6 2.0 MiB" in words
    text = await browser.text(path)
    assert 'data-plot="memory"' in text
    assert 'data-plot="disk"' not in text
    assert "every 5s" not in text


async def test_without_samples(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("y")
    words = await browser.words(f"/ui/requests/{request['uuid']}/usage")
    assert "There are no samples" in words
    long = await _ended(here, {"crunchstat.txt": b"x" * 100_000})
    assert "There are no samples" in await browser.words(long)


async def test_one_that_runs_is_looked_at_again(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("z")
    token = await here.world.lock(request["container_uuid"])
    uuid = request["container_uuid"]
    await here.world.ok("PUT", f"containers/{uuid}", {"state": "Running"}, token=token)
    path = f"/ui/requests/{request['uuid']}/usage"
    assert "every 5s" in await browser.text(path)
    assert b"<html" not in (await browser.get(f"{path}/table")).body
    assert (await browser.get(f"{path}?c=zzzzz-dz642-000000000000000")).status == 404


def test_amounts() -> None:
    shown = [amount(0.5, "number"), amount(2048.0, "rate"), amount(None, "bytes")]
    assert shown == ["0.5", "2.0 KiB/s", ""]
