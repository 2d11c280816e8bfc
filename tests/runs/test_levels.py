"""Levels as text, and back."""

from hypothesis import given
from hypothesis import strategies as st

from seedspread.runs.levels import block_name, joined_levels, split_levels, stratum_name

_LEVELS = st.lists(st.text("ab,", min_size=1).map(str.strip), min_size=1, max_size=4)


@given(_LEVELS)
def test_joined_levels_are_told_apart_again_whatever_commas_they_have(levels: list[str]) -> None:
    levels = [level.replace(",", ", ").strip() for level in levels]
    split = split_levels(joined_levels(levels), len(levels))
    assert [level.replace("\u00a0", " ") for level in split] == levels


def test_a_level_with_a_comma_is_named_like_any_other() -> None:
    both = joined_levels(["2", "ours, no aug"])
    assert stratum_name(["depth", "arm"], both) == "depth = 2, arm = ours,\u00a0no aug"
    assert stratum_name(["arm"], "ours, no aug") == "arm = ours, no aug"
    assert block_name(["depth", "arm"], both) == "depth = 2, ours,\u00a0no aug"


def test_a_data_set_is_named_by_its_name_alone_however_the_column_is_spelt() -> None:
    for factor in ("dataset", "Data set", "data_set", "DataSet"):
        assert stratum_name([factor], "CIFAR-10") == "CIFAR-10"
    assert stratum_name(["net kind"], "small") == "net kind = small"
