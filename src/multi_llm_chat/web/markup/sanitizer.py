"""The last gate before the browser: an allow-list of elements and attributes.

Rules:
1. What is not on the list is not in the page, whatever the parser before it did.
2. Nothing on the list can fetch anything: no pictures, fonts, frames or styles. Links leave only when a person
   follows them, and tell nobody where they came from.
"""

from typing import Final

import nh3

_MATH: Final = {
    "math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup",
    "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd",
    "menclose", "mpadded", "mphantom", "mstyle", "merror",
}  # fmt: skip
_TEXT: Final = {
    "a", "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button", "figure",
    "figcaption", "sup", "sub", "del", "kbd",
}  # fmt: skip
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "a": {"href", "title", "class"},
    "ol": {"start"},
    "button": {"type", "class", "data-action", "title", "aria-label"},
    "math": {"display"},
    "mo": {"stretchy", "fence", "separator", "form", "minsize", "maxsize", "lspace", "rspace"},
    "mi": {"mathvariant"},
    "mspace": {"width", "height", "depth", "linebreak"},
    "mtable": {"columnalign", "columnlines", "rowlines", "rowspacing", "columnspacing", "displaystyle"},
    "mtd": {"columnalign", "columnspan", "rowspan"},
    "mfrac": {"linethickness"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "menclose": {"notation"},
    "mover": {"accent"},
    "munder": {"accentunder"},
} | {
    name: {"class"}
    for name in ("span", "div", "code", "pre", "figure", "figcaption", "ul", "li", "th", "td", "p")
}  # fmt: skip

_CLEANER: Final = nh3.Cleaner(
    tags=_TEXT | _MATH,
    clean_content_tags={"script", "style"},
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    set_tag_attribute_values={"a": {"target": "_blank"}},
    strip_comments=True,
)


def clean_html(html: str) -> str:
    """The HTML with nothing in it that is not allowed."""
    return _CLEANER.clean(html)
