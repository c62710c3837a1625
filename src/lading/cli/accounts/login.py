"""`lading login`, `logout` and `whoami`: sites elsewhere, by name."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from lading.cli import display
from lading.cli.interruption import run_in_loop
from lading.cli.session import CliSession, session_with, with_session
from lading.core.errors import Forbidden, Invalid, LadingError, NotFound, Unauthenticated

if TYPE_CHECKING:
    from lading.client.servers.environment import Server
    from lading.client.servers.site_certificates import SiteCertificate
    from lading.client.servers.site_logins import SiteLogins

_TOKENS: Final = "api_client_authorizations"
_LONGEST_TOKEN: Final = 10_000
"""Characters of a token that is read from a file."""


@click.command()
@click.argument("site", metavar="https://HOST[:PORT]")
@click.option("--name", default="", help="Name of the login.  [default: the first part of HOST]")
@click.option(
    "--token-file",
    type=click.File("r"),
    help="File with the token, '-' for standard input, in place of the question.",
)
@click.option(
    "--fingerprint",
    default="",
    help="SHA-256 of the certificate, in place of the question about one that is not trusted.",
)
@click.option("--no-browser", is_flag=True, help="Print the address of the page; open no browser.")
@click.option("--paste", is_flag=True, help="Ask for a token of the page, to be pasted here.")
@display.with_json
def login(
    site: str, name: str, token_file: Any, fingerprint: str, no_browser: bool, paste: bool
) -> display.Output:
    """Log in at a site elsewhere; later commands use it.

    The page of the site opens in the browser. Log in there as the site asks for, compare the code,
    and allow the login. Where there is no browser, open the printed address on any other machine.
    The token is kept in the keyring of the system, if the package 'keyring' is installed, else in a
    file that only you can read.

    A certificate that the store of the system does not trust is shown by its fingerprint, and used
    only if you agree. Compare it with the one that the admin of the site gives.

    \b
    lading login https://lab.example.org --name lab
    lading --site lab run -- true
    """
    from lading.client.servers.environment import Server, split_address
    from lading.client.servers.site_certificates import look_at
    from lading.client.servers.site_logins import SiteLogin, check_name

    address = _address(site)
    name = name or split_address(address)[0].partition(".")[0]
    check_name(name)
    certificate = run_in_loop(look_at(address))
    if not certificate.is_trusted:
        _agree(address, certificate, fingerprint)
    logins = _logins()
    pinned = "" if certificate.is_trusted else certificate.pem
    with _kept_aside(pinned) as file:
        server = Server(address=address, token="", authorities=file, is_pinned=file is not None)
        if token_file is not None or paste:
            sent = _token(address, token_file, opens=not no_browser)
            work = _own_token(msgspec.structs.replace(server, token=sent))
        else:
            work = _allowed_token(server, opens=not no_browser)
        user, token, is_own = run_in_loop(work)
    saved = SiteLogin(
        address=address,
        user=str(user.get("username") or user["uuid"]),
        token=token,
        is_own_token=is_own,
        is_pinned=bool(pinned),
    )
    is_hidden = logins.add(name, saved, certificate=pinned)
    yield {"name": name, "address": address, "user": saved.user, "keyring": is_hidden}
    place = "the keyring" if is_hidden else "a file that only you can read"
    display.note(f"logged in at {address} as {saved.user}: login {name}, its token is in {place}")


@click.command()
@click.argument("name", required=False)
@display.with_json
def logout(name: str | None) -> display.Output:
    """Forget a login, the present one if none is named, and end the token that it has made."""
    logins = _logins()
    name = name or logins.choose(os.environ)
    if not name:
        raise NotFound("no login; 'lading login https://HOST' makes one")
    login = logins.find(name)
    is_own = login.is_own_token
    # Of the form v2/UUID/SECRET; the secret must not be shown.
    uuid = logins.server(name).token.split("/")[1] if is_own else ""
    ended = is_own and run_in_loop(_end_token(logins.server(name)))
    logins.remove(name)
    yield {"name": name, "token_ended": ended}
    display.note(f"logged out of {name}" + ("; its token has ended" if ended else ""))
    if is_own and not ended:
        # A login that only reads may not end its own token.
        display.warn(
            f"{login.address} did not end the token: 'lading token revoke {uuid}' there ends it, "
            "or the page Tokens"
        )


@click.command()
@display.with_json
def whoami() -> display.Output:
    """Show the user, the site, and the end of the token that commands use; list the logins."""
    logins = _logins()
    present = logins.choose(os.environ)

    async def action(session: CliSession) -> tuple[dict[str, Any], str | None, str]:
        user = await session.api.request("GET", "users/current")
        try:
            token = await session.api.request("GET", f"{_TOKENS}/current")
        except (Forbidden, NotFound):
            # A token of limited scopes.
            token = {}
        return user, token.get("expires_at"), session.address

    user, expires, address = with_session(action)
    username = str(user.get("username") or user["uuid"])
    yield {
        "user": username,
        "uuid": user["uuid"],
        "is_admin": bool(user.get("is_admin")),
        "site": address,
        "login": present,
        "expires_at": expires,
        "logins": logins.names(),
    }
    display.fields(
        (
            ("user", f"{username} ({user['uuid']})" + (", admin" if user.get("is_admin") else "")),
            ("site", address),
            ("login", present or "none: the environment, or the site of this machine"),
            ("token ends", expires or "never"),
            ("logins", ", ".join(logins.names())),
        )
    )


def _logins() -> SiteLogins:
    from lading.client.servers.site_logins import (
        SiteLogins,
        configuration_directory,
        system_keyring,
    )

    return SiteLogins(configuration_directory(os.environ), system_keyring)


def _address(site: str) -> str:
    """`host:port` of `https://HOST[:PORT]/`. Raises Invalid."""
    from lading.client.servers.environment import split_address

    if site.startswith("http://"):
        raise Invalid(f"{site[:80]}: a token is sent over https only")
    host, port = split_address(site.removeprefix("https://").rstrip("/"))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _agree(address: str, certificate: SiteCertificate, fingerprint: str) -> None:
    """Return when the user trusts a certificate that the store of the system does not. Raises
    Invalid.
    """
    from lading.client.servers.site_certificates import same_fingerprint

    shown = certificate.fingerprint
    if fingerprint:
        if not same_fingerprint(fingerprint, shown):
            raise Invalid(f"{address}: its certificate has another fingerprint: SHA256 {shown}")
        return
    if not sys.stdin.isatty():
        raise Invalid(
            f"{address}: {certificate.fault}; if SHA256 {shown} is the fingerprint of the site, "
            "add --fingerprint with it"
        )
    display.warn(f"the system does not trust the certificate of {address}: {certificate.fault}")
    display.warn(f"its SHA256 fingerprint is {shown}")
    display.confirm("Is this the fingerprint that the admin of the site gives?")


def _token(address: str, file: Any, *, opens: bool) -> str:
    """The token that the user gives. Raises Invalid."""
    if file is not None:
        token = str(file.read(_LONGEST_TOKEN)).strip()
    else:
        if not sys.stdin.isatty():
            raise Invalid("nobody can paste a token here; give --token-file FILE, or '-'")
        import webbrowser

        page = f"https://{address}/ui/login?next=/ui/tokens"
        if not (opens and webbrowser.open(page)):
            click.echo(page, err=True)
        display.warn("log in on the page of the site, make a token there, and paste it here")
        token = click.prompt("Token", hide_input=True, err=True).strip()
    if not token or not token.isascii() or not token.isprintable():
        raise Invalid("not a token: it is a line of ASCII letters, as the page shows it")
    return token


@contextmanager
def _kept_aside(certificate: str) -> Generator[Path | None]:
    """Inside, a temporary file with a certificate; None for no certificate."""
    if not certificate:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lading-") as folder:
        path = Path(folder) / "site.pem"
        path.write_text(certificate)
        yield path


def user_name() -> str:
    """The name of the user of this process; its number where no table has one."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # As in a container that runs with the number of a user of its host.
        return f"user {os.getuid()}"


async def _allowed_token(server: Server, *, opens: bool) -> tuple[dict[str, Any], str, bool]:
    """The user who allows this login on the page of the site, and its token. Raises
    Unauthenticated, Unavailable.
    """
    import secrets
    import socket
    import webbrowser

    from lading.client.servers.device_login import page_address, wait_until_allowed
    from lading.core.policy.device_logins import SECRET_BYTES, code_of, digest_of

    secret = secrets.token_hex(SECRET_BYTES)
    digest = digest_of(secret)
    caller = f"lading of {user_name()} on {socket.gethostname()}"
    page = page_address(server.address, digest, name=caller)
    if not (opens and webbrowser.open(page)):
        display.warn("open this address in a browser, on this or another machine:")
        click.echo(page, err=True)
    display.warn(f"log in there, and allow the login with the code {code_of(digest)}")
    async with session_with(msgspec.structs.replace(server, token=secret)) as session:
        user, token = await wait_until_allowed(session.api)
    return user, f"v2/{token['uuid']}/{secret}", True


async def _own_token(server: Server) -> tuple[dict[str, Any], str, bool]:
    """The user of a token, and a token of the login's own; the given one where it makes no other.
    Raises Unauthenticated, Unavailable.
    """
    async with session_with(server) as session:
        try:
            user = await session.api.request("GET", "users/current")
        except Unauthenticated as error:
            raise Unauthenticated(f"{server.address}: the token was refused") from error
        try:
            present = await session.api.request("GET", f"{_TOKENS}/current")
            ends = {"expires_at": present.get("expires_at")}
            made = await session.api.create(_TOKENS, ends)
        except (Forbidden, NotFound):
            return user, server.token, False
        return user, f"v2/{made['uuid']}/{made['api_token']}", True


async def _end_token(server: Server) -> bool:
    """End the token of a login; whether the site did."""
    try:
        async with session_with(server) as session:
            await session.api.delete(_TOKENS, server.token.split("/")[1])
    except Unauthenticated:
        # It has ended already.
        return True
    except LadingError:
        return False
    return True
