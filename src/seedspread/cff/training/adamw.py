"""AdamW over torch's own function of it, with a state that goes into a checkpoint by name.

`torch.optim.AdamW` makes the same call. To make one imports torch's compiler first, which takes longer than
loading torch itself and would be paid for by every worker and every short run.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

_EPSILON = 1e-8


class AdamW:
    """The fused optimiser.

    Attributes:
        parameters: what it moves.
        learning_rate: constant.
        betas: of the means of gradients and of their squares.
        weight_decay: decoupled.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        learning_rate: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.parameters = parameters
        self.learning_rate, self.weight_decay, self.betas = learning_rate, weight_decay, betas

    # Made when they are first needed: who only looks at gradients takes no step.

    @cached_property
    def _means(self) -> list[Tensor]:
        return [torch.zeros_like(p) for p in self.parameters]

    @cached_property
    def _squares(self) -> list[Tensor]:
        return [torch.zeros_like(p) for p in self.parameters]

    @cached_property
    def _steps(self) -> list[Tensor]:
        return [torch.zeros((), dtype=torch.float32, device=p.device) for p in self.parameters]

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradients(self) -> list[Tensor]:
        """Those that there are."""
        return [gradient for p in self.parameters if (gradient := p.grad) is not None]

    @torch.no_grad()
    def step(self) -> None:
        """Moves every parameter that has a gradient."""
        indices = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        adamw(
            [self.parameters[i] for i in indices],
            self.gradients(),
            [self._means[i] for i in indices],
            [self._squares[i] for i in indices],
            [],
            [self._steps[i] for i in indices],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            eps=_EPSILON,
            maximize=False,
        )

    def state_dict(self, prefix: str, some: slice = slice(None)) -> dict[str, Tensor]:
        """Copies of the state of some of the parameters, by their numbers among these."""
        return {f"{prefix}.{name}": tensor.clone() for name, tensor in self._state(some).items()}

    def load_state_dict(self, prefix: str, state: dict[str, Tensor], some: slice = slice(None)) -> None:
        """Puts the state of some of the parameters back."""
        for name, tensor in self._state(some).items():
            tensor.copy_(state[f"{prefix}.{name}"])

    def _state(self, some: slice) -> dict[str, Tensor]:
        kinds = {"exp_avg": self._means, "exp_avg_sq": self._squares, "step": self._steps}
        return {f"{i}.{kind}": tensor for kind, held in kinds.items() for i, tensor in enumerate(held[some])}
