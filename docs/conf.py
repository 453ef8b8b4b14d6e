"""How Sphinx builds the documentation: ``make docs``."""

import os
import re
import sys
from pathlib import Path

import maboost

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ["MPLBACKEND"] = "Agg"

project = "maboost"
author = "The maboost developers"
copyright = author
release = version = maboost.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
# the pages of figures are gathered on one page, speed.md
exclude_patterns = ["performance*.md", "gallery/*.ipynb"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # a function in the gallery's options

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"maboost {release}"
html_static_path = ["_static"]
html_css_files = ["maboost.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"plot_overview|noisy_labels|shap_values|emphasis",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "thumbnail_size": (560, 350),
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 10**9,  # seconds differ from build to build
    "remove_config_comments": True,
    "notebook_extensions": set(),
}


def _gathered(app, docname, source):
    """Put the pages that a comment ``<!-- gather PATTERN -->`` names into the page, one after another.

    In lists of pages a line ``PATTERN*`` that fits no page is left out. Links to pages of figures lead to
    the page that gathers them.
    """

    def included(match: re.Match) -> str:
        found = sorted(HERE.glob(match.group(1)))
        return "\n\n".join(f"```{{include}} {path.name}\n:heading-offset: 1\n```" for path in found)

    def listed(match: re.Match) -> str:
        return match[0] if any(HERE.glob(f"{match[1]}*.md")) else ""

    source[0] = re.sub(r"<!-- gather (\S+) -->", included, source[0])
    source[0] = re.sub(r"^([\w-]+)\*\n", listed, source[0], flags=re.MULTILINE)
    source[0] = re.sub(r"\]\(performance[\w-]*\.md", "](speed.md", source[0])


def _skipped(app, what, name, obj, skip, options):
    """Methods that scikit-learn adds for its metadata routing; its own pages explain them."""
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if routing else None


def setup(app):
    """Connect the two."""
    app.connect("source-read", _gathered)
    app.connect("autodoc-skip-member", _skipped)
