"""Hooks of MkDocs that add generated pages to the pages in `docs`.

They generate the reference, the gallery and the notebooks. They also add the repository's
changelog, contributing guide, architecture and security policy.
"""

from __future__ import annotations

import logging
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from river_mondrian import __version__

import gallery
import notebooks
import reference
import runs

LOG = logging.getLogger("mkdocs.hooks")
ROOT = Path(__file__).parents[2]
TAKEN = {
    "changelog.md": "CHANGELOG.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "contributing.md": "CONTRIBUTING.md",
    "architecture.md": "ARCHITECTURE.md",
    "security.md": "SECURITY.md",
}
# Targets of links in the repository, and their pages on the site.
MADE = {"examples": "gallery/index.md", "river_mondrian/__init__.py": "reference/index.md"}


class Loaded(HTMLParser):
    """A parser that warns if a page would load a file from another host."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Warn if a tag other than a link has an address on another host."""
        for name, value in attrs:
            if tag != "a" and name in {"src", "href", "srcset", "data"} and _is_elsewhere(value):
                LOG.warning("<%s %s=%r> would load from another host", tag, name, value)


def _is_elsewhere(address: str | None) -> bool:
    return re.match(r"(https?:)?//", address or "") is not None


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the navigation, and show the version."""
    config.copyright = f"river-mondrian {__version__}"
    if config.repo_url:
        config.edit_uri = "edit/main/docs/"
    lists = {
        "Reference": reference.nav(),
        "Gallery": gallery.nav(),
        "Notebooks": notebooks.nav(),
    }
    config.nav = [
        {title: lists.get(title, pages)} for item in config.nav for title, pages in item.items()
    ]
    config.watch.append(str(ROOT / "examples"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    runs.run_all()
    made: dict[str, str | bytes] = {**reference.pages(), **gallery.files()}
    for notebook in notebooks.NOTEBOOKS:
        made.update(notebooks.files(notebook))
    for page, source in TAKEN.items():
        made[page] = (ROOT / source).read_text()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files of the repository by links to pages of the site."""
    if page.file.generated_by:
        page.edit_url = None
    if page.file.src_uri.startswith("results/"):
        page.meta["hide"] = ["navigation"]
    up = posixpath.relpath(".", posixpath.dirname(page.file.src_uri) or ".")
    if page.file.src_uri in TAKEN:
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    for taken, source in TAKEN.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{source}", f"]({up}/{taken}", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", rf"]({up}/gallery/\1.md)", markdown)
    for source, made in MADE.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{source}\)", f"]({up}/{made})", markdown)
    # Only the link on a notebook's own page leads to the notebook file.
    markdown = re.sub(r"(?<!The notebook)\]\(((?:\w+/|\.\./)*\w+)\.ipynb\)", r"](\1.md)", markdown)
    # Source files have no pages, so a link to a source file becomes its path.
    markdown = re.sub(r"\[[^]]*\]\((?:\.\./)+(river_mondrian/[^)]*)\)", r"`\1`", markdown)
    markdown = markdown.replace("](results)", "](results/index.md)")
    # A pair of figures in a table cell must not break across lines.
    return re.sub(
        r"^\|.*$",
        lambda row: re.sub(r"(?<=\d) / (?=[\d.])", "&nbsp;/&nbsp;", row[0]),
        markdown,
        flags=re.MULTILINE,
    )


def on_post_page(output: str, **_: Any) -> str:
    """Check that a page loads nothing from another host."""
    Loaded().feed(output)
    return output


def on_post_build(config: MkDocsConfig) -> None:
    """Check that no style loads a file from another host, and remove files that no reader needs."""
    site = Path(config.site_dir)
    # Source maps are for debuggers, and word lists are for searches in other languages.
    for path in [*site.rglob("*.min.*.map"), *site.rglob("javascripts/lunr/**/*.js")]:
        path.unlink()
    for path in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text()):
            if _is_elsewhere(address):
                LOG.warning("%s would load %s from another host", path.name, address)
