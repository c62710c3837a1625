"""The error tree. A class says what the caller may do; its docstring is the default message.

LadingError
|-- RequestError            the caller's fault: sending the same again cannot help
|   |-- Malformed           400  not JSON, not a manifest, not a parameter we can read
|   |-- Unauthenticated     401  no token, an unknown token, an expired token
|   |-- Forbidden           403  a valid token that may not do this
|   |-- NotFound            404  absent, or not readable by this token (the two look the same)
|   |-- MethodNotAllowed    405
|   |-- Gone                410
|   |-- TooLarge            413
|   `-- Invalid             422  understood and refused: a rule about the content is broken
|       `-- IllegalTransition    a state change that the transition table does not list
|-- Conflict                409  somebody else was first: look again, then decide anew
|-- Unavailable             503  try the same again later
|   `-- Full                507  no room to store it
|-- Corrupt                 502  stored data does not match its hash: never served
`-- ExecutionError          a container could not be run here; `failure` says whose fault it was
"""

from __future__ import annotations

from enum import StrEnum


class LadingError(Exception):
    """Base class of all errors that Lading raises."""

    status = 500

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])

    @property
    def message(self) -> str:
        """The one-line text: the thing, the fault and what to do."""
        return str(self.args[0])


class RequestError(LadingError):
    """The request cannot be carried out as it stands."""

    status = 400


class Malformed(RequestError):
    """The request could not be read."""

    status = 400


class Unauthenticated(RequestError):
    """Not logged in"""

    status = 401


class Forbidden(RequestError):
    """Forbidden"""

    status = 403


class NotFound(RequestError):
    """Path not found"""

    status = 404


class MethodNotAllowed(RequestError):
    """API endpoint not found"""

    status = 405


class Gone(RequestError):
    """It is no longer there."""

    status = 410


class TooLarge(RequestError):
    """The request body is too large."""

    status = 413


class Invalid(RequestError):
    """The request breaks a rule about its content."""

    status = 422


class IllegalTransition(Invalid):
    """The state change is not allowed."""

    def __init__(self, thing: str, old: str, new: str) -> None:
        super().__init__(f"State cannot change from {old} to {new}: {thing}")
        self.thing, self.old, self.new = thing, old, new


class Conflict(LadingError):
    """It was changed at the same time; read it again."""

    status = 409


class Unavailable(LadingError):
    """The service cannot answer now; try again."""

    status = 503


class Full(Unavailable):
    """No room is left to store it."""

    status = 507


class Corrupt(LadingError):
    """Stored data does not match its hash."""

    status = 502


class Failure(StrEnum):
    """Cause of a failed container (`runtime_status.failure`)."""

    USER = "user"
    OOM = "oom"
    DISK = "disk"
    IMAGE = "image"
    INPUT = "input"
    NODE = "node"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    INFRASTRUCTURE = "infrastructure"


class ExecutionError(LadingError):
    """The container could not be run."""

    def __init__(self, message: str, failure: Failure = Failure.INFRASTRUCTURE) -> None:
        super().__init__(message)
        self.failure = failure


BY_STATUS: dict[int, type[LadingError]] = {
    kind.status: kind
    for kind in (
        Malformed,
        Unauthenticated,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        Conflict,
        Gone,
        TooLarge,
        Invalid,
        Corrupt,
        Unavailable,
        Full,
    )
}


def from_status(status: int, message: str) -> LadingError:
    """The error for a peer's HTTP status.

    Unlisted 4xx are `RequestError`, any other status is `Unavailable`.
    """
    # IllegalTransition has the status of Invalid and takes other arguments.
    if status == IllegalTransition.status:
        return Invalid(message)
    kind = BY_STATUS.get(status)
    if kind is None:
        kind = RequestError if 400 <= status < 500 else Unavailable
    error = kind(message)
    error.status = status
    return error
