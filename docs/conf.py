"""Sphinx settings."""

project = "Lading"
author = "The Lading developers"
copyright = "2026, The Lading developers"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Containers as records",
    "fixed_sidebar": True,
    "page_width": "1100px",
}
myst_heading_anchors = 3
myst_fence_as_directive: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]
