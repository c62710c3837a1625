"""Deliveries over real connections, to receivers that answer well, badly, or not at all."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.api.webhooks.mail import Mailer
from lading.api.webhooks.receivers import OutsideSender
from lading.config.webhooks import Mail
from lading.core.records.cloud_events import cloud_event
from lading.core.records.schema import Record
from lading.core.webhooks.schedule import Answer
from lading.core.webhooks.signature import make_secret
from lading.net.certificates import make_certificate
from lading.net.outside_way import OutsideNetwork
from tests.api.webhooks import receiver
from tests.api.webhooks.receiver import answers, receiving

KEY = b"k" * 32
EVENT = cloud_event(
    uuid="zzzzz-57u5n-000000000000001",
    number=7,
    object_uuid="zzzzz-xvhdp-000000000000001",
    object_owner_uuid="zzzzz-tpzed-000000000000001",
    event_type="update",
    event_at="2026-01-02T03:04:05.000000000Z",
    properties={"new_attributes": {"name": "align", "state": "Final"}},
)


def sender(
    *, timeout: float = 5.0, allowed: tuple[str, ...] = ("127.0.0.0/8",), **more: Any
) -> OutsideSender:
    return OutsideSender(
        OutsideNetwork(allowed=allowed, key="Webhooks.AllowedNetworks"),
        Mailer(Mail()),
        timeout=timeout,
        clock=lambda: datetime(2026, 1, 2, tzinfo=UTC),
        **more,
    )


async def send(url: str, *, format: str = "cloudevents", **more: Any) -> Answer:
    webhook: Record = {"url": url, "format": format, "secret": make_secret(KEY)}
    return await sender(**more).send(webhook, EVENT)


async def test_a_delivery_is_signed() -> None:
    async with receiving() as it:
        answer = await send(it.url)
    [got] = it.received
    assert (answer.outcome, answer.status) == ("delivered", 200)
    assert got.event == EVENT
    assert got.headers["content-type"] == "application/cloudevents+json"
    assert got.headers["host"] == f"127.0.0.1:{it.port}"
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{digest}"
    assert got.headers["webhook-id"] == EVENT["id"]


async def test_slack_gets_its_form() -> None:
    async with receiving() as it:
        await send(it.url, format="slack")
    assert it.received[0].event == {
        "text": 'container request "align" is Final (zzzzz-xvhdp-000000000000001)'
    }


@pytest.mark.parametrize(
    ("act", "outcome", "fault"),
    [
        (receiver.hangs, "failed", "no answer within 0.5 s"),
        (receiver.drips, "failed", "no answer within 0.5 s"),
        (receiver.cuts, "failed", "ended before the answer"),
        (receiver.swells, "failed", "too long"),
        (receiver.never_ends, "delivered", ""),
        (answers(410), "gone", "410"),
        (answers(500), "failed", "500"),
        (answers(401), "refused", "401"),
        (answers(301, "Location: http://127.0.0.1:1/"), "refused", "redirects are not followed"),
        (answers(200, "X" * 70_000 + ": y"), "failed", "too long"),
    ],
)
async def test_a_bad_receiver_is_told(act: receiver.Act, outcome: str, fault: str) -> None:
    async with receiving(act) as it, asyncio.timeout(20):
        # The machine may be busy: only what never ends has a short time.
        is_endless = act in (receiver.hangs, receiver.drips)
        answer = await send(it.url, timeout=0.5 if is_endless else 10)
    assert (answer.outcome, fault in answer.fault) == (outcome, True), answer
    assert len(it.received) == 1


async def test_a_receiver_may_ask_for_time() -> None:
    async with receiving(answers(429, "Retry-After: 120")) as it:
        assert (await send(it.url)).asked == 120


async def test_nobody_there_is_a_failure() -> None:
    async with receiving() as it:
        pass
    answer = await send(it.url)
    assert (answer.outcome, "cannot be reached" in answer.fault) == ("failed", True)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]",
        "0.0.0.0", "0x7f000001", "169.254.169.254", "100.100.100.200", "10.0.0.1", "192.168.0.1",
        "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]",
    ],
)  # fmt: skip
async def test_inside_addresses_are_refused(host: str) -> None:
    async with receiving() as it:
        answer = await send(f"http://{host}:{it.port}/hook", allowed=())
    assert answer.outcome in ("refused", "failed")
    assert "Webhooks.AllowedNetworks" in answer.fault or "cannot be looked up" in answer.fault
    assert not it.received


async def test_a_name_that_changes_its_address_is_checked_each_time() -> None:
    found = ["127.0.0.1", "10.0.0.1"]

    async def lookup(host: str, port: int) -> list[str]:
        return [found.pop(0)]

    network = OutsideNetwork(allowed=("127.0.0.0/8",), lookup=lookup)
    made = OutsideSender(network, Mailer(Mail()), timeout=5, clock=lambda: datetime.now(UTC))
    async with receiving() as it:
        webhook: Record = {
            "url": f"http://rebinds.example:{it.port}/",
            "format": "cloudevents",
            "secret": make_secret(KEY),
        }
        assert (await made.send(webhook, EVENT)).outcome == "delivered"
        second = await made.send(webhook, EVENT)
    assert (second.outcome, "inside network" in second.fault) == ("refused", True)


async def test_mail_without_a_server_is_refused() -> None:
    answer = await send("mailto:ada@example.org", format="email")
    assert (answer.outcome, "Mail.Host" in answer.fault) == ("refused", True)


async def test_a_receiver_by_tls_must_be_known(tmp_path: Path) -> None:
    certificate, key = make_certificate("127.0.0.1", now=datetime.now(UTC))
    (tmp_path / "both").write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    async with receiving(tls=context) as it:
        url = it.url.replace("http:", "https:")
        unknown = await send(url)
        known = await send(url, trust=lambda: ssl.create_default_context(cadata=certificate))
    assert (unknown.outcome, "certificate" in unknown.fault) == ("failed", True), unknown
    assert (known.outcome, len(it.received)) == ("delivered", 1)
