"""Check that a tag, the package, the changelog and the citation agree: ``python .github/check_version.py v0.1.0``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "linspec/__init__.py": r'^__version__ = "(.+)"$',
    "CHANGELOG.md": r"^## (\d\S*)",
    "CITATION.cff": r"^version: (\S+)$",
}


def versions() -> dict[str, str | None]:
    """What each place says; the changelog its newest release, which its heading names with a date."""
    texts = {place: (ROOT / place).read_text("utf-8") for place in PLACES}
    found = {place: re.search(pattern, texts[place], re.MULTILINE) for place, pattern in PLACES.items()}
    return {place: match and match[1] for place, match in found.items()}


if __name__ == "__main__":
    wrong = {place: said for place, said in versions().items() if f"v{said}" != sys.argv[1]}
    if wrong:
        sys.exit(
            f"the tag is {sys.argv[1]}, but "
            + ", ".join(f"{place} says {said}" for place, said in wrong.items())
        )
