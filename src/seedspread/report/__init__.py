"""The report: tables, figures and the page. It reads stores and audits, and computes no statistic."""
