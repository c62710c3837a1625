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
from lading.api.events import audit
from lading.api.http import ApiCall, ApiResponse
from lading.api.resources import generic, links
from lading.api.serializer import check_match, show
from lading.api.server.identifiers import ApiClock, Identifiers
from lading.config.site import Config
from lading.core import ids
from lading.core.containers.container import ContainerState
from lading.core.errors import Forbidden, Invalid, NotFound
from lading.core.ids import Infix
from lading.core.records import access
from lading.core.records.attributes import convert
from lading.core.records.container_types import CONTAINERS
from lading.core.records.filters import check_select
from lading.core.records.log_rows import LogRowType
from lading.core.records.permissions import NAMES, Level
from lading.core.records.record_types import LINKS, USERS
from lading.core.records.schema import Record, RecordType
from lading.core.records.service_records import (
    AUTHORIZED_KEYS,
    CREDENTIALS,
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
    for machine in sorted(machines, key=lambda one: str(one["hostname"])):
        links = await records.matching(
            tx, LINKS, head_uuid=machine["uuid"], link_class=PERMISSION, name=_LOGIN
        )
        for link in sorted(links, key=lambda one: str(one["uuid"])):
            name, groups = link["properties"].get("username"), link["properties"].get("groups")
            user = await records.get(tx, USERS, link["tail_uuid"])
            if not name or user is None or not user["is_active"]:
                continue
            keys = await records.matching(tx, AUTHORIZED_KEYS, authorized_user_uuid=user["uuid"])
            now = call.services.clock.now()
            valid = [one for one in keys if one["expires_at"] is None or one["expires_at"] > now]
            login = {
                "username": name,
                "hostname": machine["hostname"],
                "groups": groups if isinstance(groups, list) else [],
                "user_uuid": user["uuid"],
                "virtual_machine_uuid": machine["uuid"],
            }
            items += [
                {**login, "public_key": key["public_key"], "authorized_key_uuid": key["uuid"]}
                for key in sorted(valid, key=lambda one: str(one["uuid"]))
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


def _check_may_outlive(call: ApiCall, kind: RecordType) -> None:
    """Refuse a container that would leave what lets it in, or counts for its user, after its end.
    Raises Forbidden.
    """
    if call.caller.container_uuid is not None and kind is not VIRTUAL_MACHINES:
        raise Forbidden(
            f"Forbidden: the token of a container may not make or change {kind.plural}, "
            "which would outlive it"
        )


async def _create(call: ApiCall, kind: RecordType, record: Record) -> ApiResponse:
    _check_may_outlive(call, kind)
    async with call.services.database.writing() as tx:
        await _check(tx, call, kind, record, {})
        await authorization.check_owner(tx, call, record["owner_uuid"])
        await generic.insert(tx, call, kind, record)
    return ApiResponse(body=show(kind, record))


async def _update(call: ApiCall, kind: RecordType) -> ApiResponse:
    _check_may_outlive(call, kind)
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
    if any(one["uuid"] != record["uuid"] for one in stored):
        raise Invalid("public_key: is stored already; use another key")


def _is_line(name: object) -> bool:
    return isinstance(name, str) and bool(name) and name.isprintable() and " " not in name


_REQUIRED: Final = ("name", "credential_class", "external_id", "secret", "expires_at")


async def list_credentials(call: ApiCall) -> ApiResponse:
    """A page of credentials, without their secrets."""
    return await generic.list_records(call, CREDENTIALS)


async def get_credential(call: ApiCall) -> ApiResponse:
    """One credential, without its secret."""
    return await generic.get_record(call, CREDENTIALS)


async def create_credential(call: ApiCall) -> ApiResponse:
    """A new credential, which its owner may manage."""
    _check_may_outlive(call, CREDENTIALS)
    given = _given(call, None)
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
    _check_may_outlive(call, CREDENTIALS)
    services = call.services
    async with services.database.writing() as tx:
        old = await authorization.find_readable(
            tx, services.clock, services.config, CREDENTIALS, call.uuid, call.caller
        )
        await authorization.check_writable(tx, CREDENTIALS, old, call.caller)
        check_match(call, old)
        given = _given(call, old)
        new = {**old, **given, "owner_uuid": old["owner_uuid"]}
        _check_credential(new)
        if new != old:
            _check_setter(call, old, given)
        await _settle_name(tx, call, new)
        new = await generic.apply(
            tx, services, CREDENTIALS, old, new, user_uuid=call.caller.user_uuid
        )
    return ApiResponse(body=show(CREDENTIALS, new))


def _check_setter(call: ApiCall, old: Record, given: Record) -> None:
    """Check that whoever changes the credential of another user sets its secret as well. Raises
    Forbidden.

    The server uses credentials for users who, or whose admins, have changed them last
    (`tes.transfers.credential_book`): a new name by somebody trusted must not make the secret of
    another user count, and with it an address of theirs.
    """
    if old["modified_by_user_uuid"] != call.caller.user_uuid and not given.get("secret"):
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
        known: Record = {"container_uuid": caller.container_uuid}
        await audit.note(
            tx,
            services,
            record,
            LogRowType.SECRET_ACCESS,
            f"secret of {record['uuid']} was read",
            known,
        )
    return ApiResponse(body={"external_id": record["external_id"], "secret": record["secret"]})


async def _check_running(tx: Transaction, container_uuid: str | None) -> None:
    container = await records.get(tx, CONTAINERS, container_uuid) if container_uuid else None
    if container is None or container["state"] != ContainerState.RUNNING:
        raise Forbidden("Token is not associated with a running container.")


def _check_current(clock: ApiClock, record: Record) -> None:
    if record["expires_at"] <= clock.now():
        raise Forbidden("Credential has expired.")


def _given(call: ApiCall, stored: Record | None) -> Record:
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
    if not all(isinstance(one, str) for one in record["scopes"]):
        raise Invalid("scopes: must be an array of strings")


async def _settle_name(tx: Transaction, call: ApiCall, record: Record) -> None:
    taken = await records.matching(
        tx, CREDENTIALS, owner_uuid=record["owner_uuid"], name=record["name"]
    )
    if all(one["uuid"] == record["uuid"] for one in taken):
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
    "credentials.list": list_credentials,
    "credentials.get": get_credential,
    "credentials.create": create_credential,
    "credentials.update": update_credential,
    "credentials.delete": delete_credential,
    "credentials.secret": tell_secret,
    "keep_services.list": list_services,
    "keep_services.accessible": list_services,
    "keep_services.get": get_service,
}
