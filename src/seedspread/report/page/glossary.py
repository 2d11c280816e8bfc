"""The glossary of the page."""

# The last four are the paper's.
GLOSSARY = (
    (
        "variance ratio",
        "the variance over seeds under the one arm, divided by that under the other; 1 is no change",
    ),
    (
        "each seed counted once",
        "runs of one seed that differ in little else resemble each other; they count as one, not as several: "
        "the seed is the unit",
    ),
    ("arm, block", "what is compared, and a further setting in which every seed is run again"),
    ("Holm", "p values made larger, because there was more than one chance to find something"),
    (
        "clamp, subtract",
        "two ways to apply a margin m to the similarity s of a positive pair: min(s + m, 1), which cuts the "
        "gradient where s + m > 1; or a shift that moves no gradient",
    ),
    ("detach, direct", "two ways to keep the softmax stable, with the same gradient but for rounding"),
    (
        "CAR",
        "clamp activation rate: the share of positive pairs with s + m > 1; in runs that do not clamp it is "
        "would-be, what the margin would cut",
    ),
    (
        "collapsed",
        "a run that is no better than the largest class, or sees all images alike: it failed to train",
    ),
)
