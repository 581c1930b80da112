"""Sphinx configuration. `make docs` builds without warnings, or fails."""

import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, os.path.abspath(".."))
sys.path.insert(0, os.path.abspath("_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

project = "skdpfl"
author = "The skdpfl developers"
copyright = "2026, The skdpfl developers"
release = version = __import__("skdpfl").__version__

extensions = [
    "api_groups",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "docstrings",
    "mathml",
    "offline",
    "parameter_groups",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "**sg_execution_times.rst",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py*",
]
templates_path = ["_templates"]
html_math_renderer = "mathml"  # no script, no network

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_mock_imports = ["torch"]  # what skdpfl.torch needs, an extra
toc_object_entries_show_parents = "hide"  # beside a page: fit(), not its class, too
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False

# the galleries' metadata routing and search examples warn on purpose where they teach
warnings.filterwarnings("ignore", message=".*non-interactive.*")

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_.*\.py",
    "ignore_pattern": r"^(?!plot_)",  # helpers and servers have no page
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
    "plot_gallery": os.environ.get("SKDPFL_DOCS_GALLERY", "1") == "1",
    "run_stale_examples": False,
    "show_signature": False,
    "write_computation_times": False,  # that page would load scripts from a network
    "within_subsection_order": "order.StoryOrder",
}

html_theme = "pydata_sphinx_theme"
html_title = "skdpfl"
html_static_path = ["_static"]
html_css_files = ["skdpfl.css"]
html_show_sourcelink = False
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
#: where the sources and the published pages are: whoever publishes them knows; unset, no links
REPOSITORY = os.environ.get("SKDPFL_REPOSITORY", "").rstrip("/")
PAGES = os.environ.get("SKDPFL_DOCS", "").rstrip("/")
#: pages without pages below them
_ALONE = "index start hospitals extending architecture contributing"
html_sidebars = {page: [] for page in _ALONE.split()}
html_sidebars |= {page: ["api-groups.html"] for page in ("api", "generated/*")}
html_theme_options = {
    "logo": {"text": f"skdpfl {release}", "alt_text": "skdpfl"},
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
if REPOSITORY:
    _written = sorted(path.stem for path in Path(__file__).parent.glob("*.md"))
    html_context = {"edit_page_url_template": REPOSITORY + "/edit/main/docs/{{ file_name }}"}
    html_theme_options["use_edit_page_button"] = True
    html_theme_options["secondary_sidebar_items"] |= {
        page: ["page-toc", "edit-this-page"] for page in _written if page != "index"
    }
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": REPOSITORY, "icon": "fa-solid fa-code-branch"}
    ]
if PAGES:  # versions.json there lists the versions that are published
    html_theme_options["switcher"] = {
        "json_url": f"{PAGES}/versions.json",
        "version_match": release,
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher", "navbar-icon-links"]


def skip_inherited(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents: its mixins' methods link to its own pages."""
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn") or name.endswith("_request") else None


def setup(app):
    """Connect the handler."""
    app.connect("autodoc-skip-member", skip_inherited)
