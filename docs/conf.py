"""Sphinx settings. ``make docs`` builds with -W: every warning is an error."""

from pathlib import Path

import whichvars

project = "whichvars"
author = "The whichvars developers"
copyright = f"2026, {author}"
version = release = whichvars.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "whichvars"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": True, "navigation_with_keys": False}


def add_optional_pages(app, docname, source):
    """Pages that may not have been written yet: in the table of contents only if they are there."""
    if docname == "index":
        page = Path(app.srcdir) / "performance.md"
        source[0] = source[0].replace("@performance\n", "performance\n" if page.exists() else "")


def setup(app):
    app.connect("source-read", add_optional_pages)
