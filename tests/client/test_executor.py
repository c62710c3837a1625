"""`lading.Executor`, as users of `concurrent.futures` know executors."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest

import lading
from lading.core.errors import Invalid
from tests.cli.site import Play, Site


def test_commands_are_submitted_and_mapped(stage: Site, site: lading.Site, image: str) -> None:
    plays = [Play(stdout=b"%d\n" % number) for number in range(3)]
    with stage.acting(*plays), lading.Executor(site, image=image) as executor:
        futures = [executor.submit(["one", "{}"], number) for number in range(3)]
        done = list(concurrent.futures.as_completed(futures, 30))
    assert sorted(one.result().stdout for one in done) == ["0\n", "1\n", "2\n"]
    assert [one.run for one in futures] == [one.result() for one in futures]
    with lading.Executor(site, image=image) as executor:
        # All of them were run before.
        words = ["{}", "{0}", "{1}", "{2}", "{x}"]
        with stage.acting(Play(), Play()):
            runs = list(executor.map(words, ["a", "b"], ["c", "d"], timeout=30))
    commands = [_command(stage, run) for run in runs]
    assert commands == [["a", "a", "c", "{2}", "{x}"], ["b", "b", "d", "{2}", "{x}"]]


def test_what_is_submitted_at_once_is_one_call(
    stage: Site, site: lading.Site, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    action = site.api.action

    async def counted(*given: Any, **named: Any) -> Any:
        if "batch" in given:
            sizes.append(len(named["body"]["container_requests"]))
        return await action(*given, **named)

    monkeypatch.setattr(site.api, "action", counted)
    with lading.Executor(site, image=image) as executor:
        futures = [executor.submit(["together", "{}"], number) for number in range(50)]
        assert len({future.run.uuid for future in futures}) == 50
        executor.shutdown(cancel_futures=True)
    assert sum(sizes) == 50
    assert len(sizes) < 10
    assert all(future.cancelled() for future in futures)


def test_a_failure_is_raised_and_the_rest_is_cancelled(
    stage: Site, site: lading.Site, image: str
) -> None:
    with lading.Executor(site, image=image) as executor:
        with stage.acting(Play(exit_code=2)):
            results = executor.map(["fail", "{}"], range(3))
            with pytest.raises(lading.RunFailed, match="exit code 2"):
                list(results)
        with pytest.raises(TimeoutError):
            list(executor.map(["late", "{}"], range(2), timeout=0.01))
    assert stage.call(stage.queued()) == []


def test_nothing_is_accepted_after_shutdown(site: lading.Site) -> None:
    executor = lading.Executor(site)
    with pytest.raises(Invalid, match="as a list of words"):
        executor.submit("ls -l")
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(["x"])


def double(number: int) -> int:
    """Twice as much."""
    return 2 * number


def test_functions_are_called_in_containers(stage: Site, site: lading.Site, image: str) -> None:
    plays = [Play(files={"result.json": b"%d" % number}) for number in (2, 4)]
    with lading.Executor(site, image=image, verbose=False) as executor:
        with stage.acting(*plays):
            assert sorted(executor.map(double, [1, 2], timeout=30)) == [2, 4]
        remote = site.function(image=image, verbose=False)(double)
        assert executor.submit(remote, 1).result(30) in (2, 4)


def test_options_of_functions_are_none_of_commands(
    stage: Site, site: lading.Site, image: str
) -> None:
    with lading.Executor(site, image=image, verbose=False, python="python3") as executor:
        future = executor.submit(["quiet"])
        assert _command(stage, future.run) == ["quiet"]
        future.cancel()


def test_without_a_site_it_closes_its_own(
    connecting: Callable[[], lading.Site], monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    monkeypatch.setattr("lading.client.executor.connect", connecting)
    with lading.Executor(image=image) as executor:
        executor.submit(["own"]).cancel()
    with pytest.raises(Invalid, match="is closed"):
        executor.site.put("x")


def _command(stage: Site, run: lading.Run) -> list[str]:
    record = stage.call(stage.world.ok("GET", f"container_requests/{run.uuid}"))
    command: list[str] = record["command"]
    return command
