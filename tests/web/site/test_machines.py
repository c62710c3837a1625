"""The page with the machines."""

from __future__ import annotations

from typing import Any

from tests.web.browsing import Browser, PageSite

EVIL = "<script>alert(1)</script>"


async def _report(here: PageSite, *, history: list[Any] | None = None, **more: Any) -> None:
    machine = {
        "id": "i-1", "kind": "vm", "state": "running", "type": "m5.large", "address": "10.0.0.1",
        "price": 0.096, "since": "2026-01-02T03:00:00.000000000Z", "note": EVIL,
        "total": {"vcpus": 4, "ram": 8 << 30}, "reserved": {"vcpus": 1, "ram": 1 << 30},
        "actions": ["hold", "drain", "kill"], **more,
    }  # fmt: skip
    await here.world.ok(
        "POST", "dispatch/machines",
        {"report": {"machines": [machine], "history": history or []}},
        token=here.world.dispatcher,
    )  # fmt: skip


async def _order(browser: Browser, here: PageSite, **form: str) -> Any:
    [report] = (await here.world.ok("GET", "dispatch/machines"))["items"]
    fields = {"dispatcher": report["dispatcher"], "machine": "i-1", **form}
    return await browser.post("/ui/machines/order", fields)


async def _orders(here: PageSite) -> list[Any]:
    answer = await here.world.ok(
        "POST", "dispatch/machines", {"report": None}, token=here.world.dispatcher
    )
    found: list[Any] = answer["orders"]
    return found


async def test_no_dispatcher(browser: Browser) -> None:
    assert "No dispatcher has reported machines" in await browser.words("/ui/machines")


async def test_a_machine(here: PageSite, browser: Browser) -> None:
    request = await here.world.submit("x", name="on-it")
    note = {"at": "2026-01-02T03:00:00Z", "machine": "i-0", "text": "no boot", "is_fault": True}
    await _report(here, containers=[request["container_uuid"]], history=[note])
    words, text = await browser.words("/ui/machines"), await browser.text("/ui/machines")
    for part in ("▶ running", "m5.large", "10.0.0.1", "$0.096 an hour", "VCPUs not known 1 4"):
        assert part in words
    assert "✗ failure: no boot" in words
    assert f'href="/ui/requests/{request["uuid"]}"' in text
    assert EVIL not in text
    assert "None matches" in await browser.words("/ui/machines/list?state=idle")


async def test_who_has_which_gpu(here: PageSite) -> None:
    request = await here.world.submit("x", name="trains")
    container = request["container_uuid"]
    gpus = [
        {"device": "nvidia0", "is_used": True, "container": container},
        {"device": "nvidia1", "is_used": True},
        {"device": "nvidia2"},
    ]
    await _report(here, containers=[container], gpus=gpus, gpu_kind="3 GPUs (8.6)")
    words = await (await here.logged_in()).words("/ui/machines")
    assert "GPUs 3 GPUs (8.6) nvidia0 : trains nvidia1 : in use nvidia2 : free" in words
    jane = await (await here.logged_in(await here.world.user("jane"))).words("/ui/machines")
    assert "nvidia0 : in use nvidia1 : in use nvidia2 : free" in jane
    [report] = (await here.world.ok("GET", "dispatch/machines"))["items"]
    assert report["machines"][0]["gpus"][0]["container"] == container


async def test_how_gpus_are_used_and_which_failed(here: PageSite) -> None:
    gpus = [
        {
            "device": "nvidia0", "kind": "a100", "busy": 0.45, "memory": 40 << 30,
            "memory_used": 1 << 30,
        },
        {"device": "nvidia1", "fault": "Xid 79"},
    ]  # fmt: skip
    await _report(here, gpus=gpus, actions=["hold", "restore"])
    words = await (await here.logged_in()).words("/ui/machines")
    assert "nvidia0 : free a100; 45 % busy, 1.0 GiB of 40.0 GiB" in words
    assert "nvidia1 : ✗ out of service Xid 79" in words
    assert "Restore" in words


async def test_what_others_see(here: PageSite) -> None:
    request = await here.world.submit("x", name="secret-name")
    await _report(here, containers=[request["container_uuid"]])
    jane = await here.logged_in(await here.world.user("jane"))
    words = await jane.words("/ui/machines")
    assert "1 container of others" in words
    for part in ("secret-name", "10.0.0.1", "Lately", "Drain"):
        assert part not in words
    assert (await _order(jane, here, action="drain")).status == 403
    assert await _orders(here) == []


async def test_an_order(here: PageSite, browser: Browser) -> None:
    await _report(here)
    answer = await _order(browser, here, action="drain", reason=" old ")
    assert answer.headers["location"] == "/ui/machines?ordered=drain&machine=i-1"
    assert "drain was ordered for i-1" in await browser.words(answer.headers["location"])
    assert await _orders(here) == [{"machine": "i-1", "action": "drain", "reason": "old"}]
    assert (await _order(browser, here, action="")).status == 422


async def test_killing_asks_first(here: PageSite, browser: Browser) -> None:
    await _report(here)
    answer = await _order(browser, here, action="kill", reason="broken")
    assert (answer.status, b"Kill i-1?" in answer.body) == (200, True)
    assert await _orders(here) == []
    answer = await _order(browser, here, action="kill", sure="yes")
    assert answer.status == 303
    assert [one["action"] for one in await _orders(here)] == ["kill"]


async def test_a_machine_that_is_held(here: PageSite, browser: Browser) -> None:
    await _report(here, kind="host", behavior="hold", used={"vcpus": 2.5, "ram": 1 << 30})
    words = await browser.words("/ui/machines")
    assert "⊘ running held machine of the dispatcher" in words
    assert "VCPUs 2.5 1 4" in words


async def test_a_machine_that_takes_no_orders_says_why(here: PageSite) -> None:
    await _report(here, kind="node", actions=[], takes_none="user x may not <b>")
    assert "user x may not &lt;b&gt;" in await (await here.logged_in()).text("/ui/machines")
    jane = await here.logged_in(await here.world.user("jane"))
    assert "may not" not in await jane.words("/ui/machines")


async def test_more_work_than_processors(here: PageSite, browser: Browser) -> None:
    await _report(here, used={"vcpus": 26.8, "ram": 1 << 30})
    assert "VCPUs 4 (load 26.8) 1 4" in await browser.words("/ui/machines")
