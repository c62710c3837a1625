"""Bodies in the encoding `aws-chunked`: chunks of data, signed or not, and trailers.

    SIZE[;chunk-signature=SIGNATURE]\\r\\n DATA \\r\\n ... 0[;chunk-signature=...]\\r\\n
    [NAME:VALUE\\r\\n ... [x-amz-trailer-signature:SIGNATURE\\r\\n]] \\r\\n

The data of a chunk is handed on before its signature is verified: the caller uses none of it before
`finish` has returned. Source: Amazon S3 API Reference, Signature calculations for the Authorization
header: transferring payload in multiple chunks.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from lading.core.protocols.aws_signature import EMPTY_HASH, SigningScope, signature
from lading.core.s3.authorization import mismatch
from lading.core.s3.refusals import S3Refusal

_HEADER: Final = re.compile(rb"([0-9A-Fa-f]{1,12})(?:;chunk-signature=([0-9a-f]{64}))?")
_TRAILER: Final = re.compile(rb"([A-Za-z0-9-]{1,60}):[ \t]*([!-~]{0,200})[ \t]*")
_LONGEST_LINE: Final = 512
_MOST_TRAILERS: Final = 10
_SIGNED_BY: Final = "x-amz-trailer-signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSigner:
    """Signs chunks, each with the signature before it; `seed` is the signature of the request."""

    key: bytes
    stamp: str
    scope: SigningScope
    seed: str

    def sign(self, before: str, data_hash: str) -> str:
        """The signature of a chunk with this SHA-256."""
        head = f"AWS4-HMAC-SHA256-PAYLOAD\n{self.stamp}\n{self.scope}"
        return signature(self.key, f"{head}\n{before}\n{EMPTY_HASH}\n{data_hash}")

    def sign_trailer(self, before: str, trailer_hash: str) -> str:
        """The signature of the trailers with this SHA-256."""
        head = f"AWS4-HMAC-SHA256-TRAILER\n{self.stamp}\n{self.scope}"
        return signature(self.key, f"{head}\n{before}\n{trailer_hash}")


class _State(Enum):
    HEADER = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()
    END = auto()


class ChunkedBody:
    """Decodes one body. With `signer` every chunk is signed; with `has_trailer` trailers follow."""

    def __init__(self, *, signer: ChunkSigner | None, has_trailer: bool) -> None:
        self._signer, self._has_trailer = signer, has_trailer
        self._before = signer.seed if signer is not None else ""
        self._state = _State.HEADER
        self._line = bytearray()
        self._missing = 0
        self._is_last = False
        self._claimed = ""
        self._digest = hashlib.sha256()
        self._trailers: dict[str, str] = {}
        self._signed_lines = bytearray()

    def feed(self, piece: bytes) -> Iterator[memoryview]:
        """The data in the next piece of the body. Raises S3Refusal."""
        view = memoryview(piece)
        while view:
            if self._state is _State.DATA:
                taken = view[: self._missing]
                view = view[len(taken) :]
                self._missing -= len(taken)
                if self._signer is not None:
                    self._digest.update(taken)
                yield taken
                if not self._missing:
                    self._end_chunk()
            else:
                view = self._read_line(view)

    def finish(self) -> Mapping[str, str]:
        """The trailers, after the whole body. Raises S3Refusal for a body that ended early."""
        if self._state is not _State.END:
            raise _broken("the body ended before its last chunk")
        return self._trailers

    def _read_line(self, view: memoryview) -> memoryview:
        """Take the next line, or the part of it that is there; the view behind it."""
        if self._state is _State.END:
            raise _broken("data follows the last chunk")
        end = bytes(view[: _LONGEST_LINE + 2]).find(b"\n")
        self._line += view[: end + 1] if end >= 0 else view[: _LONGEST_LINE + 2]
        if len(self._line) > _LONGEST_LINE:
            raise _broken("the head of a chunk is too long")
        if end < 0:
            return view[len(view) :]
        if not self._line.endswith(b"\r\n"):
            raise _broken("a line does not end with CR and LF")
        line = bytes(self._line[:-2])
        self._line.clear()
        self._take(line)
        return view[end + 1 :]

    def _take(self, line: bytes) -> None:
        match self._state:
            case _State.HEADER:
                self._begin_chunk(line)
            case _State.DATA_END:
                if line:
                    raise _broken("a chunk is longer than its head says")
                self._state = _State.HEADER
            case _:
                self._take_trailer(line)

    def _begin_chunk(self, line: bytes) -> None:
        head = _HEADER.fullmatch(line)
        if head is None or (self._signer is not None and head[2] is None):
            raise _broken("the head of a chunk is malformed")
        self._missing = int(head[1], 16)
        self._claimed = (head[2] or b"").decode()
        self._is_last = not self._missing
        self._state = _State.DATA
        if self._is_last:
            self._end_chunk()

    def _end_chunk(self) -> None:
        if self._signer is not None:
            expected = self._signer.sign(self._before, self._digest.hexdigest())
            if not hmac.compare_digest(self._claimed, expected):
                raise mismatch()
            self._before, self._digest = expected, hashlib.sha256()
        self._state = _State.TRAILER if self._is_last else _State.DATA_END

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self._check_trailers()
            self._state = _State.END
            return
        match = _TRAILER.fullmatch(line)
        if not self._has_trailer or match is None or len(self._trailers) >= _MOST_TRAILERS:
            raise _broken("a trailer is malformed")
        name, value = match[1].decode().lower(), match[2].decode()
        if name in self._trailers:
            raise _broken("a trailer is there twice")
        self._trailers[name] = value
        if name != _SIGNED_BY:
            self._signed_lines += f"{name}:{value}\n".encode()

    def _check_trailers(self) -> None:
        if self._signer is None or not self._has_trailer:
            return
        trailer_hash = hashlib.sha256(self._signed_lines).hexdigest()
        expected = self._signer.sign_trailer(self._before, trailer_hash)
        if not hmac.compare_digest(self._trailers.pop(_SIGNED_BY, ""), expected):
            raise mismatch()


def _broken(fault: str) -> S3Refusal:
    return S3Refusal("IncompleteBody", f"aws-chunked: {fault}")
