"""The report of a store or a table; it computes no statistic.

`load.py` reads a store or a table into the settings of `extension.py`, which also defines what other
packages may add; `exhibits.py` and `layers.py` make figures and tables; `page.py` makes the page, and
`server.py` keeps a live one up to date.
"""
