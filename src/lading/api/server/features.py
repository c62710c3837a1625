"""The state of features: each is kept under a key, which the module of its feature has.

The core of the server knows none of them. A state without settings is made at its first use; one
that depends on the configuration is put in place by `assembly.make_app`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

_State = TypeVar("_State")


class FeatureKey(Generic[_State]):
    """Names one state of a feature. `make` makes it at its first use; without it the state has to
    be put in place.
    """

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[[], _State] | None = None) -> None:
        self.name = name
        self.make = make


class FeatureStates:
    """The states of the features of one server."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[object, object] = {}

    def __getitem__(self, key: FeatureKey[_State]) -> _State:
        """The state under a key. Raises LookupError for one that has to be put in place first."""
        if key not in self._states:
            if key.make is None:
                raise LookupError(f"{key.name}: is not in place; put it there with the server")
            self._states[key] = key.make()
        return cast("_State", self._states[key])

    def __setitem__(self, key: FeatureKey[_State], state: _State) -> None:
        """Put a state in place."""
        self._states[key] = state
