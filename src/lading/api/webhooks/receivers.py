"""One delivery to a receiver: a request by HTTP, or an e-mail.

Users name the receivers, and the server connects to them: each address is checked as those of
transfers are (`net.outside_way`), no redirect is followed, the body of the answer is
dropped, and the time is bounded. Source: docs/security, section Webhooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final, Protocol

from lading.api.server.features import FeatureKey
from lading.api.webhooks.mail import Mailer
from lading.core.errors import Forbidden, Invalid, LadingError
from lading.core.quantities import format_time
from lading.core.records.schema import Record
from lading.core.tes.locations import Location, LocationScheme, host_header
from lading.core.tes.transfers import retry_after
from lading.core.webhooks.messages import body_of, mail_of
from lading.core.webhooks.schedule import Answer, Outcome, outcome_of
from lading.core.webhooks.signature import sign, valid_secrets
from lading.core.webhooks.subscription import WebhookFormat, mail_address, web_address
from lading.net.http_connections import HttpConnections
from lading.net.outside_way import OutsideNetwork, OutsideWay

# Bytes of the body of an answer that are received, and seconds for them.
_MOST_BODY: Final = 64 << 10
_BODY_TIMEOUT: Final = 1.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class WebhookSender(Protocol):
    """Sends one event to the receiver of a webhook."""

    async def send(self, webhook: Record, event: Record) -> Answer:
        """The end of the attempt; a fault of the receiver is no error. `webhook` is the stored
        record, with its secrets; `event` a CloudEvent.
        """


class OutsideSender:
    """Implements WebhookSender by HTTP and SMTP. `timeout` in seconds; `trust` makes the TLS
    context of receivers.
    """

    def __init__(
        self,
        network: OutsideNetwork,
        mailer: Mailer,
        *,
        timeout: float,
        clock: Callable[[], datetime],
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._network = network
        self._mailer = mailer
        self._timeout = timeout
        self._clock = clock
        self._trust = trust
        self._tls: ssl.SSLContext | None = None

    async def send(self, webhook: Record, event: Record) -> Answer:
        """The end of the attempt; a fault of the receiver is no error."""
        try:
            format = WebhookFormat(webhook["format"])
            if format is WebhookFormat.EMAIL:
                address = mail_address(webhook["url"])
                subject, text = mail_of(event)
                return await self._mailer.send(address, subject, text, event_id=str(event["id"]))
            location = web_address(webhook["url"])
            body, kind = body_of(format, event)
            now = self._clock()
            headers = {
                "user-agent": "lading",
                "content-type": kind,
                "content-length": str(len(body)),
                "accept-encoding": "identity",
                "connection": "close",
                **sign(
                    valid_secrets(webhook, now=format_time(now)),
                    message_id=str(event["id"]),
                    timestamp=int(now.timestamp()),
                    body=body,
                ),
            }
            async with asyncio.timeout(self._timeout):
                return await self._post(location, headers, body)
        except TimeoutError:
            return _failed(f"no answer within {self._timeout:g} s")
        except OSError as error:
            return _failed(f"cannot be reached: {error.strerror or str(error)}")
        except (Forbidden, Invalid) as error:
            return Answer(outcome=Outcome.REFUSED, fault=error.message)
        except LadingError as error:
            return _failed(error.message)

    async def _post(self, location: Location, headers: dict[str, str], body: bytes) -> Answer:
        tls = None
        if location.scheme is LocationScheme.HTTPS:
            tls = self._tls = self._tls or await asyncio.to_thread(self._trust)
        way = OutsideWay(host=location.host, port=location.port, tls=tls, network=self._network)
        path = location.path + location.query
        # One connection for one delivery: receivers are many, and their events rare.
        connections = HttpConnections(way, host_header(location))
        asked = connections.exchange("POST", path, headers, body, timeout=self._timeout)
        with contextlib.closing(connections):
            async with asked as answer:
                fields = {name.lower(): value for name, value in answer.head.fields}
                await _let_end(answer.pieces)
                return _read(answer.head.status, fields)


async def _let_end(pieces: AsyncIterator[bytes]) -> None:
    """Drop the body of an answer. A short one is received, so that the receiver can end the
    connection in order; an endless one is cut off.
    """
    left = _MOST_BODY
    # The status counts, whatever becomes of the body.
    with contextlib.suppress(OSError, LadingError):
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    return


def _read(status: int, fields: dict[str, str]) -> Answer:
    outcome = outcome_of(status)
    if outcome is Outcome.DELIVERED:
        return Answer(outcome=outcome, status=status)
    fault = f"the receiver answered {status}"
    if status in _REDIRECTS:
        fault += ": redirects are not followed; give the address that it leads to"
    return Answer(outcome=outcome, status=status, fault=fault, asked=retry_after(fields))


def _failed(fault: str) -> Answer:
    return Answer(outcome=Outcome.FAILED, fault=fault)


WEBHOOK_SENDER: Final = FeatureKey[WebhookSender]("sender of webhooks")
