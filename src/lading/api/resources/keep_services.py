"""The only block service: this server, at the address that clients use (docs/spec/api, section
Blocks).

It presents itself as a proxy, because clients expect from disks two replicas on two of them.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from lading.api.http import ApiCall, ApiResponse
from lading.api.serializer import show
from lading.api.services import ApiServices
from lading.core.errors import NotFound
from lading.core.ids import Infix
from lading.core.records.schema import Record
from lading.core.records.service_records import KEEP_SERVICES


def the_service(services: ApiServices) -> Record:
    """The record of this server."""
    url = urlsplit(services.config.ExternalURL)
    cluster = services.config.ClusterID
    return {
        "uuid": f"{cluster}-{Infix.KEEP_SERVICE}-000000000000000",
        "owner_uuid": services.system_user,
        "created_at": None,
        "modified_at": None,
        "modified_by_user_uuid": services.system_user,
        "service_host": url.hostname or "",
        "service_port": url.port or (443 if url.scheme == "https" else 80),
        "service_ssl_flag": url.scheme == "https",
        "service_type": "proxy",
        "read_only": False,
    }


async def list_services(call: ApiCall) -> ApiResponse:
    """All services, whatever the filters."""
    item = show(KEEP_SERVICES, the_service(call.services))
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
    record = the_service(call.services)
    if record["uuid"] != call.uuid:
        raise NotFound(f"Path not found: no keep_service {call.uuid[:60]!r}")
    return ApiResponse(body=show(KEEP_SERVICES, record))


HANDLERS: Final = {
    "keep_services.list": list_services,
    "keep_services.accessible": list_services,
    "keep_services.get": get_service,
}
