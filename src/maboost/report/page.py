"""Rendering of the page from its subject."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from importlib.metadata import version
from typing import Any

from maboost._version import __version__
from maboost.report import metric_sections, round_sections, row_sections, sections, summary
from maboost.report.blocks import Section
from maboost.report.subject import Subject
from maboost.runtime.optional_packages import missing_package

__all__ = ["page"]

_CODE = re.compile(r"`([^`]+)`")


def page(subject: Subject) -> str:
    """Return the report as HTML."""
    environment = _environment()
    script, style = (_asset(environment, name) for name in ("report.js", "report.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    from markupsafe import Markup

    return str(
        environment.get_template("report.html").render(
            title=summary.title(subject),
            lead=summary.lead(subject),
            tiles=summary.tiles(subject),
            summary=summary.paragraphs(subject),
            sections=_sections(subject),
            version=__version__,
            script=Markup(script),
            script_hash=digest,
            style=Markup(style),
        )
    )


def _sections(subject: Subject) -> list[Section]:
    found = [
        sections.certification_section(subject),
        metric_sections.metric_section(subject),
        sections.data_section(subject),
        round_sections.error_section(subject),
        row_sections.margin_section(subject),
        round_sections.distribution_section(subject),
        round_sections.source_section(subject),
        row_sections.suspect_section(subject),
        sections.importance_section(subject),
        sections.certificate_section(subject),
        sections.parameter_section(subject, _versions()),
    ]
    return [section for section in found if section is not None]


def _versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "maboost": __version__,
        **{name: version(name) for name in packages},
        "Python": platform.python_version(),
        "machine": platform.machine(),
    }


def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(missing_package("the report", "jinja2", "report")) from error
    environment = Environment(
        loader=PackageLoader("maboost.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["breakable"] = _breakable
    return environment


def _asset(environment: Any, name: str) -> str:
    """Return a file that is put into the page unchanged."""
    source, _, _ = environment.loader.get_source(environment, name)
    return str(source)


def _breakable(name: str) -> Any:
    """Return a name escaped, with possible line breaks after underscores."""
    from markupsafe import Markup, escape

    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _prose(words: str) -> Any:
    """Return text escaped, with code between backticks."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(words))))
