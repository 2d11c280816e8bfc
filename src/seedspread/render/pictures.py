"""Which pictures can be written, and what goes with them: what is known of them before any is drawn."""

from collections.abc import Callable
from pathlib import Path

from seedspread.errors import MissingExtraError, SeedspreadError, reason, require_extra
from seedspread.render.chart import Chart

FORMATS = ("pdf", "svg", "png")


class PlotError(SeedspreadError):
    """A picture cannot be drawn or written as requested."""


def check_picture(path: Path) -> None:
    """Checks that it can be drawn, and the file's name, before anything is computed."""
    require_extra("report", f"the picture {path}", "matplotlib")
    if path.suffix[1:].lower() not in FORMATS:
        raise PlotError(f"{path} must end in {', '.join(f'.{form}' for form in FORMATS)}")


def write_picture(chart: Chart, path: Path) -> None:
    """Writes one picture where a user asked for it; its format follows from the file's name."""
    check_picture(path)
    from seedspread.render.with_matplotlib import save_chart  # noqa: PLC0415 - slow, and not in the base

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_chart(chart, path)
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {reason(error)}") from None


def notebook_svg(make: Callable[[], Chart]) -> str:
    """A chart for a notebook; nothing where there is too much to draw, or nothing to draw it with."""
    try:
        from seedspread.render.with_matplotlib import static_svg  # noqa: PLC0415 - slow, and not in the base

        return static_svg(make())
    except (PlotError, MissingExtraError):
        return ""
