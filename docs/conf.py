"""The site: `sphinx-build -W --keep-going -b html docs site` builds it, offline and without a warning."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

from jointglasso._version import __version__  # noqa: E402

project = "jointglasso"
author = "The jointglasso developers"
copyright = "the jointglasso developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax is copied into the site: formulas need no network
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["tutorials/README.rst", "tutorials/*.py"]
mathjax_path = "mathjax/tex-svg.js"  # with its fonts in one file
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
# Links of the pages to files of the repository, which the site does not hold.
suppress_warnings = ["myst.xref_missing", "myst.header", "config.cache"]
default_role = "code"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "jointglasso"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"show_toc_level": 2, "navbar_align": "left", "header_links_before_dropdown": 7}
html_sidebars = {"index": [], "inference": []}  # all other pages show the pages of their section
html_show_sourcelink = False


sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": "/tutorial_",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": (),
    "image_scrapers": ("gallery_figures.figures_of_the_block",),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # a page that loads scripts from elsewhere
    "remove_config_comments": True,
    "plot_gallery": "True",
}


def escape(app, what, name, obj, options, lines):
    """Bars and stars of our docstrings are mathematics and arguments, not markup."""
    for number, line in enumerate(lines):
        if ">>>" not in line and "``" not in line and not line.startswith(".."):
            line = re.sub(r"(?<![\\`])\|(?!`)", r"\\|", line)
            if "`" not in line:
                line = re.sub(r"(?<=\w)_(?=[\s,.:;)*]|$)", r"\\_", line)
            if line.count("**") % 2:  # not bold
                line = re.sub(r"(?<![\w`*\\])\*\*(?=\w+(\s|$|,))", r"\\*\\*", line)
            lines[number] = line


def link_results(app, docname, source):
    """The repository has the pages of measurements under `benchmarks/`, the site under `results/`."""
    source[0] = source[0].replace("](../benchmarks/results/", "](results/")


def setup(app):
    app.connect("source-read", link_results)
    app.connect("autodoc-process-docstring", escape, priority=900)
