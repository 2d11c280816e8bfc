"""The native way to train layer by layer: a kernel in C++ for a whole layer and its loss.

`model.py`, `objective/plain.py` and `training/autograd.py` are the definition. `build.py` needs no torch.
"""
