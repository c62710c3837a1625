"""Sphinx settings."""

project = "Lading"
author = "The Lading developers"
copyright = "2026, The Lading developers"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Lading"
# No address of the source: the pages need nothing of the network.
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static"]
html_css_files = ["tables.css"]
myst_heading_anchors = 3
myst_fence_as_directive: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]
