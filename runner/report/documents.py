"""Every format that a report can be written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.csv_table import write_csv
from runner.report.html import write_html
from runner.report.json_document import write_json
from runner.report.markdown import write_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.report.model import CampaignReport

WRITERS: Mapping[str, tuple[str, Callable[[CampaignReport], str]]] = {
    "md": (".md", write_markdown),
    "html": (".html", write_html),
    "json": (".json", write_json),
    "csv": (".csv", write_csv),
}
"""By name of the format: the file's suffix, and the function that writes it.

Files of them are UTF-8 and written without translating line ends: the CSV table has its own.
"""
