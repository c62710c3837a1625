"""E-mail to a mail server of the test: what it gets, and what its replies mean."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lading.api.webhooks.mail import Mailer
from lading.config.webhooks import Mail
from lading.core.errors import Invalid
from lading.core.webhooks.schedule import Answer
from lading.net.certificates import make_certificate


@asynccontextmanager
async def mail_server(
    replies: dict[bytes, bytes], *, tls: ssl.SSLContext | None = None, at_once: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Port and lines of a server that answers 250, and `replies` by the first word;
    an empty one hangs. With `tls` it takes STARTTLS, or encrypts `at_once`.
    """
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        is_text = False
        try:
            while line := await reader.readline():
                lines.append(line)
                word = line.split(b" ")[0].strip().upper()
                if is_text and line != b".\r\n":
                    continue
                usual = {b"DATA": b"354 go on", b"QUIT": b"221 bye"}.get(word, b"250 well")
                reply = replies.get(word, usual)
                is_text = reply.startswith(b"354")
                if reply:
                    writer.write(reply + b"\r\n")
                if word == b"STARTTLS" and tls is not None:
                    await writer.start_tls(tls)
        except OSError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls if at_once else None)
    try:
        yield server.sockets[0].getsockname()[1], lines
    finally:
        server.close()


async def send(
    port: int,
    text: str = "It ended.",
    subject: str = "It",
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    **more: Any,
) -> Answer:
    settings = {"Host": "127.0.0.1", "Port": port, "TLS": "never", "From": "lading@example.org"}
    mailer = Mailer(Mail(**{**settings, **more}), trust=trust)
    return await mailer.send("ada@example.org", subject, text, event_id="zzzzz-57u5n-1")


async def test_an_email_goes_out() -> None:
    async with mail_server({}) as (port, lines):
        answer = await send(port, text="Größe\n.\nend", subject="naïve \ud800")
    assert answer.outcome == "delivered"
    assert b"mail FROM:<lading@example.org>" in lines[1]
    assert lines[2] == b"rcpt TO:<ada@example.org>\r\n"
    assert b"Message-ID: <zzzzz-57u5n-1@example.org>\r\n" in lines
    assert b"Subject: na?ve ?\r\n" in lines


@pytest.mark.parametrize(
    ("word", "reply", "outcome", "fault"),
    [
        (b"RCPT", b"550 unknown", "refused", "550"),
        (b"RCPT", b"451 later", "failed", "451"),
        (b"DATA", b"554 no", "refused", "554"),
        (b"MAIL", b"421 busy", "failed", "421"),
    ],
)
async def test_a_reply_has_a_meaning(word: bytes, reply: bytes, outcome: str, fault: str) -> None:
    async with mail_server({word: reply}) as (port, _):
        answer = await send(port)
    assert (answer.outcome, fault in answer.fault) == (outcome, True), answer


async def test_a_server_that_hangs_is_a_failure() -> None:
    async with mail_server({b"DATA": b""}) as (port, _):
        answer = await send(port, Timeout=0.5)
    assert (answer.outcome, "longer than 0.5 s" in answer.fault) == ("failed", True), answer


async def test_a_missing_password_is_a_failure() -> None:
    async with mail_server({}) as (port, _):
        answer = await send(port, User="lading", PasswordFile="/nowhere")
    assert (answer.outcome, "FileNotFoundError" in answer.fault) == ("failed", True)


async def test_a_plain_server_is_not_trusted_with_starttls() -> None:
    async with mail_server({}) as (port, lines):
        answer = await send(port, TLS="starttls")
    assert answer.outcome == "failed"
    assert not any(b"mail" in line for line in lines)


@pytest.fixture
def identity(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """The TLS context of a mail server, and its certificate."""
    certificate, key = make_certificate("127.0.0.1", now=datetime.now(UTC))
    (tmp_path / "both").write_text(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    return context, certificate


@pytest.mark.parametrize("mode", ["starttls", "always"])
async def test_a_password_is_sent_by_tls_to_a_known_server(
    identity: tuple[ssl.SSLContext, str], tmp_path: Path, mode: str
) -> None:
    context, certificate = identity
    (tmp_path / "password").write_text("hush\n")
    login: dict[str, Any] = {
        "User": "lading",
        "PasswordFile": str(tmp_path / "password"),
        "TLS": mode,
    }
    plain = b"auth PLAIN " + base64.b64encode(b"\0lading\0hush")
    replies = {
        b"EHLO": b"250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN",
        b"STARTTLS": b"220 go on",
        b"AUTH": b"235 in",
    }

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cadata=certificate)

    async with mail_server(replies, tls=context, at_once=mode == "always") as (port, lines):
        unknown = await send(port, **login)
        assert (unknown.outcome, plain in b"".join(lines)) == ("failed", False)
        known = await send(port, trust=trust, **login)
        assert known.outcome == "delivered", known
        assert plain.lower() in b"".join(lines).lower()


@pytest.mark.parametrize(
    "settings", [{"TLS": "maybe"}, {"Host": "smtp.example.org"}, {"Host": "h", "From": "me"}]
)
def test_settings_that_fit_nothing_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="configuration: Mail"):
        Mailer(Mail(**settings))
