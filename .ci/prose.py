"""Check pages for the marks of turned, private or long sentences."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is wrong, and what is plainer.
MARKS = {
    r"\b[Ll]aws?\b(?! of large)": "distribution",
    r"\banew\b": "again, or rebuild, redraw, restart",
    r"\bahead of\b": "before, or better than",
    r"\bthat which\b|\bof which\b": "name the thing",
    r"\bstands? out\b|\bstood out\b": "is anomalous",
    r"\btold\b|\btells\b": "reports, returns, given",
    r"\bgoes on\b|\bgo on\b|\bgoing on\b": "continue",
    r"\bas it was\b|\bas they were\b": "unchanged",
    r"\bby that of\b|\bfrom then on\b": "name the thing",
    r"\bnobody\b": "name who",
    r"\bno matter\b|\bthe one side\b": "name the thing",
}
MOST_WORDS = 35


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages and their text, without code, tables and addresses."""
    for path in [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.parent.name != "results":
            text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
            text = re.sub(r"^(\|.*| {4,}\S.*)$", "", text, flags=re.MULTILINE)
            yield path, re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)


def main() -> int:
    """Print what is found; return 1 if there is anything."""
    n = 0
    for path, text in pages():
        for mark, plainer in MARKS.items():
            for found in re.finditer(mark, text):
                print(f"{path.relative_to(ROOT)}: {found[0]!r}: {plainer}")
                n += 1
        for block in re.split(r"\n\s*\n|\n(?=\s*- )|\n#", text):
            for sentence in re.split(r"(?<=[.:;!?])\s+", block):
                if len(sentence.split()) > MOST_WORDS:
                    print(f"{path.relative_to(ROOT)}: {len(sentence.split())} words: {sentence}")
                    n += 1
    return min(n, 1)


if __name__ == "__main__":
    sys.exit(main())
