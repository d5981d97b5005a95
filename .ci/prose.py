"""Check pages, docstrings and comments for unclear words and long sentences."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Folders whose docstrings and comments are checked.
FOLDERS = "river_mondrian", "benchmarks"
# Patterns of unclear sentences, and plainer words.
MARKS = {
    r"\b[Ll]aws?\b(?! of large)": "distribution",
    r"\banew\b": "again, or rebuild, redraw, restart",
    r"\bahead of\b": "before, or better than",
    r"\bthat which\b|\bof which\b": "name the thing",
    r"\bstands? out\b|\bstood out\b": "is anomalous",
    r"\btold\b|\btells\b": "reports, returns, given",
    r"\bgoes on\b|\bgo on\b|\bgoing on\b": "continue",
    r"\bby that of\b|\bfrom then on\b": "name the thing",
    r"\bnobody\b": "name who",
    r"\bno matter\b|\bthe one side\b": "name the thing",
}
# Words with which no docstring may begin, because docstrings begin with a plain verb.
STARTS = re.compile(r"(Tell|Let|Give|What|Say)\b")
MOST_WORDS = 28


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages and their texts without code, tables and addresses of links."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        if path.parent.name != "results":
            text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
            text = re.sub(r"^(\|.*|!\[.*| {4,}\S.*)$", "", text, flags=re.MULTILINE)
            yield str(path.relative_to(ROOT)), re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the docstrings of a module, without names of parameters."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            name = f"{path.relative_to(ROOT)}, {getattr(node, 'name', 'module')}"
            yield name, re.sub(r"^ *[\w, ]+$|`[^`]*`", "", text, flags=re.MULTILINE)


def comments(path: Path) -> tuple[str, str]:
    """Return a module's name and its comments."""
    text = "\n".join(re.findall(r"# .*", path.read_text()))
    return str(path.relative_to(ROOT)), re.sub(r"`[^`]*`", "", text)


def examples() -> Iterator[tuple[str, str]]:
    """Yield the sources of the examples."""
    for example in sorted((ROOT / "examples").glob("*.py")):
        yield str(example.relative_to(ROOT)), example.read_text()


def main() -> int:
    """Print the unclear words and long sentences, and return 1 if there are any."""
    modules = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))
    of_pages = list(pages())
    of_functions = [pair for path in modules for pair in docstrings(path)]
    found = []
    for name, text in [*of_pages, *of_functions, *map(comments, modules), *examples()]:
        for mark, plainer in MARKS.items():
            found += [f"{name}: {part!r}: {plainer}" for part in re.findall(mark, text)]
    for name, text in of_functions:
        if STARTS.match(text.strip()):
            found.append(f"{name}: does not begin with a plain verb: {text.strip()[:60]}")
    for name, text in of_pages:
        for block in re.split(r"\n\s*\n|\n(?=\s*- )|\n#", text):
            for sentence in re.split(r"(?<=[.:;!?])\s+", block):
                n = len(sentence.split())
                if n > MOST_WORDS:
                    found.append(f"{name}: {n} words: {sentence.strip()[:60]}")
    for line in found:
        print(line)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
