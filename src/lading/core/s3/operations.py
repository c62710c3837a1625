"""The operation that a request asks for, from its method, its address and its parameters.

Source: Amazon S3 API Reference, Actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lading.core.s3.bucket_names import ObjectAddress
from lading.core.s3.operation_names import Operation
from lading.core.s3.refusals import S3Refusal

COPY_SOURCE: Final = "x-amz-copy-source"
REFUSED: Final = frozenset(
    (
        "abac", "accelerate", "acl", "analytics", "append", "attributes", "cors", "encryption",
        "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "logging",
        "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable",
        "metadataTable", "metrics", "notification", "object-lock", "ownershipControls",
        "partNumber", "policy", "policyStatus", "publicAccessBlock", "renameObject",
        "replication", "requestPayment", "restore", "retention", "select", "session", "tagging",
        "torrent", "website",
    )
)  # fmt: skip
"""Parameters that make another operation of a request, which is not offered."""
REFUSED_HEADERS: Final = (
    "x-amz-copy-source-server-side-encryption-customer-", "x-amz-expected-bucket-owner",
    "x-amz-object-lock-", "x-amz-rename-source", "x-amz-server-side-encryption-customer-",
    "x-amz-source-expected-bucket-owner", "x-amz-write-offset-bytes",
)  # fmt: skip
"""Beginnings of headers that change the meaning of a call, and are not offered."""
# By method and level, the parameter that chooses the operation; "" is without any.
_SERVICE: Final[Mapping[str, Mapping[str, Operation]]] = {"GET": {"": Operation.LIST_BUCKETS}}
_BUCKET: Final[Mapping[str, Mapping[str, Operation]]] = {
    "GET": {
        "location": Operation.GET_BUCKET_LOCATION,
        "versioning": Operation.GET_BUCKET_VERSIONING,
        "uploads": Operation.LIST_UPLOADS,
        "versions": Operation.LIST_OBJECT_VERSIONS,
        "": Operation.LIST_OBJECTS,
    },
    "HEAD": {"": Operation.HEAD_BUCKET},
    "PUT": {"": Operation.CREATE_BUCKET},
    "DELETE": {"": Operation.DELETE_BUCKET},
    "POST": {"delete": Operation.DELETE_OBJECTS},
}
_OBJECT: Final[Mapping[str, Mapping[str, Operation]]] = {
    "GET": {"uploadId": Operation.LIST_PARTS, "": Operation.GET_OBJECT},
    "HEAD": {"": Operation.HEAD_OBJECT},
    "PUT": {"uploadId": Operation.UPLOAD_PART, "": Operation.PUT_OBJECT},
    "DELETE": {"uploadId": Operation.ABORT_UPLOAD, "": Operation.DELETE_OBJECT},
    "POST": {"uploads": Operation.CREATE_UPLOAD, "uploadId": Operation.COMPLETE_UPLOAD},
}
# Parameters that choose an operation of some method.
_CHOOSING: Final = ("location", "versioning", "uploads", "versions", "delete", "uploadId")
_COPIES: Final[Mapping[Operation, Operation]] = {
    Operation.PUT_OBJECT: Operation.COPY_OBJECT,
    Operation.UPLOAD_PART: Operation.UPLOAD_PART_COPY,
}


def find_operation(
    method: str,
    address: ObjectAddress,
    parameters: Mapping[str, str],
    headers: Mapping[str, str],
) -> Operation:
    """The operation of a request; names of headers are in lower case. Raises S3Refusal."""
    level = _OBJECT if address.key else _BUCKET if address.bucket else _SERVICE
    choices = level.get(method)
    if choices is None:
        raise S3Refusal("MethodNotAllowed", f"{method[:20]}: is not offered at this address")
    _check_parameters(parameters)
    _check_headers(headers)
    operation = _choose(choices, parameters)
    if operation is None:
        raise S3Refusal("NotImplemented", f"{method}: this operation is not offered")
    if COPY_SOURCE in headers:
        operation = _COPIES.get(operation, operation)
    if operation is Operation.LIST_OBJECTS and parameters.get("list-type") == "2":
        return Operation.LIST_OBJECTS_V2
    return operation


def _choose(choices: Mapping[str, Operation], parameters: Mapping[str, str]) -> Operation | None:
    """The operation of a method that the parameters choose; None where there is none."""
    # For example '?versioning', which PUT and DELETE of a bucket must not take for nothing.
    if any(name in parameters and name not in choices for name in _CHOOSING):
        return None
    names = [name for name in choices if name and name in parameters]
    return choices.get(names[0] if names else "")


def _check_headers(headers: Mapping[str, str]) -> None:
    """Raise S3Refusal for headers that make another operation of a request."""
    refused = sorted(name for name in headers if name.startswith(REFUSED_HEADERS))
    if refused:
        raise S3Refusal("NotImplemented", f"{refused[0][:60]}: is not offered; leave it out")


def _check_parameters(parameters: Mapping[str, str]) -> None:
    """Raise S3Refusal for parameters that make another operation of a request."""
    # The number of a part names a part of an upload, or else one of an object.
    offered = {"partNumber"} if "uploadId" in parameters else set[str]()
    refused = sorted((REFUSED & parameters.keys()) - offered)
    if refused:
        raise S3Refusal("NotImplemented", f"{refused[0]}: is not offered")
    if parameters.get("versionId", "null") != "null":
        raise S3Refusal("NotImplemented", "versionId: objects have no versions here")
