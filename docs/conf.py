"""The site: Sphinx reads the pages, `pages_of_records` writes those of solvers, problems and public names.

`nox -s docs` builds it with every warning an error. No network is needed: there are no inventories of other sites,
and mathematics is MathML, which browsers draw themselves.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

# For the extensions in `site`, and the small data of the tests. One BLAS thread, as there: many small examples run.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent / "site"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import linspec

project = "linspec"
author = "linspec developers"
copyright = author  # noqa: A001  # Sphinx reads this name
version = release = linspec.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "pages_of_names",
    "pages_of_records",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "links_of_pages",
    "mathml",
    "terms",
]
exclude_patterns = ["_build", "**/.*", "gallery", "evidence/README.md"]
root_doc = "index"

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 4

# Docstrings
default_role = "py:obj"
autosummary_generate = False
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Mathematics
html_math_renderer = "mathml"

# Looks
html_theme = "pydata_sphinx_theme"
html_title = "linspec"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["linspec.css"]
html_search_scorer = str(Path(__file__).parent / "_static" / "search.js")
html_theme_options = {
    "logo": {"text": "linspec"},
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
with (Path(__file__).parents[1] / "pyproject.toml").open(
    "rb"
) as file:  # a link to the repository, if there is one
    repository = tomllib.load(file)["project"].get("urls", {}).get("Repository")
if repository:
    html_theme_options["icon_links"] = [
        {"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}
    ]
# Of several versions side by side, each finds the list of them in the folder above; see `site/versions.py`.
if published := os.environ.get("LINSPEC_DOCS_VERSION", ""):
    html_theme_options |= {
        "switcher": {"json_url": "../switcher.json", "version_match": published},
        "check_switcher": False,  # it is written when the versions are put together
        "navbar_end": ["version-switcher", "theme-switcher"],
    }
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

# Executed examples
if any(Path(__file__).parent.glob("gallery/plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "gallery",
        "gallery_dirs": "auto_gallery",
        "filename_pattern": r"plot_",
        "within_subsection_order": "FileNameSortKey",
        "thumbnail_size": (640, 300),
        "download_all_examples": False,
        "show_memory": False,
        "show_signature": False,
        "write_computation_times": False,
        "plot_gallery": True,
        "abort_on_example_error": True,
    }
