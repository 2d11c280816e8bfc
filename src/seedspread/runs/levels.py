"""Levels of factors as text, the same wherever they are compared or shown."""


def level_name(level: object) -> str:
    """A level's text: 1 and 1.0 are the same level; nothing for what is missing."""
    if level is None or level != level:  # NaN is not equal to itself  # noqa: PLR0124
        return ""
    text = str(level).strip()
    integer, dot, fraction = text.partition(".")
    return integer if dot and integer.lstrip("-").isdigit() and not fraction.strip("0") else text
