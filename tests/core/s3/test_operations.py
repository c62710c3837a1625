from __future__ import annotations

import pytest

from lading.core.s3.bucket_names import ObjectAddress
from lading.core.s3.operation_names import Operation
from lading.core.s3.operations import find_operation
from lading.core.s3.refusals import S3Refusal

SERVICE, BUCKET, OBJECT = ObjectAddress("", ""), ObjectAddress("b", ""), ObjectAddress("b", "k")
COPY = {"x-amz-copy-source": "/a/b"}


@pytest.mark.parametrize(
    ("method", "address", "parameters", "headers", "operation"),
    [
        ("GET", SERVICE, {}, {}, Operation.LIST_BUCKETS),
        ("GET", BUCKET, {}, {}, Operation.LIST_OBJECTS),
        ("GET", BUCKET, {"list-type": "2"}, {}, Operation.LIST_OBJECTS_V2),
        ("GET", BUCKET, {"location": ""}, {}, Operation.GET_BUCKET_LOCATION),
        ("GET", OBJECT, {"versionId": "null"}, {}, Operation.GET_OBJECT),
        ("PUT", OBJECT, {}, {}, Operation.PUT_OBJECT),
        ("PUT", OBJECT, {}, COPY, Operation.COPY_OBJECT),
        ("PUT", OBJECT, {"uploadId": "u", "partNumber": "1"}, {}, Operation.UPLOAD_PART),
        ("PUT", OBJECT, {"uploadId": "u", "partNumber": "1"}, COPY, Operation.UPLOAD_PART_COPY),
        ("POST", OBJECT, {"uploads": ""}, {}, Operation.CREATE_UPLOAD),
        ("GET", OBJECT, {"uploadId": "u"}, COPY, Operation.LIST_PARTS),
    ],
)
def test_operations(
    method: str,
    address: ObjectAddress,
    parameters: dict[str, str],
    headers: dict[str, str],
    operation: Operation,
) -> None:
    assert find_operation(method, address, parameters, headers) is operation


@pytest.mark.parametrize(
    ("method", "address", "parameters", "code"),
    [
        ("POST", SERVICE, {}, "MethodNotAllowed"),
        ("GET", BUCKET, {"acl": ""}, "NotImplemented"),
        ("GET", OBJECT, {"partNumber": "1"}, "NotImplemented"),
        ("GET", OBJECT, {"versionId": "3"}, "NotImplemented"),
        ("POST", BUCKET, {}, "NotImplemented"),
        ("PUT", BUCKET, {"versioning": ""}, "NotImplemented"),
        ("PUT", OBJECT, {"renameObject": ""}, "NotImplemented"),
        ("DELETE", BUCKET, {"uploads": ""}, "NotImplemented"),
        ("DELETE", OBJECT, {"versions": ""}, "NotImplemented"),
    ],
)
def test_other_operations(
    method: str, address: ObjectAddress, parameters: dict[str, str], code: str
) -> None:
    with pytest.raises(S3Refusal) as caught:
        find_operation(method, address, parameters, {})
    assert caught.value.code == code


@pytest.mark.parametrize(
    "name",
    [
        "x-amz-write-offset-bytes",
        "x-amz-expected-bucket-owner",
        "x-amz-object-lock-mode",
        "x-amz-server-side-encryption-customer-key",
    ],
)
def test_headers_that_must_not_be_ignored(name: str) -> None:
    with pytest.raises(S3Refusal, match=name) as caught:
        find_operation("PUT", OBJECT, {}, {name: "1"})
    assert caught.value.code == "NotImplemented"
