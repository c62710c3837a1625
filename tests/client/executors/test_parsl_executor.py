"""Containers as an executor of Parsl; here threads and made-up runs stand for them."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("parsl")
from parsl.app.bash import remote_side_bash_executor
from parsl.app.errors import BashExitFailure, wrap_error

from lading.client.executors.parsl_executor import ParslContainers
from lading.client.runs import RunFailed
from lading.core.errors import Invalid


class Immediate:
    """Calls functions at once; commands give a made-up run."""

    def __init__(self, exit_code: int = 0) -> None:
        self.commands: list[Any] = []
        self._exit_code = exit_code

    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if callable(fn):
            future.set_result(fn(*args, **options))
            return future
        self.commands.append((fn, options))
        output = {"d/x": SimpleNamespace(read_bytes=lambda: b"1")}
        run: Any = SimpleNamespace(stdout="said", stderr="", output=output)
        if self._exit_code:
            future.set_exception(RunFailed("no", run, exit_code=self._exit_code, log=""))
        else:
            future.set_result(run)
        return future


def started(executor: Immediate, **options: Any) -> ParslContainers:
    containers = ParslContainers(executor=executor, **options)  # type: ignore[arg-type]
    containers.start()
    return containers


def bash_app(function: Any) -> Any:
    """As Parsl passes a bash_app to its executors."""
    remote = partial(remote_side_bash_executor, function)
    remote.__name__ = function.__name__  # type: ignore[attr-defined]
    return wrap_error(remote)


def line(word: str, **_: Any) -> str:
    """The command line of an app."""
    return f"echo {word}"


def test_a_python_app_is_its_function() -> None:
    def double(number: int) -> int:
        return 2 * number

    @wraps(double)
    def wrapper(number: int) -> int:
        raise AssertionError("the wrapper runs nowhere")

    containers = started(Immediate())
    assert containers.submit(wrapper, {}, 2).result() == 4
    with pytest.raises(Invalid, match="make one more"):
        containers.submit(wrapper, {"cores": 2}, 2)
    assert not containers.monitor_resources()
    containers.shutdown()


def test_a_bash_app_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("x")
    executor = Immediate()
    files = SimpleNamespace(filepath=str(tmp_path / "in")), SimpleNamespace(filepath="d/x")
    done = started(executor).submit(
        bash_app(line), {"cores": 2, "memory": 100}, "hi",
        inputs=[files[0]], outputs=[files[1]], stdout=str(tmp_path / "out"), walltime=60,
    )  # fmt: skip
    assert done.result() == 0
    inputs = {str(tmp_path / "in"): tmp_path / "in"}
    resources = {"vcpus": 2, "ram": 100 << 20, "max_run_time": 60}
    assert executor.commands == [(["bash", "-c", "echo hi"], {"inputs": inputs, **resources})]
    assert (tmp_path / "d" / "x").read_bytes() == b"1"
    assert (tmp_path / "out").read_text() == "said"


def test_faults() -> None:
    failed = started(Immediate(exit_code=3)).submit(bash_app(line), {}, "x")
    with pytest.raises(BashExitFailure):
        failed.result()
    absolute = SimpleNamespace(filepath="/etc/x")
    with pytest.raises(Invalid, match="below the working directory"):
        started(Immediate()).submit(bash_app(line), {}, "x", outputs=[absolute])
    with pytest.raises(Invalid, match="give cores and memory alone"):
        started(Immediate()).submit(bash_app(line), {"gpus": 1}, "x")
    with pytest.raises(Invalid, match="not started"):
        ParslContainers().submit(line, {})
