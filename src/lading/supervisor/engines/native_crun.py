"""The native engine on crun alone, for a machine whose operator wants it."""

from __future__ import annotations

from lading.supervisor.engines.native import NativeEngine


class CrunEngine(NativeEngine):
    """One container run by crun on this machine. Needs root."""

    has_starter = False
