"""Layouts of drawings, as numbers and as text: the page and the terminal draw them."""
