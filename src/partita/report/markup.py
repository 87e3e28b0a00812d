"""HTML and SVG elements from Python calls: whatever is not markup already is escaped."""

from __future__ import annotations

import html
import re

#: What neither HTML nor XML may hold: control characters, surrogates and two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = ("meta", "img", "br", "rect", "line", "path")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Text as markup; characters that no page may hold become replacement characters.

    >>> escape("<a & b>")
    '&lt;a &amp; b&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)))


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """One element. Underscores in attribute names become hyphens; ``class_`` is ``class``.

    >>> element("a", "x < y", class_="k")
    '<a class="k">x &lt; y</a>'
    """
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_write(value))}"'
        for name, value in attributes.items()
    )
    if tag in _VOID and not children:
        return Markup(f"<{tag}{words}/>")
    return Markup(f"<{tag}{words}>{join(*children)}</{tag}>")


def join(*parts: str) -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup("".join(escape(part) for part in parts))


def _write(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"
