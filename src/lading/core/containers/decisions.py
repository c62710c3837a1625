"""Decisions of dispatchers about containers, recorded as rows in `logs`."""

from __future__ import annotations

from enum import StrEnum


class DecisionKind(StrEnum):
    """The `event_type` of such a row."""

    RUN = "decided_to_run"
    NOT_RUN = "decided_not_to_run"
    """For example: no worker has these resources."""
    LOCK_FAILED = "lock_failed"
    DISPATCHED = "dispatched"
    """A supervisor was started, or a job for one submitted."""
    NOT_DISPATCHED = "dispatch"
    """Locked, but no supervisor could be started (Arvados' name for it)."""
    CRASHED = "cleaned_up_crashed"
    """Its supervisor ended, or the batch system reports the end of its job, and the record was not
    final.
    """
    ABANDONED = "cleaned_up_abandoned"
    """It was locked by this dispatcher, and neither the dispatcher nor the batch system knew a
    supervisor.
    """
