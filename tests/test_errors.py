"""What the refusal of a name says of those that there are."""

import pytest

from seedspread.errors import did_you_mean, there_are

NAMES = ["accuracy", "loss"]


@pytest.mark.parametrize("name", ["acuracy", "acc"])
def test_a_name_is_answered_with_the_nearest(name: str) -> None:
    assert did_you_mean(name, NAMES) == "; did you mean 'accuracy'?"
    assert there_are(name, NAMES) == "did you mean 'accuracy'? There are accuracy, loss"


def test_where_nothing_is_near_nothing_is_proposed() -> None:
    assert did_you_mean("x", NAMES) == ""
    assert there_are("x", NAMES) == "there are accuracy, loss"
