"""The glossary of the page."""

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
)
