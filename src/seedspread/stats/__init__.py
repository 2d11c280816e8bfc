"""Statistics of spread over seeds: arrays and plain values in, values out.

No file, no table, no words. Every function can be used alone on numpy arrays; those that compare two groups
take each as a `Group`:

    import numpy as np
    from seedspread.stats.groups import Group
    from seedspread.stats.variance_ratio import robust_ratio

    rng = np.random.default_rng(0)
    wide, narrow = Group.of(3 * rng.normal(size=8)), Group.of(rng.normal(size=8))
    robust_ratio(wide, narrow).interval
"""
