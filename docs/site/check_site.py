"""Every link within the built site leads to a page and to a place on it; and what the site amounts to.

Sphinx warns of links that it makes itself. This looks at the pages as a browser gets them: the theme's links, those
in the text of docstrings, pictures, and the places within pages (`page.html#place`).
"""

from __future__ import annotations

import argparse
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that links can lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, names, and what href and src name."""
        for key, value in attrs:
            if value and (key == "id" or (tag == "a" and key == "name")):
                self.places.add(value)
            if value and key in {"href", "src"}:
                self.links.append(value)


def html_of(root: Path) -> list[Path]:
    """The pages; the theme keeps a template among its files."""
    return [file for file in root.rglob("*.html") if "_static" not in file.parts]


def broken(root: Path) -> tuple[int, list[str]]:
    """How many links within the site there are, and those that lead nowhere."""
    pages = {file: Page(file) for file in html_of(root)}
    count, found = 0, []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                found.append(f"{file.relative_to(root)}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{file.relative_to(root)}: {link} (no such place)")
    return count, found


def main() -> int:
    """Check the site, and say its pages, seconds and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--began", type=float, help="time.monotonic() when the build began")
    given = parser.parse_args()
    root = given.root.resolve()
    count, found = broken(root)
    for line in found:
        print(line, file=sys.stderr)
    pages = len(html_of(root))
    size = sum(
        file.stat().st_size for file in root.rglob("*") if file.is_file() and ".doctrees" not in file.parts
    )
    seconds = "" if given.began is None else f", {time.monotonic() - given.began:.0f} s"
    print(f"{pages} pages{seconds}, {size / 1e6:.1f} MB, {count} links within the site, {len(found)} broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
