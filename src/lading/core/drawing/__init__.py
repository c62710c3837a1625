"""Layouts of drawings, as numbers: the page and the terminal draw them."""
