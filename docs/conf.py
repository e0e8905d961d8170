"""Sphinx settings. ``make docs`` builds with -W: every warning is an error."""

import re

from docutils import nodes

import whichvars

project = "whichvars"
author = "The whichvars developers"
copyright = f"2026, {author}"
version = release = whichvars.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "scaling"]  # scaling/: parts of a page
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it
toc_object_entries_show_parents = (
    "hide"  # the contents of a page have room for fit(), not for VariableSelector.fit()
)
smartquotes_action = "qe"  # quotation marks and dots, but "--help" keeps its two hyphens
numpydoc_show_class_members = False

sphinx_gallery_conf = {  # the scripts in examples/ are run, and become pages in gallery/
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 10**6,  # times depend on what else the machine does
    "show_signature": False,
    "image_srcset": ["2x"],  # so that pictures can be enlarged on a phone
    "capture_repr": ("_repr_html_",),  # tables, which phones can scroll
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "whichvars"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["whichvars.css"]
templates_path = ["_templates"]
html_sidebars = {"**": ["navigation.html"]}  # all pages, in four parts
html_theme_options = {"show_prev_next": True, "navigation_with_keys": False, "navbar_center": []}


def readable_defaults(app, what, name, obj, options, signature, returns):  # type: ignore[no-untyped-def]
    """Signatures say 1/3, as the source does."""
    return signature and signature.replace("0.3333333333333333", "1/3"), returns


def per_cent_beside_its_number(app, doctree, name):  # type: ignore[no-untyped-def]
    """Lines do not end between a number and its per cent sign."""
    for text in list(doctree.findall(nodes.Text)):
        if " %" in text and not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw)):
            text.parent.replace(text, nodes.Text(re.sub(r"(?<=\d) %", "\u00a0%", text)))


LONG = 20  # names that are longer may be broken between their words, too


def breakable_code(app, pagename, templatename, context, doctree):  # type: ignore[no-untyped-def]
    """Names in text may be broken after punctuation, where the style sheet allows it: in tables and on phones."""

    def broken(found: re.Match[str]) -> str:
        places = r"(?<=[(=,/])(?=[A-Za-z])|(?<=\w\.)(?=[A-Za-z]{5})" + r"|(?<=_)(?=[a-z])|(?<=[a-z])(?=[A-Z])" * (len(found[2]) > LONG)
        return found[1] + re.sub(places, "<wbr>", found[2])

    if "body" in context:
        context["body"] = re.sub(r'(<span class="pre">)([^<]*)', broken, context["body"])


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-process-signature", readable_defaults)
    app.connect("doctree-resolved", per_cent_beside_its_number)
    app.connect("html-page-context", breakable_code)
