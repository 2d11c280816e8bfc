"""The report of a store or a table; it computes no statistic.

`load.py` reads what is reported on (`extension.py`); `exhibits.py` and `layers.py`
make the figures and tables of its sections; `page.py` words the top of the page and writes it;
`server.py` keeps it up to date; packages add to it (`extension.py`).
"""
