"""What a run under way has logged so far."""

from pathlib import Path

from seedspread.runners.own_code import curves_so_far


def test_curves_of_a_run_under_way_are_read_as_they_grow(tmp_path: Path) -> None:
    values = tmp_path / "values.jsonl"
    assert curves_so_far(tmp_path, ["lr"]) == {}
    values.write_text('{"loss": 2.0, "epoch": 0, "lr": 0.1}\n{"loss": 1.')
    assert curves_so_far(tmp_path, ["lr"]) == {"loss": [2.0]}
    with values.open("a") as file:
        file.write('5, "epoch": 1}\n{"loss": null}\n{"loss": 1.0}\n')
    assert curves_so_far(tmp_path, ["lr"]) == {"loss": [2.0, 1.5, 1.0]}
    values.write_text('{"loss": 3.0}\n')  # another attempt
    assert curves_so_far(tmp_path, ["lr"]) == {"loss": [3.0]}


def test_a_long_curve_keeps_its_shape_and_its_end(tmp_path: Path) -> None:
    count = 40_000
    (tmp_path / "values.jsonl").write_text("".join(f'{{"loss": {i}}}\n' for i in range(count)))
    loss = curves_so_far(tmp_path, [])["loss"]
    assert len(loss) <= 100
    assert loss == sorted(loss)
    assert loss[-1] == count - 1


def test_a_link_among_what_is_logged_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"loss": 1.0}\n')
    (tmp_path / "values.jsonl").symlink_to(tmp_path / "secret")
    assert curves_so_far(tmp_path, []) == {}
