"""The report; it reads stores and audits, and computes no statistic.

`material/` is what is reported on, `answer.py` the answer, `tables/` and `figures/` what it rests on, `page/`
the page and the files.
"""
