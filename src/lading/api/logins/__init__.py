"""Logins at a provider of OpenID Connect: calls to the provider, and users made at first login."""
