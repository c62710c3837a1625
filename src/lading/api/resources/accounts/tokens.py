"""API tokens: users create their own, admins also for others.

The secret is shown once; only its hash is stored. Source: docs/spec/api, section Authentication.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.api.server.identifiers import hash_secret
from lading.core.errors import Conflict, Forbidden, Invalid, NotFound
from lading.core.ids import is_user, root_token
from lading.core.policy.device_logins import is_digest
from lading.core.quantities import format_time
from lading.core.records import access
from lading.core.records.filters import check_select
from lading.core.records.record_types import TOKENS, USERS
from lading.core.records.schema import Record
from lading.store import records
from lading.store.database import Transaction
from lading.store.tokens import token_holder

# Form of a scope (docs/spec/api, section Scopes).
_SCOPE: Final = re.compile(r"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) /\S*")


async def list_tokens(call: ApiCall) -> ApiResponse:
    """A page of tokens, without their secrets."""
    return await generic.list_records(call, TOKENS)


async def get_token(call: ApiCall) -> ApiResponse:
    """One token, without its secret."""
    return await generic.get_record(call, TOKENS)


async def current_token(call: ApiCall) -> ApiResponse:
    """The calling token; any scopes allow this."""
    caller, services = call.caller, call.services
    select = check_select(call.params.get("select"), TOKENS)
    if caller.token_uuid == root_token(services.config.ClusterID):
        record = {
            **generic.new_record(call, TOKENS, {"uuid": caller.token_uuid}),
            "owner_uuid": caller.user_uuid,
        }
    else:
        async with services.database.reading() as tx:
            found = await records.get(tx, TOKENS, caller.token_uuid)
        if found is None:
            raise NotFound
        record = found
    shown = show(TOKENS, record, select)
    parts = caller.token.split("/")
    if select is None and call.params.get("remote") is None:
        shown["api_token"] = parts[2] if len(parts) >= 3 else caller.token
    return ApiResponse(body=shown)


async def create_token(call: ApiCall) -> ApiResponse:
    """Create a token for the caller; an admin may name another owner."""
    return await _create(call, generic.check_attributes(call, TOKENS, None))


async def create_system_token(call: ApiCall) -> ApiResponse:
    """Create a token of the system user; the scopes may be a parameter, as in Arvados."""
    access.check_admin(call.caller, "make tokens of the system user")
    scopes = call.params.pop("scopes", None)
    sent = call.attributes(TOKENS)
    given = generic.check_attributes(
        call, TOKENS, None, sent if scopes is None else {"scopes": scopes, **sent}
    )
    return await _create(call, {**given, "owner_uuid": call.services.ids.system_user})


async def _create(call: ApiCall, attributes: Record) -> ApiResponse:
    services = call.services
    _check_may_outlive(call)
    _check(attributes)
    _check_within_own_scopes(call, attributes)
    digest = call.params.get("secret_digest")
    if digest is not None and not is_digest(digest):
        raise Invalid("secret_digest: must be a SHA-256 in lower-case hex")
    async with services.database.writing() as tx:
        owner = attributes.get("owner_uuid") or call.caller.user_uuid
        if owner != call.caller.user_uuid:
            access.check_admin(call.caller, "make tokens of others")
            if not is_user(owner) or await records.get(tx, USERS, owner) is None:
                raise Invalid(f"owner_uuid: '{owner}' not found")
        if digest is not None:
            await _check_unused(tx, digest)
            return ApiResponse(body=show(TOKENS, await _store(tx, call, attributes, digest)))
        record, secret = await make_token(tx, call, attributes)
    return ApiResponse(body={**show(TOKENS, record), "api_token": secret})


async def make_token(tx: Transaction, call: ApiCall, attributes: Record) -> tuple[Record, str]:
    """Store a new token, of the caller by default, without checks; the record and its secret."""
    secret = call.services.ids.new_secret()
    # Only the hash is stored: the secret is in this answer alone.
    return await _store(tx, call, attributes, hash_secret(secret), secret), secret


async def _store(
    tx: Transaction, call: ApiCall, attributes: Record, secret_hash: str, secret: str = ""
) -> Record:
    """Store a new token, of the caller by default, with the hash of its secret, and with `secret`
    where it is a key of S3.
    """
    record = generic.new_record(call, TOKENS, attributes)
    record |= {"secret_hash": secret_hash, "created_by_ip_address": call.address or None}
    if record["is_s3_key"]:
        if not secret:
            raise Invalid("is_s3_key: needs the secret itself; leave the digest of one out")
        # A signature is verified by computing it, which takes the secret.
        record["s3_secret"] = secret
    record["expires_at"] = _clamped(call, record["expires_at"])
    await generic.insert(tx, call, TOKENS, record)
    return record


async def _check_unused(tx: Transaction, digest: str) -> None:
    """Refuse the digest of a secret that a token has already: a token without its uuid is found by
    its digest, which must name one user. Raises Conflict.
    """
    if await token_holder(tx, "", digest) is not None:
        raise Conflict("secret_digest: a token has this secret already; make a new one")


async def update_token(call: ApiCall) -> ApiResponse:
    """Change the end or the scopes of a token."""
    _check_may_outlive(call)
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, TOKENS, call.uuid, call.caller
        )
        check_match(call, old)
        changes = generic.check_attributes(call, TOKENS, old)
        _check(changes)
        if changes.get("scopes", old["scopes"]) != old["scopes"]:
            _check_within_own_scopes(call, changes)
        if changes.get("expires_at", old["expires_at"]) != old["expires_at"]:
            changes["expires_at"] = _clamped(call, changes["expires_at"])
        if changes.get("is_s3_key", old["is_s3_key"]) != old["is_s3_key"]:
            changes |= _without_s3_key(changes)
        if changes.get("owner_uuid", old["owner_uuid"]) != old["owner_uuid"]:
            raise Invalid("owner_uuid: a token stays with its user")
        new = await generic.apply(
            tx, call.services, TOKENS, old, changes, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(TOKENS, new))


async def delete_token(call: ApiCall) -> ApiResponse:
    """End a token at once."""
    return await generic.delete_record(call, TOKENS)


def _without_s3_key(changes: Record) -> Record:
    """The changes that end the use of a token for S3. Raises Invalid for its begin."""
    if changes["is_s3_key"]:
        raise Invalid("is_s3_key: the secret of this token is not stored; make a new token")
    return {"s3_secret": None}


def _clamped(call: ApiCall, expires_at: str | None) -> str | None:
    """The end of a token, for users who are not admins at most as late as the configuration
    allows.
    """
    limit = call.services.config.API.MaxTokenLifetime
    if not limit or call.caller.is_admin:
        return expires_at
    latest = format_time(call.services.clock.time() + timedelta(seconds=limit))
    # Times in the API's format sort as texts.
    return min(expires_at or latest, latest)


def _check(attributes: Record) -> None:
    scopes = attributes.get("scopes")
    if scopes is None:
        return
    for scope in scopes:
        if scope != "all" and not (isinstance(scope, str) and _SCOPE.fullmatch(scope)):
            raise Invalid(
                f"scopes: {scope!r} is neither 'all' nor a method and a path, "
                "such as 'GET /arvados/v1/users'"
            )


def _check_may_outlive(call: ApiCall) -> None:
    """Refuse a token of a container that would outlive it: a hostile machine must not keep its
    user's rights beyond its container.
    """
    if call.caller.container_uuid is not None:
        raise Forbidden(
            "Forbidden: the token of a container may not make or change tokens, "
            "which would outlive it"
        )


def _check_within_own_scopes(call: ApiCall, attributes: Record) -> None:
    # A token of limited scope must not make itself a better one.
    own = set(call.caller.scopes)
    if "all" not in own and not set(attributes.get("scopes", ["all"])) <= own:
        raise Forbidden("Forbidden: scopes: a token cannot make one that may do more than itself")


HANDLERS: Final = {
    "api_client_authorizations.list": list_tokens,
    "api_client_authorizations.get": get_token,
    "api_client_authorizations.current": current_token,
    "api_client_authorizations.create": create_token,
    "api_client_authorizations.create_system_auth": create_system_token,
    "api_client_authorizations.update": update_token,
    "api_client_authorizations.delete": delete_token,
}
