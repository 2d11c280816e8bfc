"""The report of a store or a table; it computes no statistic.

`load.py` reads it into the settings of `extension.py`, where other packages may add to them; `exhibits.py`
and `layers.py` make figures and tables, `page.py` the page, and `server.py` keeps a live one up to date.
"""
