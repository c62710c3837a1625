"""Credentials of external services, whose secrets only containers read."""

from __future__ import annotations

from typing import Final

from lading.api import authorization
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic, links
from lading.api.resources.service_records import check_may_outlive
from lading.api.serializer import check_match, show
from lading.api.server.identifiers import ApiClock
from lading.core import ids
from lading.core.containers.container import ContainerState
from lading.core.errors import Forbidden, Invalid
from lading.core.records.attributes import convert
from lading.core.records.container_types import CONTAINERS
from lading.core.records.log_rows import LogRowType
from lading.core.records.permissions import NAMES, Level
from lading.core.records.record_types import LINKS
from lading.core.records.schema import Record
from lading.core.records.service_records import (
    CREDENTIALS,
)
from lading.store import records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

_REQUIRED: Final = ("name", "credential_class", "external_id", "secret", "expires_at")


async def list_credentials(call: ApiCall) -> ApiResponse:
    """A page of credentials, without their secrets."""
    return await generic.list_records(call, CREDENTIALS)


async def get_credential(call: ApiCall) -> ApiResponse:
    """One credential, without its secret."""
    return await generic.get_record(call, CREDENTIALS)


async def create_credential(call: ApiCall) -> ApiResponse:
    """A new credential, which its owner may manage."""
    check_may_outlive(call, CREDENTIALS)
    given = _attributes_to_store(call, None)
    services = call.services
    record = generic.new_record(call, CREDENTIALS, given)
    _check_credential(record)
    manager, record["owner_uuid"] = record["owner_uuid"], services.ids.system_user
    async with services.database.writing() as tx:
        await authorization.check_owner(tx, call, manager)
        await _settle_name(tx, call, record)
        await generic.insert(tx, call, CREDENTIALS, record)
        if manager != services.ids.system_user:
            await _let_manage(tx, call, record["uuid"], manager)
    return ApiResponse(body=show(CREDENTIALS, record))


async def update_credential(call: ApiCall) -> ApiResponse:
    """Change a credential."""
    check_may_outlive(call, CREDENTIALS)
    services = call.services
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, CREDENTIALS, call.uuid, call.caller
        )
        await authorization.check_writable(tx, CREDENTIALS, old, call.caller)
        check_match(call, old)
        given = _attributes_to_store(call, old)
        new = {**old, **given, "owner_uuid": old["owner_uuid"]}
        _check_credential(new)
        if new != old:
            _check_setter(call, old, given)
        await _settle_name(tx, call, new)
        new = await generic.apply(
            tx, services, CREDENTIALS, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(CREDENTIALS, new))


def _check_setter(call: ApiCall, old: Record, attributes: Record) -> None:
    """Check that whoever changes the credential of another user sets its secret as well. Raises
    Forbidden.

    The server uses credentials for users who, or whose admins, have changed them last
    (`tes.transfers.credential_book`): a new name by somebody trusted must not make the secret of
    another user count, and with it an address of theirs.
    """
    if old["modified_by_user_uuid"] != call.caller.user_uuid and not attributes.get("secret"):
        raise Forbidden(
            f"Forbidden: secret: another user has set that of {old['uuid']}; who changes such a "
            "credential gives the secret again, or makes a new credential"
        )


async def delete_credential(call: ApiCall) -> ApiResponse:
    """Remove a credential."""
    return await generic.delete_record(call, CREDENTIALS)


async def tell_secret(call: ApiCall) -> ApiResponse:
    """{"external_id", "secret"}, for the token of a running container, and for the server itself,
    which transfers inputs and outputs of tasks with it.
    """
    services, caller = call.services, call.caller
    async with services.database.writing() as tx:
        if caller.token_uuid != ids.root_token(services.config.ClusterID):
            await _check_running(tx, caller.container_uuid)
        record = await authorization.find_readable(
            tx, services.clock, services.config, CREDENTIALS, call.uuid, caller
        )
        _check_current(services.clock, record)
        details: Record = {"container_uuid": caller.container_uuid}
        await audit.note(
            tx,
            services,
            record,
            LogRowType.SECRET_ACCESS,
            f"secret of {record['uuid']} was read",
            details,
        )
    return ApiResponse(body={"external_id": record["external_id"], "secret": record["secret"]})


async def _check_running(tx: Transaction, container_uuid: str | None) -> None:
    container = await records.get(tx, CONTAINERS, container_uuid) if container_uuid else None
    if container is None or container["state"] != ContainerState.RUNNING:
        raise Forbidden("Token is not associated with a running container.")


def _check_current(clock: ApiClock, record: Record) -> None:
    if record["expires_at"] <= clock.now():
        raise Forbidden("Credential has expired.")


def _attributes_to_store(call: ApiCall, stored: Record | None) -> Record:
    """The attributes to store, with the encrypted secret. Raises Invalid."""
    sent = call.attributes(CREDENTIALS)
    given = generic.check_attributes(
        call, CREDENTIALS, stored, {name: sent[name] for name in sent if name != "secret"}
    )
    if "secret" in sent:
        given["secret"] = convert(CREDENTIALS.by_name["secret"], sent["secret"])
    return given


def _check_credential(record: Record) -> None:
    for name in _REQUIRED:
        if not record[name]:
            raise Invalid(f"{name.capitalize().replace('_', ' ')} can't be blank")
    if not all(isinstance(scope, str) for scope in record["scopes"]):
        raise Invalid("scopes: must be an array of strings")


async def _settle_name(tx: Transaction, call: ApiCall, record: Record) -> None:
    taken = await records.matching(
        tx, CREDENTIALS, owner_uuid=record["owner_uuid"], name=record["name"]
    )
    if all(row["uuid"] == record["uuid"] for row in taken):
        return
    if not call.params.get("ensure_unique_name"):
        raise Invalid(
            "name: duplicate key value violates unique constraint: "
            f"Key (owner_uuid, name)=({record['owner_uuid']}, {record['name']}) already exists"
        )
    record["name"] = f"{record['name'][:237]} ({record['uuid'][-15:]})"


async def _let_manage(tx: Transaction, call: ApiCall, uuid: str, manager: str) -> None:
    """Let the owner that the creation named manage the credential."""
    link = {
        "link_class": PERMISSION,
        "name": NAMES[Level.MANAGE],
        "tail_uuid": manager,
        "head_uuid": uuid,
    }
    await links.grant(tx, call, generic.new_record(call, LINKS, link), Level.MANAGE)


HANDLERS: Final = {
    "credentials.list": list_credentials,
    "credentials.get": get_credential,
    "credentials.create": create_credential,
    "credentials.update": update_credential,
    "credentials.delete": delete_credential,
    "credentials.secret": tell_secret,
}
