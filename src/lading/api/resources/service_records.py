"""Records of services outside of the API server: virtual machines, credentials, block service.

- Virtual machines that users log in to, and their SSH keys (docs/spec/api, section Addresses and
  methods): Lading does not run these machines; it keeps the records for `arvados-login-sync`, which
  runs there. Admins write the machines. A permission link `can_login` from a user to a machine lets
  the user log in, with `properties.username` and, if needed, `properties.groups`. Users write keys
  of their own, admins also those of others.
- Credentials for external services (docs/spec/api, section Other records): the secret is encrypted
  in the database and disclosed to running containers, and to the server itself by the system root
  token. The call `secret` returns it, and writes a `secret_access` log row each time. The system
  user owns each credential; the owner that the creation names may manage it.
- The only block service is this server, at the address that clients use (docs/spec/api, section
  Blocks). It presents itself as a proxy, because clients expect from disks two replicas on two of
  them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from lading.api import authorization
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic
from lading.api.serializer import check_match, show
from lading.api.server.identifiers import Identifiers
from lading.config.site import Config
from lading.core import ids
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records import access
from lading.core.records.filters import check_select
from lading.core.records.record_types import LINKS, USERS
from lading.core.records.schema import Record, RecordType
from lading.core.records.service_records import (
    AUTHORIZED_KEYS,
    KEEP_SERVICES,
    VIRTUAL_MACHINES,
)
from lading.net.urls import is_secure, server_port
from lading.store import records
from lading.store.database import Transaction
from lading.store.permission_queries import PERMISSION

_LOGIN: Final = "can_login"


async def list_machines(call: ApiCall) -> ApiResponse:
    """A page of machines."""
    return await generic.list_records(call, VIRTUAL_MACHINES)


async def get_machine(call: ApiCall) -> ApiResponse:
    """One machine."""
    return await generic.get_record(call, VIRTUAL_MACHINES)


async def create_machine(call: ApiCall) -> ApiResponse:
    """Create a machine, of the system user unless another owner is named."""
    access.check_admin(call.caller, "write virtual machines")
    given = {
        "owner_uuid": call.services.ids.system_user,
        **generic.check_attributes(call, VIRTUAL_MACHINES, None),
    }
    return await _create(call, VIRTUAL_MACHINES, generic.new_record(call, VIRTUAL_MACHINES, given))


async def update_machine(call: ApiCall) -> ApiResponse:
    """Change a machine."""
    access.check_admin(call.caller, "write virtual machines")
    return await _update(call, VIRTUAL_MACHINES)


async def delete_machine(call: ApiCall) -> ApiResponse:
    """Remove a machine, and the links that let users log in to it."""
    access.check_admin(call.caller, "write virtual machines")
    return await generic.delete_record(call, VIRTUAL_MACHINES)


async def list_logins(call: ApiCall) -> ApiResponse:
    """The logins of one machine."""
    access.check_admin(call.caller, "see logins")
    async with call.services.database.reading() as tx:
        machine = await authorization.find_readable(
            tx, call.services.clock, call.services.config, VIRTUAL_MACHINES, call.uuid, call.caller
        )
        return ApiResponse(body=await _logins(tx, call, [machine]))


async def list_all_logins(call: ApiCall) -> ApiResponse:
    """The logins of all machines."""
    access.check_admin(call.caller, "see logins")
    async with call.services.database.reading() as tx:
        machines = await records.find(tx, tx.dialect, VIRTUAL_MACHINES, ())
        return ApiResponse(body=await _logins(tx, call, machines))


async def _logins(tx: Transaction, call: ApiCall, machines: Sequence[Record]) -> Record:
    """One item for each login and key; one without a key for users who have none."""
    items: list[Record] = []
    for machine in sorted(machines, key=lambda row: str(row["hostname"])):
        links = await records.matching(
            tx, LINKS, head_uuid=machine["uuid"], link_class=PERMISSION, name=_LOGIN
        )
        for link in sorted(links, key=lambda row: str(row["uuid"])):
            name, groups = link["properties"].get("username"), link["properties"].get("groups")
            user = await records.get(tx, USERS, link["tail_uuid"])
            if not name or user is None or not user["is_active"]:
                continue
            keys = await records.matching(tx, AUTHORIZED_KEYS, authorized_user_uuid=user["uuid"])
            now = call.services.clock.now()
            valid = [row for row in keys if row["expires_at"] is None or row["expires_at"] > now]
            login = {
                "username": name,
                "hostname": machine["hostname"],
                "groups": groups if isinstance(groups, list) else [],
                "user_uuid": user["uuid"],
                "virtual_machine_uuid": machine["uuid"],
            }
            items += [
                {**login, "public_key": key["public_key"], "authorized_key_uuid": key["uuid"]}
                for key in sorted(valid, key=lambda row: str(row["uuid"]))
            ] or [{**login, "public_key": None, "authorized_key_uuid": None}]
    return {"kind": "arvados#HashList", "items": items}


async def list_keys(call: ApiCall) -> ApiResponse:
    """A page of keys."""
    return await generic.list_records(call, AUTHORIZED_KEYS)


async def get_key(call: ApiCall) -> ApiResponse:
    """One key."""
    return await generic.get_record(call, AUTHORIZED_KEYS)


async def create_key(call: ApiCall) -> ApiResponse:
    """Create a key, of the caller unless an admin names another user."""
    given = generic.check_attributes(call, AUTHORIZED_KEYS, None)
    given["authorized_user_uuid"] = given.get("authorized_user_uuid") or call.caller.user_uuid
    return await _create(call, AUTHORIZED_KEYS, generic.new_record(call, AUTHORIZED_KEYS, given))


async def update_key(call: ApiCall) -> ApiResponse:
    """Change a key."""
    return await _update(call, AUTHORIZED_KEYS)


async def delete_key(call: ApiCall) -> ApiResponse:
    """Remove a key."""
    return await generic.delete_record(call, AUTHORIZED_KEYS)


def check_may_outlive(call: ApiCall, kind: RecordType) -> None:
    """Refuse a container that would leave what lets it in, or counts for its user, after its end.
    Raises Forbidden.
    """
    if call.caller.container_uuid is not None and kind is not VIRTUAL_MACHINES:
        raise Forbidden(
            f"Forbidden: the token of a container may not make or change {kind.plural}, "
            "which would outlive it"
        )


async def _create(call: ApiCall, kind: RecordType, record: Record) -> ApiResponse:
    check_may_outlive(call, kind)
    async with call.services.database.writing() as tx:
        await _check(tx, call, kind, record, {})
        await authorization.check_owner(tx, call, record["owner_uuid"])
        await generic.insert(tx, call, kind, record)
    return ApiResponse(body=show(kind, record))


async def _update(call: ApiCall, kind: RecordType) -> ApiResponse:
    check_may_outlive(call, kind)
    select = check_select(call.params.get("select"), kind)
    async with call.services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, call.services.clock, call.services.config, kind, call.uuid, call.caller
        )
        await authorization.check_writable(tx, kind, old, call.caller)
        check_match(call, old)
        new = {**old, **generic.check_attributes(call, kind, old)}
        await _check(tx, call, kind, new, old)
        if new["owner_uuid"] != old["owner_uuid"]:
            await authorization.check_owner(tx, call, new["owner_uuid"], old=old["owner_uuid"])
        new = await generic.apply(
            tx, call.services, kind, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(kind, new, select))


async def _check(
    tx: Transaction, call: ApiCall, kind: RecordType, record: Record, old: Record
) -> None:
    if kind is VIRTUAL_MACHINES:
        if not _is_line(record["hostname"]):
            raise Invalid("hostname: must be the name of the machine, without blanks")
        return
    user = record["authorized_user_uuid"]
    if user != old.get("authorized_user_uuid"):
        await _check_holder(tx, call, user or "")
    if not old or record["public_key"] != old["public_key"]:
        await _check_key(tx, record)


async def _check_holder(tx: Transaction, call: ApiCall, user: str) -> None:
    """Check the user whom a key lets log in."""
    if user != call.caller.user_uuid and not call.caller.is_admin:
        raise Forbidden("Forbidden: authorized_user_uuid: only admins may store keys of others")
    if not ids.is_uuid(user, Infix.USER) or await records.get(tx, USERS, user) is None:
        raise Invalid(f"authorized_user_uuid: '{user}' not found")


async def _check_key(tx: Transaction, record: Record) -> None:
    key = record["public_key"]
    # The key becomes a line of an authorized_keys file: a line feed in it would add a key.
    if not isinstance(key, str) or not key.isprintable() or len(key.split(" ")) < 2:
        raise Invalid(
            "public_key: must be one line of text: the type, a blank and the key, "
            "as ssh-keygen writes it"
        )
    stored = await records.matching(tx, AUTHORIZED_KEYS, public_key=key)
    if any(row["uuid"] != record["uuid"] for row in stored):
        raise Invalid("public_key: is stored already; use another key")


def _is_line(name: object) -> bool:
    return isinstance(name, str) and bool(name) and name.isprintable() and " " not in name


def the_service(identifiers: Identifiers, config: Config) -> Record:
    """The record of this server."""
    url = urlsplit(config.ExternalURL)
    cluster = config.ClusterID
    return {
        "uuid": f"{cluster}-{Infix.KEEP_SERVICE}-000000000000000",
        "owner_uuid": identifiers.system_user,
        "created_at": None,
        "modified_at": None,
        "modified_by_user_uuid": identifiers.system_user,
        "service_host": url.hostname or "",
        "service_port": server_port(url),
        "service_ssl_flag": is_secure(url),
        "service_type": "proxy",
        "read_only": False,
    }


async def list_services(call: ApiCall) -> ApiResponse:
    """All services; filters are ignored."""
    item = show(KEEP_SERVICES, the_service(call.services.ids, call.services.config))
    body: Record = {
        "kind": "arvados#keepServiceList",
        "etag": "",
        "self_link": "",
        "offset": 0,
        "limit": 100,
        "items": [item],
        "items_available": 1,
        "included": [],
    }
    return ApiResponse(body=body)


async def get_service(call: ApiCall) -> ApiResponse:
    """One service."""
    record = the_service(call.services.ids, call.services.config)
    if record["uuid"] != call.uuid:
        raise NotFound(f"Path not found: no keep_service {call.uuid[:60]!r}")
    return ApiResponse(body=show(KEEP_SERVICES, record))


HANDLERS: Final = {
    "virtual_machines.list": list_machines,
    "virtual_machines.get": get_machine,
    "virtual_machines.create": create_machine,
    "virtual_machines.update": update_machine,
    "virtual_machines.delete": delete_machine,
    "virtual_machines.logins": list_logins,
    "virtual_machines.get_all_logins": list_all_logins,
    "authorized_keys.list": list_keys,
    "authorized_keys.get": get_key,
    "authorized_keys.create": create_key,
    "authorized_keys.update": update_key,
    "authorized_keys.delete": delete_key,
    "keep_services.list": list_services,
    "keep_services.accessible": list_services,
    "keep_services.get": get_service,
}
