"""Docstrings in River's style, as griffe expects numpydoc's.

River says what is returned without its type, which griffe would take the text for, and cites
sources by footnotes of Markdown, which do not reach from one section to another.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

RETURNS = re.compile(
    r"(?<=^Returns\n-------\n).*?(?=\n\n[A-Z][\w ]+\n---|\Z)", re.DOTALL | re.MULTILINE
)


class RiverDocstrings(griffe.Extension):
    """Rewrite each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give what is returned its type, and footnotes the form of lists."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if isinstance(obj, griffe.Function):
            text = RETURNS.sub(lambda found: _typed(found[0], obj.returns), text)
        text = re.sub(r"^\[\^(\d+)\]: ", r"\1. ", text, flags=re.MULTILINE)
        obj.docstring.value = re.sub(r"\[\^(\d+)\]", r"<sup>\1</sup>", text)


def _typed(returned: str, annotation: Any) -> str:
    """Put the type above what is said of the value."""
    return f"{annotation}\n{textwrap.indent(returned, '    ')}"
