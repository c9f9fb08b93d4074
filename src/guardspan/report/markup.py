"""HTML elements that cannot be broken out of: the standard library's serialiser escapes all text in them."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from guardspan.harmless import plain

Content = Element | str


def element(tag: str, *contents: Content, classes: str = "", **attributes: str) -> Element:
    """An element; text in it is made harmless, whoever wrote it."""
    made = Element(tag, {name.rstrip("_"): plain(value) for name, value in attributes.items()})
    if classes:
        made.set("class", classes)
    for content in contents:
        if isinstance(content, Element):
            made.append(content)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + plain(content)
        else:
            made.text = (made.text or "") + plain(content)
    return made


def table(heads: Iterable[str], rows: Iterable[Iterable[Content]], words: int = 1) -> Element:
    """A table whose first ``words`` columns are words, and the others numbers."""
    head = element(
        "tr", *(element("th", name, classes=_kind(place, words)) for place, name in enumerate(heads))
    )
    body = element("tbody")
    for row in rows:
        body.append(
            element("tr", *(element("td", cell, classes=_kind(n, words)) for n, cell in enumerate(row)))
        )
    return element("div", element("table", element("thead", head), body), classes="table")


def _kind(place: int, words: int) -> str:
    return "" if place < words else "number"


def html(*elements: Element) -> str:
    """The elements as HTML."""
    return "".join(tostring(each, encoding="unicode", method="html") for each in elements)
