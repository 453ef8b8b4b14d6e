"""Formulas as MathML, which browsers render themselves: no script, no fonts, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(tex: str, *, as_block: bool = False) -> str:
    r"""TeX as MathML.

    The converter reads the digits of ``\frac12`` as one number, so they get their braces first; and
    ``\{`` should be as high as a parenthesis, not as high as its line.
    """
    tex = re.sub(r"(\\[td]?frac)\s*(\d)", r"\1{\2}", tex)
    tex = re.sub(r"(\\[td]?frac\{\d\})\s*(\w)", r"\1{\2}", tex)
    found = tex2mathml(tex, as_block=as_block)
    return re.sub(r"<mo>([{}⟨⟩])</mo>", r'<mo stretchy="false">\1</mo>', found)


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return node.astext()


def inline(writer: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """A formula on a line of its own, which scrolls where the window is too narrow."""
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
