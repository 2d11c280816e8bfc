"""Levels as text."""

from seedspread.runs.levels import block_name, joined_levels, stratum_name


def test_a_level_with_a_comma_is_named_like_any_other() -> None:
    assert stratum_name(["depth", "arm"], ("2", "ours, no aug")) == "depth = 2, arm = ours, no aug"
    assert stratum_name(["arm"], ("ours, no aug",)) == "arm = ours, no aug"
    assert block_name(["depth", "arm"], ("2", "ours, no aug")) == "depth = 2, ours, no aug"
    assert stratum_name([], ()) == block_name([], ()) == ""


def test_levels_in_a_file_can_be_told_apart() -> None:
    assert joined_levels(("2", "ours, no aug")).split(", ") == ["2", "ours,\u00a0no aug"]
    assert joined_levels(("ours, no aug",)) == "ours, no aug"


def test_a_data_set_is_named_by_its_name_alone_however_the_column_is_spelt() -> None:
    for factor in ("dataset", "Data set", "data_set", "DataSet"):
        assert stratum_name([factor], ("CIFAR-10",)) == "CIFAR-10"
    assert stratum_name(["net kind"], ("small",)) == "net kind = small"
