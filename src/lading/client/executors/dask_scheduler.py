"""Containers as a scheduler of Dask.

    dask.compute(total, scheduler=lading.DaskScheduler(image="tools:1"))

Tasks that call a function of yours run in containers, as those of `lading.Executor`; what Dask
itself does between them, such as building lists and adding numbers, is done here.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Hashable, Mapping
from types import FunctionType
from typing import Any, Final

from dask._task_spec import GraphNode, Task, TaskRef, convert_legacy_graph
from dask.core import flatten
from dask.local import nested_get
from dask.utils import ensure_dict

from lading.client.executor import Executor
from lading.client.functions import RemoteFunction

_INNER: Final = ("dask.", "distributed.", "toolz.", "tlz.")
"""Modules whose functions are run here."""
Key = Hashable


class DaskScheduler:
    """A `get` function of Dask. `executor` is one that the user closes; without one, `options` are
    those of `lading.Executor`, and each call has one of its own.
    """

    def __init__(self, executor: concurrent.futures.Executor | None = None, **options: Any) -> None:
        self._executor, self._options = executor, options

    def __call__(self, dsk: Mapping[Any, Any], keys: Any, **_: Any) -> Any:
        """The values of the keys of a graph. Raises the error of the first task that fails, and
        cancels the others.
        """
        if self._executor is not None:
            return _GraphRun(self._executor, dsk, keys).result()
        with Executor(**self._options) as executor:
            return _GraphRun(executor, dsk, keys).result()


class _GraphRun:
    """One computation: nodes whose values are needed, in the order in which they can be made."""

    def __init__(
        self, executor: concurrent.futures.Executor, dsk: Mapping[Any, Any], keys: Any
    ) -> None:
        self._executor, self._keys = executor, keys
        # Since 2025 Dask passes an expression that stands for the graph.
        plain = dsk.__dask_graph__() if hasattr(dsk, "__dask_graph__") else dsk
        graph: Mapping[Key, GraphNode] = convert_legacy_graph(ensure_dict(plain))
        self._targets = set(flatten([keys]))
        self._nodes = _needed(graph, self._targets)
        self._missing = {key: set(node.dependencies) for key, node in self._nodes.items()}
        self._users: dict[Key, set[Key]] = {key: set() for key in self._nodes}
        for key, dependencies in self._missing.items():
            for dependency in dependencies:
                self._users[dependency].add(key)
        self._values: dict[Key, Any] = {}
        self._pending: dict[concurrent.futures.Future[Any], Key] = {}

    def result(self) -> Any:
        """Compute; the values in the form of the keys."""
        ready = [key for key, missing in self._missing.items() if not missing]
        try:
            while ready or self._pending:
                while ready:
                    ready += self._begin(ready.pop())
                if self._pending:
                    ready += self._wait()
        finally:
            for future in self._pending:
                future.cancel()
        return nested_get(self._keys, self._values)

    def _begin(self, key: Key) -> list[Key]:
        """Submit a task, or compute what is done here; the keys that can be begun then."""
        node = self._nodes[key]
        values = {dependency: self._values[dependency] for dependency in node.dependencies}
        if not _is_remote(node):
            return self._settle(key, node(values))
        arguments = [_resolved(argument, values) for argument in node.args]
        options = {name: _resolved(value, values) for name, value in node.kwargs.items()}
        self._pending[self._executor.submit(node.func, *arguments, **options)] = key
        return []

    def _wait(self) -> list[Key]:
        done, _ = concurrent.futures.wait(
            self._pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        return [
            key
            for future in done
            for key in self._settle(self._pending.pop(future), future.result())
        ]

    def _settle(self, key: Key, value: Any) -> list[Key]:
        self._values[key] = value
        ready = []
        for user in self._users[key]:
            self._missing[user].discard(key)
            if not self._missing[user]:
                ready.append(user)
        return ready


def _needed(graph: Mapping[Key, GraphNode], targets: set[Key]) -> dict[Key, GraphNode]:
    """The nodes that the targets need."""
    nodes: dict[Key, GraphNode] = {}
    waiting = list(targets)
    while waiting:
        key = waiting.pop()
        if key not in nodes:
            nodes[key] = graph[key]
            waiting += nodes[key].dependencies
    return nodes


def _is_remote(node: GraphNode) -> bool:
    """Whether a node calls a function of the user."""
    if type(node) is not Task:
        return False
    function = node.func
    is_plain = isinstance(function, FunctionType | RemoteFunction)
    return is_plain and not f"{function.__module__}.".startswith(_INNER)


def _resolved(argument: Any, values: Mapping[Any, Any]) -> Any:
    """An argument of a task with the values of other nodes in it."""
    if isinstance(argument, TaskRef):
        return values[argument.key]
    if not isinstance(argument, GraphNode):
        return argument
    return argument({key: values[key] for key in argument.dependencies})
