"""Open the built site in a browser: its search answers what newcomers ask, and its pages can be read anywhere.

Problem: the ranks of a search, colours and widths are made by a browser; no test of files sees them.
Method: Chromium without a window, steered by DevTools through a pipe, so that no package is needed. Each question is
typed into the search of the site, as the address of its page of results has it; the page with the answer must be among
the first three. Pages are opened in light and dark, on a desk and on a phone: nothing scrolls sideways, and the
contrast of all text is at least that of WCAG 2.1, level AA.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from browser import Browser

NAMES = ("chromium", "google-chrome", "chromium-browser", "chrome")
QUESTIONS = {
    "which solver": "guide/choose-a-solver",
    "save model": "guide/answers",
    "how do I add confounds": "guide/data",
    "pca sparse matrix": "problems/svd",
    "missing values": "guide/faq",
    "p-value": "problems/cca",
    "cross validation ridge": "guide/choosing",
    "larger than memory": "guide/files guide/data guide/faq start/jobs",
    "gpu": "guide/gpu",
    "predict new rows": "guide/answers",
}
"""What newcomers type, and the pages that answer it."""

WORST_RANK = 3

PAGES = ("index", "guide/choose-a-solver", "api/CCA")
LOOKS = [(theme, width) for theme in ("light", "dark") for width in (1280, 390)]
RESULTS = """
document.querySelector(".search-summary")?.innerText
    ? [...document.querySelectorAll("#search-results li > a")].map(a => a.getAttribute("href")) : null
"""
FAINT = Path(__file__).with_name("faint.js").read_text("utf-8")


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files, and prints nothing."""

    def log_message(self, *_: Any) -> None: ...


def ask(browser: Browser, address: str) -> list[str]:
    """Type every question into the search, follow the answer, and return what went wrong."""
    wrong = []
    for question, answers in QUESTIONS.items():
        browser.open(f"{address}search.html?q={quote(question)}")
        found = browser.value(RESULTS)
        pages = [link.partition("#")[0].removesuffix(".html") for link in found]
        rank = next((i for i, page in enumerate(pages, 1) if page in answers.split()), None)
        print(f"{question}: {answers.split()[0]} is number {rank} of {len(pages)}")
        if rank is None or rank > WORST_RANK:
            wrong.append(f"{question}: its answer is number {rank}, after {', '.join(pages[:3])}")
        else:
            browser.open(address + found[rank - 1])
            if not browser.value('document.querySelector("main h1")?.innerText ?? ""'):
                wrong.append(f"{question}: {found[rank - 1]} has no title")
    return wrong


def read(browser: Browser, address: str) -> list[str]:
    """Look at pages in every theme and width, and return what cannot be read."""
    wrong = []
    for page, (theme, width) in product(PAGES, LOOKS):
        browser.look(theme, width)
        browser.open(f"{address}{page}.html")
        wide = browser.value("document.documentElement.scrollWidth")
        if wide > width:
            wrong.append(f"{page}, {theme}, {width} px wide: it is {wide} px wide")
        wrong += [f"{page}, {theme}, {width} px wide: faint: {text}" for text in browser.value(FAINT)]
    return wrong


def main() -> int:
    """Try the site, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    root = parser.parse_args().root.resolve()
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None or not (root / "search.html").is_file():
        sys.exit(f"needed: {' or '.join(NAMES)} on PATH, and a site in {root} (nox -s docs)")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            wrong = ask(browser, address) + read(browser, address)
        finally:
            browser.close()
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(QUESTIONS)} questions, {len(PAGES) * len(LOOKS)} looks at pages, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
