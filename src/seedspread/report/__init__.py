"""The report of a store or a table; it computes no statistic.

`load.py` reads what is reported on (`extension.py`); `figures.py`, `tables.py` and `layers.py`
register exhibits for sections (`sections.py`); `page.py` words the top of the page and writes it;
`server.py` keeps it up to date; packages add to it (`extension.py`).
"""
