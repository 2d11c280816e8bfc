"""The fast way to train layer by layer: several runs as one program, gradients in closed form.

`model.py`, `objective/plain.py` and `training/autograd.py` are the definition. Nothing outside needs more of
this folder than what is named here.
"""

from seedspread.cff.training.fast.trainer import StackedTrainer

__all__ = ["StackedTrainer"]
