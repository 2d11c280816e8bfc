"""Make every picture of the documentation again, and record what each was drawn from: `make figures`.

    python tools/figures.py [NAME ...]

Pictures that take a training or a long computation are drawn from measurements in a .csv beside them.
`docs/images/figures.json` records a digest of each picture's data and one of its file: a test compares both
with the current ones.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.growth import growth_chart
from evidence.page import charts as evidence_charts
from seedspread import audit
from seedspread.cff.monitor import saturation_chart
from seedspread.render.chart import NEUTRAL, Axis, Chart, Mark, Panel, floats, log_ticks, ordered_color
from seedspread.render.with_matplotlib import write_picture

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "images" / "figures.json"


def _audit() -> Chart:
    table = ROOT / "examples" / "paper-cifar10.csv"
    return audit(table, "accuracy", "margin_type", "subtract", "stability").chart()


def _measured(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "docs" / "images" / f"{name}.csv")


def _growth() -> Chart:
    """Draw measurements of `python benchmarks/growth.py --json`."""
    rows = _measured("growth").to_dict("records")
    return growth_chart([{str(name): value for name, value in row.items()} for row in rows])


def _monitor() -> Chart:
    """Draw measurements of `python examples/arcface_monitor.py`, from its monitor's `to_frame`."""
    return saturation_chart(_measured("arcface-monitor"))


def _over_training() -> Chart:
    """Draw measurements that docs/fidelity.md describes."""
    table = _measured("mini-over-training")
    epochs = floats(table["epoch"])
    layers = [str(name) for name in table.columns if str(name).startswith("layer")]
    colors = [ordered_color(k, len(layers)) for k in range(len(layers))]
    ratios = [
        Mark("line", name, epochs, floats(table[name]), color=colors[k], symbol=k, legend=True)
        for k, name in enumerate(layers)
    ]
    one = Mark("rule", "", (epochs[0], epochs[-1]), (1.0, 1.0))
    y = Axis("Norm, subtract / clamp", log=True, ticks=log_ticks(0.1, 2.0), range=(0.1, 2.0))
    rate = Mark("line", "rate", epochs, floats(table["rate"]), color=NEUTRAL)
    panels = (
        Panel("", Axis("Epoch"), y, (one, *ratios)),
        Panel("", Axis("Epoch"), Axis("Clamped at layer 0 (%)", range=(0.0, 100.0)), (rate,)),
    )
    return Chart("mini-over-training", "", "", "", panels, height=0.85)


# Every picture in the documentation outside the evidence, and the function that makes it.
PICTURES: dict[str, Callable[[], Chart]] = {
    "docs/images/audit.png": _audit,
    "docs/images/growth.png": _growth,
    "docs/images/arcface-monitor.png": _monitor,
    "docs/images/mini-over-training.png": _over_training,
}


def every_chart() -> dict[str, Chart]:
    """Return the chart of every picture, by the picture's path."""
    own = {name: make() for name, make in PICTURES.items()}
    return own | {f"docs/evidence/{name}.png": chart for name, chart in evidence_charts().items()}


def digest(chart: Chart) -> str:
    """Return a digest of a chart's content, with numbers to four digits, as machines round differently."""
    shown = json.dumps(_rounded(asdict(replace(chart, id=""))), sort_keys=True)
    return hashlib.sha256(shown.encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items() if key != "labels"}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main() -> None:
    """Draw all pictures, or those named, and record them."""
    charts = every_chart()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name, chart in charts.items():
        if sys.argv[1:] and Path(name).stem not in sys.argv[1:]:
            continue
        write_picture(chart, ROOT / name)
        record[name] = {"data": digest(chart), "file": file_digest(ROOT / name)}
        print(name)
    kept = {name: record[name] for name in sorted(record) if name in charts}
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
