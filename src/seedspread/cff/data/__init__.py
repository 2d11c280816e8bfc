"""The datasets, the embedded sample, augmentation, the batch loader."""
