"""Conversion of docstrings from River's style to the numpydoc style that griffe parses.

River's sections of returned values have no type, and griffe would read their text as the type.
River cites sources by Markdown footnotes, but a footnote works only within its own section.
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
        """Add the types of returned values, and turn footnotes into lists."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if isinstance(obj, griffe.Function):
            text = RETURNS.sub(lambda found: _typed(found[0], obj.returns), text)
        text = re.sub(r"^\[\^(\d+)\]: ", r"\1. ", text, flags=re.MULTILINE)
        obj.docstring.value = re.sub(r"\[\^(\d+)\]", r"<sup>\1</sup>", text)


def _typed(returned: str, annotation: Any) -> str:
    """Return a description of a returned value below its type."""
    return f"{annotation}\n{textwrap.indent(returned, '    ')}"
