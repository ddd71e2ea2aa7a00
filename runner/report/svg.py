"""A drawing made fit for a page that says the same twice and loads nothing.

Of a tree of SVG the shapes and the texts stay, without scripts, styles, random ids, dates, tooltips or hidden
texts; coordinates have one decimal, which is what a screen can show, and the same on every machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT_TAGS = frozenset({"circle", "g", "path", "rect", "text"})
_DROPPED_PARTS = frozenset({"background", "tooltip-overlay"})
_DROPPED_CLASSES = frozenset({"reactive", "tooltip-trigger", "nofill", "always_show"})
_KEPT_ATTRIBUTES = frozenset(
    ("class", "cx", "cy", "d", "height", "r", "text-anchor", "transform", "viewBox", "width", "x", "y")
)
_LONG_NUMBER = re.compile(r"-?\d+\.\d+")


def keep_shapes(node: ET.Element, kinds: Sequence[str]) -> None:
    """Drop everything of a drawing's tree but shapes and texts.

    Args:
        node: the tree, which is changed.
        kinds: by a series' number, the class that gives it its colour.
    """
    for child in list(node):
        if _is_dropped(child):
            node.remove(child)
            continue
        keep_shapes(child, kinds)
        child.attrib = {
            key: _LONG_NUMBER.sub(_round, value)
            for key, value in child.attrib.items()
            if key in _KEPT_ATTRIBUTES and value
        }
        classes = [name for name in child.get("class", "").split() if name not in _DROPPED_CLASSES]
        if "series" in classes:
            classes = ["series", kinds[_find_series(classes)]]
        elif "value" in classes:
            # Pygal sets the middle of a text on the end of its bar.
            child.set("text-anchor", "start")
        if classes:
            child.set("class", " ".join(classes))
        if child.tag == "g" and not len(child):
            node.remove(child)


def frame_bars(root: ET.Element, offset: float) -> None:
    """Show no more of a drawing than its bars.

    Args:
        root: the drawing, which is changed.
        offset: where its bars' coordinates begin, to the right and down.
    """
    bars = [[float(bar.get(name, 0)) for name in ("x", "y", "width", "height")] for bar in root.iter("rect")]
    left, top = min(bar[0] for bar in bars), min(bar[1] for bar in bars)
    right = max(bar[0] + bar[2] for bar in bars)
    root.set("viewBox", f"{left + offset:g} {top + offset:g} {right - left:g} {bars[0][3]:g}")


def write_svg(root: ET.Element, name: str) -> str:
    """Return a drawing as SVG on one line, with a name for screen readers."""
    root.attrib = {"class": "chart", "viewBox": root.get("viewBox", ""), "role": "img", "aria-label": name}
    return ET.tostring(root, encoding="unicode")


def _is_dropped(node: ET.Element) -> bool:
    return node.tag not in _KEPT_TAGS or not _DROPPED_PARTS.isdisjoint(node.get("class", "").split())


def _find_series(classes: Sequence[str]) -> int:
    return next(int(name.removeprefix("serie-")) for name in classes if name.startswith("serie-"))


def _round(found: re.Match[str]) -> str:
    # Adding nothing turns minus nothing into nothing.
    return f"{round(float(found[0]), 1) + 0.0:g}"
