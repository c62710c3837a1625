"""The sections on webhooks and e-mail."""

from __future__ import annotations

from lading.config.site import export, load


def test_they_are_read_and_kept_private() -> None:
    config = load(
        None,
        {
            "Webhooks": {"Timeout": "3s", "AllowedNetworks": ["10.1.2.0/24"]},
            "Mail": {"Host": "smtp.example.org", "From": "lading@example.org"},
        },
    )
    assert (config.Webhooks.Timeout, config.Webhooks.MaxConcurrent) == (3.0, 32)
    assert (config.Mail.Host, config.Mail.TLS) == ("smtp.example.org", "starttls")
    # Where the inside network is, and who sends e-mail, is nobody's business.
    assert "10.1.2.0" not in str(export(config))
    assert "smtp.example.org" not in str(export(config))
