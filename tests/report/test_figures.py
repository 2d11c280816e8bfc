"""The figures of a report."""

from pathlib import Path

import plotly.graph_objects as go

from seedspread.render.web import panel_values
from seedspread.report.page import Report
from tests.report.helpers import made_store, material_of


def test_plotly_knows_every_field_of_every_figure(tmp_path: Path) -> None:
    made_store(tmp_path)
    charts = Report(material_of(tmp_path)).charts
    assert len(charts) >= 4
    for chart in charts:
        for panel in chart.panels:
            go.Figure(panel_values(panel))  # raises on a field that plotly does not have
