"""Containers as an executor of Parsl.

    parsl.load(Config(executors=[lading.ParslContainers(image="tools:1")]))

A `python_app` is a function as of `Site.function`. A `bash_app` makes its command line here; it
runs in a container, whose working directory has the files of `outputs` by their relative paths.
"""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from parsl.app.errors import BashExitFailure
from parsl.executors.base import ParslExecutor

from lading.client.executor import Executor
from lading.client.runs import Run, RunFailed
from lading.core.errors import Invalid

_MIB: Final = 1 << 20
_BASH: Final = "remote_side_bash_executor"
"""The function by which Parsl runs the command line of a `bash_app`."""


class ParslContainers(ParslExecutor):  # type: ignore[misc]
    """Apps of Parsl in containers. `options` are those of `lading.Executor`; `cores` and `memory`
    (MiB) of a resource specification take the place of `vcpus` and `ram`.
    """

    def __init__(
        self,
        label: str = "lading",
        executor: concurrent.futures.Executor | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.label = label
        self._lent, self._options = executor, options
        self._executor: Any = None

    def start(self) -> None:
        """Connect."""
        self._executor = self._lent or Executor(**self._options)

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: Mapping[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> concurrent.futures.Future[Any]:
        """Submit a call of an app. Raises Invalid for arguments and resources that a container
        cannot have.
        """
        if self._executor is None:
            raise Invalid(f"{self.label}: is not started; pass it to parsl.load")
        resources = _resources(resource_specification)
        app = inspect.unwrap(func)
        if isinstance(app, functools.partial) and app.func.__name__ == _BASH:
            return self._submit_command(app.args[0], resources, args, kwargs)
        if resources:
            raise Invalid(
                f"{self.label}: resources of a python_app are those of the executor; make one more"
            )
        call: concurrent.futures.Future[Any] = self._executor.submit(app, *args, **kwargs)
        return call

    def shutdown(self) -> None:
        """Close the connection, if this executor has made it."""
        if self._executor is not None and self._executor is not self._lent:
            self._executor.shutdown(wait=False)
        super().shutdown()

    def monitor_resources(self) -> bool:
        """Lading measures its containers itself."""
        return False

    def _submit_command(
        self,
        app: Callable[..., str],
        resources: Mapping[str, Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
    ) -> concurrent.futures.Future[int]:
        command = ["bash", "-c", app(*arguments, **options)]
        inputs = {
            str(Path(file.filepath).absolute()): Path(file.filepath)
            for file in options.get("inputs") or ()
        }
        outputs = [Path(file.filepath) for file in options.get("outputs") or ()]
        for path in outputs:
            if path.is_absolute():
                raise Invalid(f"{path}: give outputs by their paths below the working directory")
        if limit := options.get("walltime"):
            resources = {**resources, "max_run_time": limit}
        submitted: concurrent.futures.Future[Run] = self._executor.submit(
            command, inputs=inputs, **resources
        )
        code: concurrent.futures.Future[int] = concurrent.futures.Future()

        def settle(future: concurrent.futures.Future[Run]) -> None:
            try:
                code.set_result(_finish(future, app.__name__, outputs, options))
            # It is raised where Parsl takes the result.
            except BaseException as error:  # noqa: BLE001
                code.set_exception(error)

        submitted.add_done_callback(settle)
        return code


def _finish(
    future: concurrent.futures.Future[Run],
    name: str,
    outputs: list[Path],
    options: Mapping[str, Any],
) -> int:
    """Write the streams and the outputs of a run to their places here; its exit code. Raises
    BashExitFailure.
    """
    failure: RunFailed | None = None
    try:
        run = future.result()
    except RunFailed as error:
        failure, run = error, error.run
    for stream in ("stdout", "stderr"):
        if place := options.get(stream):
            path, mode = place if isinstance(place, tuple) else (str(place), "a")
            with open(path, mode) as file:
                file.write(getattr(run, stream))
    if failure is not None:
        raise BashExitFailure(name, failure.exit_code) from failure
    for path in outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(run.output[str(path)].read_bytes())
    return 0


def _resources(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run. Raises Invalid for resources that are not known."""
    if further := specification.keys() - {"cores", "memory"}:
        raise Invalid(f"resources: {', '.join(sorted(further))}: give cores and memory alone")
    cores, memory = specification.get("cores"), specification.get("memory")
    return {
        **({"vcpus": cores} if cores else {}),
        **({"ram": int(memory) * _MIB} if memory else {}),
    }
