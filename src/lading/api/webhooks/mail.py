"""E-mail by SMTP, in threads of its own: a mail server that hangs holds up nothing but e-mail."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Final

from lading.config.webhooks import Mail
from lading.core.errors import Invalid
from lading.core.webhooks.schedule import Answer, Outcome

# E-mails at a time.
_THREADS: Final = 4
# RFC 5321, section 4.2.1: the first digit of a reply says whether the fault may pass.
_FOR_GOOD: Final = 5


class Mailer:
    """Sends e-mail through the configured server. `trust` makes the TLS context.
    Raises Invalid for settings that fit nothing."""

    def __init__(
        self, settings: Mail, *, trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        if settings.TLS not in ("starttls", "always", "never"):
            raise Invalid("configuration: Mail.TLS: must be starttls, always or never")
        if settings.Host and "@" not in settings.From:
            raise Invalid("configuration: Mail.From: give the address that e-mail is from")
        self._settings = settings
        self._trust = trust
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mail")

    @property
    def is_configured(self) -> bool:
        """Whether there is a mail server."""
        return bool(self._settings.Host)

    async def send(self, address: str, subject: str, body: str, *, event_id: str) -> Answer:
        """Send one e-mail; how that ended. `event_id` makes the Message-ID: an e-mail that is sent
        twice can be told.
        """
        if not self.is_configured:
            fault = "this server sends no e-mail; the admin sets Mail.Host"
            return Answer(outcome=Outcome.REFUSED, fault=fault)
        message = EmailMessage(policy=SMTP)
        message["From"] = self._settings.From
        message["To"] = address
        message["Subject"] = subject.encode("ascii", "replace").decode()
        message["Message-ID"] = f"<{event_id}@{self._settings.From.rpartition('@')[2].strip('> ')}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(body.encode("utf-8", "replace").decode())
        session = _Session(self._settings, self._trust)
        sending = asyncio.get_running_loop().run_in_executor(self._threads, session.send, message)
        try:
            async with asyncio.timeout(self._settings.Timeout):
                return await sending
        except TimeoutError:
            fault = f"the mail server took longer than {self._settings.Timeout:g} s"
            return Answer(outcome=Outcome.FAILED, fault=fault)
        finally:
            session.close()


class _Session:
    """One connection to the mail server, in a thread; `close` ends it from another one."""

    def __init__(self, settings: Mail, trust: Callable[[], ssl.SSLContext]) -> None:
        self._settings = settings
        self._trust = trust
        self._ended = threading.Event()
        self._client: smtplib.SMTP | None = None

    def close(self) -> None:
        self._ended.set()
        if self._client is not None:
            self._client.close()

    def send(self, message: EmailMessage) -> Answer:
        if self._ended.is_set():
            return Answer(outcome=Outcome.FAILED, fault="it was not sent in time")
        try:
            with self._connect() as client:
                self._client = client
                client.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            return _answer(min(code for code, _ in error.recipients.values()))
        except smtplib.SMTPResponseException as error:
            return _answer(error.smtp_code)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            fault = f"the mail server cannot be used: {type(error).__name__}"
            return Answer(outcome=Outcome.FAILED, fault=fault)
        return Answer(outcome=Outcome.DELIVERED)

    def _connect(self) -> smtplib.SMTP:
        settings = self._settings
        context = None if settings.TLS == "never" else self._trust()
        client: smtplib.SMTP
        if settings.TLS == "always":
            port = settings.Port or smtplib.SMTP_SSL_PORT
            client = smtplib.SMTP_SSL(
                settings.Host, port, timeout=settings.Timeout, context=context
            )
        else:
            client = smtplib.SMTP(settings.Host, settings.Port or 587, timeout=settings.Timeout)
        try:
            if settings.TLS == "starttls":
                client.starttls(context=context)
            if settings.User:
                secret = Path(settings.PasswordFile).read_text().rstrip("\r\n")
                client.login(settings.User, secret)
        except BaseException:
            client.close()
            raise
        return client


def _answer(code: int) -> Answer:
    """The meaning of a reply of the mail server."""
    outcome = Outcome.REFUSED if code // 100 == _FOR_GOOD else Outcome.FAILED
    return Answer(outcome=outcome, fault=f"the mail server answered {code}")
