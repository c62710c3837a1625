"""S3 as one ASGI application, below `/s3`, at hosts of its own, and wherever a request is signed
for S3.

The API decides on permissions: it is called with the token of the caller, whom the signature
proves. Errors are documents of S3. Addresses can hold signatures and are never logged.

`callers` finds the token of a call. Source: docs/spec/s3.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.requests import Request as Incoming
from starlette.types import ASGIApp, Receive, Scope, Send

from lading.core.errors import LadingError
from lading.core.s3.authorization import read_query
from lading.core.s3.bucket_names import parse_path
from lading.core.s3.operation_names import Operation
from lading.core.s3.operations import find_operation
from lading.core.s3.refusals import STATUSES, code_of
from lading.core.s3.xml_documents import document, error_document
from lading.fileserving.bodies import read_paced
from lading.fileserving.changes import ConcurrentChanges
from lading.fileserving.responses import FileResponse, send_response
from lading.fileserving.services import FileServices
from lading.net.acceptor import note_known, note_token
from lading.process.telemetry import current_request
from lading.s3 import listings, reading, uploads, writing
from lading.s3.bodies import plan_checks, verified
from lading.s3.buckets import find_bucket
from lading.s3.callers import FindSecret, find_caller
from lading.s3.hosts import BucketHosts
from lading.s3.requests import XML, S3Request, S3Services, select_parameters

REGION: Final = "local"
"""Region that is told to clients; signatures for any are taken."""
METHODS: Final = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
_COMMON: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Content-Range, Content-Length, ETag, x-amz-request-id",
}
_OFFERED: Final = {
    "Allow": METHODS,
    "Access-Control-Allow-Methods": METHODS,
    "Access-Control-Allow-Headers": "*, Authorization",
    # Seconds that browsers may cache the permission: a day.
    "Access-Control-Max-Age": "86400",
}
_logger = logging.getLogger("lading.s3")
_Handler = Callable[[S3Services, S3Request], Awaitable[FileResponse]]


async def _head_bucket(services: S3Services, request: S3Request) -> FileResponse:
    await find_bucket(services, request)
    return FileResponse(headers={"x-amz-bucket-region": REGION, "Content-Type": XML})


async def _get_location(services: S3Services, request: S3Request) -> FileResponse:
    await find_bucket(services, request)
    return listings.xml_response(document("LocationConstraint", (REGION,)))


async def _get_versioning(services: S3Services, request: S3Request) -> FileResponse:
    await find_bucket(services, request)
    # Without a status versioning was never enabled.
    return listings.xml_response(document("VersioningConfiguration", ()))


HANDLERS: Final[Mapping[Operation, _Handler]] = {
    Operation.LIST_BUCKETS: listings.list_buckets,
    Operation.CREATE_BUCKET: writing.create_bucket,
    Operation.DELETE_BUCKET: writing.delete_bucket,
    Operation.HEAD_BUCKET: _head_bucket,
    Operation.GET_BUCKET_LOCATION: _get_location,
    Operation.GET_BUCKET_VERSIONING: _get_versioning,
    Operation.LIST_OBJECTS: listings.list_objects,
    Operation.LIST_OBJECTS_V2: listings.list_objects_v2,
    Operation.LIST_OBJECT_VERSIONS: listings.list_versions,
    Operation.LIST_UPLOADS: uploads.list_uploads,
    Operation.DELETE_OBJECTS: writing.delete_objects,
    Operation.GET_OBJECT: reading.read_object,
    Operation.HEAD_OBJECT: reading.read_object,
    Operation.PUT_OBJECT: writing.put_object,
    Operation.COPY_OBJECT: writing.copy_object,
    Operation.DELETE_OBJECT: writing.delete_object,
    Operation.CREATE_UPLOAD: uploads.create_upload,
    Operation.UPLOAD_PART: uploads.upload_part,
    Operation.UPLOAD_PART_COPY: uploads.copy_part,
    Operation.COMPLETE_UPLOAD: uploads.complete_upload,
    Operation.ABORT_UPLOAD: uploads.abort_upload,
    Operation.LIST_PARTS: uploads.list_parts,
}


def make_app(
    files: FileServices,
    *,
    hosts: BucketHosts,
    find_secret: FindSecret,
    clock: Callable[[], datetime],
    anonymous: str = "",
    min_rate: int = 0,
    upload_seconds: float = 7 * 86_400.0,
) -> ASGIApp:
    """The application; it serves the calls that `hosts` owns.

    `find_secret` answers the secret of a key by the uuid of its token; `anonymous` is the token for
    requests without a signature, "" to refuse these; `min_rate` is the least rate of a body in
    bytes a second; `upload_seconds` is the life of an upload in parts.
    """
    services = S3Services(
        files=files,
        changes=ConcurrentChanges(files.collections),
        clock=clock,
        upload_seconds=upload_seconds,
    )
    return _S3Application(services, hosts, find_secret, anonymous, min_rate)


class _S3Application:
    def __init__(
        self,
        services: S3Services,
        hosts: BucketHosts,
        find_secret: FindSecret,
        anonymous: str,
        rate: int,
    ) -> None:
        self._services = services
        self._hosts = hosts
        self._find_secret = find_secret
        self._anonymous = anonymous
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        try:
            answer = await self._answer(scope, receive)
        except ClientDisconnect:
            return
        except LadingError as error:
            answer = refuse(error, scope)
        except (
            Exception
        ):  # the boundary of a request: a fault of the server must not end the connection
            _logger.exception("request failed method=%s", method)
            answer = refuse(LadingError("internal error: see the server's log"), scope)
        common = {**_COMMON, "x-amz-request-id": current_request()}
        await send_response(answer, method, receive, send, common=common)

    # Addresses are not logged: they may contain signatures.
    async def _answer(self, scope: Scope, receive: Receive) -> FileResponse:
        method: str = scope["method"]
        if method == "OPTIONS":
            return FileResponse(headers=dict(_OFFERED))
        incoming = Incoming(scope, receive)
        headers = {name: ",".join(incoming.headers.getlist(name)) for name in incoming.headers}
        raw = _raw_path(scope)
        site = self._hosts.find(scope["path"], headers)
        query = read_query(scope["query_string"].decode("latin-1"))
        caller = await find_caller(
            self._find_secret,
            headers,
            query,
            method=method,
            raw_path=raw,
            now=self._services.clock(),
            anonymous=self._anonymous,
        )
        await note_token(scope, caller.token)
        address = parse_path(raw, prefix=site.prefix, host_bucket=site.bucket)
        parameters = select_parameters(query)
        operation = find_operation(method, address, parameters, headers)
        checks = plan_checks(headers, caller.claim, caller.secret)
        request = S3Request(
            method=method,
            address=address,
            parameters=parameters,
            headers=headers,
            token=caller.token,
            body=verified(read_paced(incoming, self._rate), checks),
            length=checks.length,
            is_signed=caller.claim is not None,
        )
        answer = await HANDLERS[operation](self._services, request)
        if caller.claim is not None and answer.status < 400:
            # The API accepted the token.
            note_known(scope)
        return answer


def refuse(error: LadingError, scope: Scope) -> FileResponse:
    """The answer to a refused call."""
    code = code_of(error)
    message = " ".join(error.message.split())
    resource = str(scope["path"])[:200]
    body = error_document(code, message, resource=resource, request_id=current_request())
    headers = {"Content-Type": XML, "X-Content-Type-Options": "nosniff"}
    return FileResponse(status=STATUSES[code], headers=headers, body=body)


def _raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    return raw.partition(b"?")[0].decode("latin-1")
