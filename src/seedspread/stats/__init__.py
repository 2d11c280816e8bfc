"""Statistics of spread over seeds: arrays and plain values in, values out.

No file, no table, no words. Every function can be used alone on numpy arrays; those that compare two groups
take each as an `Arm`:

    import numpy as np
    from seedspread.stats.arms import Arm
    from seedspread.stats.scale.ratio import scale_ratio

    seeds, one_block = np.arange(8), np.zeros(8, int)
    rng = np.random.default_rng(0)
    wide = Arm("wide", 3 * rng.normal(size=8), one_block, seeds)
    narrow = Arm("narrow", rng.normal(size=8), one_block, seeds)
    scale_ratio(wide, narrow).interval
"""
