"""Charts in their two forms."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from seedspread.render.chart import FORMATS, Axis, Chart, Mark, Panel, PlotError, chart_csv, log_ticks
from seedspread.render.web import notebook_picture, panel_values, to_html
from seedspread.render.with_matplotlib import save_chart

ODD = "<script>alert(1)</script>"

MARKS = (
    Mark("band", "a", (1, 2), (1, 1), (0.5, 0.5), (2, 2), color="#0072B2"),
    Mark("line", "a", (1, 2, 3), (1, 1, 2), legend=True),
    Mark("dots", ODD, (1, 2), (1, np.nan), labels=(f"{ODD}\nseed 1", "two"), legend=True),
    Mark("interval", "c", (2.0,), (1.0,), (0.1,), (np.inf,)),
    Mark("rule", "", (1, 1), (0, 2)),
)
CHART = Chart(
    "c", "title", "caption", "alt", (Panel(ODD, Axis("x", log=True, range=(0.5, 10)), Axis("y"), MARKS),)
)


def written(chart: Chart, folder: Path) -> list[bytes]:
    paths = [folder / f"{chart.id}.{form}" for form in FORMATS]
    save_chart(chart, *paths)
    return [path.read_bytes() for path in paths]


def test_plotly_knows_every_field() -> None:
    go.Figure(panel_values(CHART.panels[0]))  # raises on a field that plotly does not have


def test_the_frame_of_a_chart_escapes_names() -> None:
    text = to_html(Chart("c", ODD, "caption", ODD, CHART.panels))
    assert "<script>" not in text
    assert 'data-chart="c"' in text


def test_the_legend_of_a_chart_is_text() -> None:
    assert 'data-name="&lt;script&gt;alert(1)&lt;/script&gt;"' in to_html(CHART)


def test_a_notebook_shows_a_picture_or_nothing_if_there_is_too_much_to_draw() -> None:
    assert notebook_picture(lambda: CHART).startswith(
        '<img style="max-width:100%" alt="alt" src="data:image/png;'
    )

    def too_much() -> Chart:
        raise PlotError("not legible")

    assert notebook_picture(too_much) == ""


def test_the_values_of_a_figure_are_a_table() -> None:
    rows = list(csv.reader(io.StringIO(chart_csv(CHART))))
    assert rows[0] == ["panel", "series", "kind", "x", "y", "low", "high", "label"]
    assert [ODD, "a", "band", "1", "1", "0.5", "2", ""] in rows
    assert rows[6] == [ODD, ODD, "dots", "1", "1", "", "", f"{ODD}; seed 1"]
    assert not any(row[2] == "rule" for row in rows)


def test_where_numbers_come_from_is_in_the_metadata_and_not_in_the_picture(tmp_path: Path) -> None:
    chart = replace(CHART, scale="84 runs & more")
    pdf, svg, png = written(chart, tmp_path)
    assert b"title. caption. Data: 84 runs &amp; more." in svg
    assert b"84 runs" not in svg[svg.index(b"</metadata>") :]
    assert b"Data: 84 runs & more" in pdf
    assert b"Data: 84 runs & more" in png


def test_names_are_text_in_plotly_too() -> None:
    values = panel_values(CHART.panels[0])
    assert values["layout"]["title"]["text"] == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert values["data"][2]["text"][0] == "&lt;script&gt;alert(1)&lt;/script&gt;<br>seed 1"


def test_what_is_not_finite_is_left_out_and_infinite_ends_stop_at_the_edge() -> None:
    values = panel_values(CHART.panels[0])
    assert values["data"][2]["y"] == [1.0, None]
    assert values["data"][3]["error_x"]["array"] == [8.0]
    assert values["data"][3]["error_x"]["arrayminus"] == [1.5]
    assert values["layout"]["xaxis"]["range"] == pytest.approx([np.log10(0.5), 1.0])


def test_pictures_are_written_and_the_same_twice(tmp_path: Path) -> None:
    first = written(CHART, tmp_path)
    assert [content[:4] for content in first] == [b"%PDF", b"<?xm", b"\x89PNG"]
    assert first == written(CHART, tmp_path)
    assert b"&lt;script&gt;" in first[1]


def test_a_mark_with_more_labels_than_dots_is_refused() -> None:
    with pytest.raises(ValueError, match="equally many"):
        Mark("dots", "a", (1.0,), (1.0,), labels=("x", "y"))


@pytest.mark.parametrize(("low", "high"), [(0.9, 2.1), (0.001, 1000), (1e-9, 1e9), (0.3, 40)])
def test_ticks_of_ratios_are_few_round_and_inside(low: float, high: float) -> None:
    places = [place for place, _ in log_ticks(low, high)]
    assert 2 <= len(places) <= 7
    assert all(low <= place <= high for place in places)
