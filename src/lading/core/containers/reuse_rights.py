"""Whose containers may stand for a request (docs/reuse.md, section Other users).

- A container whose result depends on the rights of its user, or on something outside of its recipe,
  stands for requests of its own user only: it may call the API, acts with a token of its request,
  reads the internet, mounts all that its user can read, has secret inputs, shows a live place of a
  machine, or can be reached at its ports.
- Any other container of another user stands for a request if the user for whom the request acts can
  read its inputs and, once it has ended, its log and its output. One in progress has neither yet;
  as its result depends on its recipe alone, its inputs suffice.
- A container of the same user always may; of one that depends on rights, the token of the request
  must have the scopes that the container's token had.
- An administrator reads everything and uses every result that is there; of the containers in
  progress that depend on their user, only the administrator's own are joined.
- A container that was joined by others does not act for a user whose requests do not want it any
  more: before it starts, and when it is tried again, it passes to a user who wants it (`heir`).
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.core.containers.container import FINAL, Container
from lading.core.containers.mounting.mounts import MountKind, live_places
from lading.core.containers.recipe import Recipe
from lading.core.containers.request import ContainerRequest
from lading.core.values import EMPTY_OBJECT_DIGEST

_OTHER_SCOPES = "its token had scopes that the token of this request lacks"
_UNREADABLE = "it has inputs that the user of this request cannot read"


def dependence(of: Recipe | Container) -> str:
    """The reason why the result depends on the user or on something outside of the recipe, as the
    predicate of a sentence; "" if it does not.
    """
    limits = of.runtime_constraints
    reasons = (
        (limits.get("API") is True, "may call the API as its user"),
        (of.runtime_token is not None, "acts with a token of its request"),
        (limits.get("internet") is True, "reads the internet"),
        (_mounts_keep(of), "mounts all that its user can read"),
        (_has_secrets(of), "has secret inputs"),
        (bool(live_places(of.mounts)), "shows a live place of a machine"),
        (bool(of.published_ports), "can be reached at its ports"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def is_own(recipe: Recipe, container: Container) -> bool:
    """Whether the container ran for the user for whom the request acts."""
    return recipe.runtime_user_uuid == container.runtime_user_uuid


def refusal(
    recipe: Recipe, container: Container, *, inputs_readable: bool, is_admin: bool
) -> str | None:
    """The reason why the container may not stand for the request, or None. Whether its log and its
    output can be read is not asked here.
    """
    own, why = is_own(recipe, container), dependence(container)
    if own:
        return None if not why or _covers_scopes(recipe, container) else _OTHER_SCOPES
    if why and not (is_admin and container.state in FINAL):
        return f"it {why}, so that only requests of the user for whom it ran use it"
    return None if is_admin or inputs_readable else _UNREADABLE


def has_foreign_secrets(container: Container, user_uuid: str) -> bool:
    """Whether the container had secrets that another user gave. Such a container is not compared
    with anything that the user asks for: equality would tell that a guessed secret is right.
    """
    return _has_secrets(container) and container.runtime_user_uuid != user_uuid


def rule(recipe: Recipe) -> str:
    """The sentence about the containers of other users that may stand for the request."""
    why = dependence(recipe)
    if why:
        return f"It {why}: only a container that ran for the same user is used."
    return (
        "A container of another user is used only if the user of the request can read its inputs "
        "and, once it has ended, its log and its output."
    )


def heir(container: Container, requests: Iterable[ContainerRequest]) -> str | None:
    """The user for whom a container that has not started acts from now on, as these requests alone
    want it: who committed the oldest one. None: it goes on for its user.
    """
    wanting = sorted(requests, key=lambda request: (request.created_at, request.uuid))
    # Of an old request its owner is taken for the user who committed it, as in accounts.
    committers = {request.committed_by_uuid or request.owner_uuid for request in wanting}
    users = [request.committed_by_uuid for request in wanting if request.committed_by_uuid]
    # A container that depends on its user was joined by nobody else. For whom a request with a
    # token acts, its token says.
    if dependence(container) or any(request.runtime_token is not None for request in wanting):
        return None
    return None if container.runtime_user_uuid in committers else next(iter(users), None)


def secrets_differ(first: Container, second: Container, *, user_uuid: str) -> bool | None:
    """Whether two containers have different secrets; None for anybody but the user whom both ran
    for: who gives a container a guess as its secret could compare it with that of another user.
    """
    if {first.runtime_user_uuid, second.runtime_user_uuid} != {user_uuid}:
        return None
    empty = EMPTY_OBJECT_DIGEST
    return (first.secret_mounts_md5 or empty) != (second.secret_mounts_md5 or empty)


def _mounts_keep(of: Recipe | Container) -> bool:
    return any(
        isinstance(mount, dict) and mount.get("kind") == MountKind.KEEP
        for mount in of.mounts.values()
    )


def _has_secrets(of: Recipe | Container) -> bool:
    # A container of before the column has none; the secrets themselves are erased at the end.
    return (of.secret_mounts_md5 or EMPTY_OBJECT_DIGEST) != EMPTY_OBJECT_DIGEST


def _covers_scopes(recipe: Recipe, container: Container) -> bool:
    ours = recipe.runtime_auth_scopes
    return "all" in ours or set(container.runtime_auth_scopes or ()) <= set(ours)
