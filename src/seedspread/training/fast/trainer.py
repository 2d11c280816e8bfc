"""Runs of one shape, trained layer by layer as one program: weights stacked, each run with its own numbers.

`training/autograd.py` is the definition; this computes the same gradients sooner (see `block.py`). A batch
goes through a layer in slices. The loss needs the pooled features of the whole batch and nothing else of it:
it gives the gradient by all of them at once, and each slice takes its part back through the layer.

On a CPU with one thread a run's numbers are the same, to the bit, whichever runs it is stacked with, and if
it is alone; elsewhere runs are not stacked (`stacking.py`).
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from seedspread.data.loader import Batch
from seedspread.training.fast.block import (
    BlockWeights,
    EmbeddingWeights,
    embed,
    encode,
    folded_weights,
    layer_parameters,
    slices,
)
from seedspread.training.fast.loss import StackedPairs, stacked_loss
from seedspread.training.layerwise import LayerwiseModel, optimiser_of
from seedspread.training.records import EpochSums

# Numbers of an attention matrix that go through a layer at once: runs are taken together up to this size.
_AT_ONCE = 2**21


class StackedTrainer:
    """Trains several models in one; their parameters become views of the stack's.

    Attributes:
        models: of the runs, which differ in seeds and margins only.
        layers: each layer's parameters, `(R, ...)`, in the order of the model's own.
    """

    def __init__(self, models: Sequence[LayerwiseModel]) -> None:
        self.models = models
        self._config = models[0].config
        # By layer and run.
        self._own = list(zip(*(layer_parameters(model.vit) for model in models), strict=True))
        self.layers = [_stacked(runs) for runs in self._own]
        # Over each run's own parameters: an element's place in a vector register then does not depend on R.
        self._optimisers = [
            optimiser_of(self._config, [parameter for run in runs for parameter in run]) for runs in self._own
        ]

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains every run on its batch and adds to its epoch's sums; without `update` it only looks."""
        tokens = torch.stack([batch.images for batch in batches])
        pairs = StackedPairs.of(torch.stack([batch.labels for batch in batches]), torch.float32)
        positive_pairs = pairs.pairs
        for layer, optimiser in enumerate(self._optimisers):
            for parameter in self.layers[layer]:
                parameter.grad = None
            passes = self._forward(layer, tokens)
            specs = [model.losses[layer].spec for model in self.models]
            losses = stacked_loss(torch.cat([part.pooled() for part in passes]), pairs, specs)
            # What is handed on is computed before the step.
            if layer + 1 < len(self.layers):
                tokens = torch.cat([part.next_tokens() for part in passes])
            gradients = torch.split(losses.gradient, len(passes[0].tokens))
            for part, gradient in zip(passes, gradients, strict=True):
                part.backward(gradient)
            norms = _norms(self.layers[layer])
            rates = losses.saturated / positive_pairs
            for run, own in enumerate(sums):
                own.add_layer(layer, number, losses.loss[run], norms[run], rates[run], losses.histogram[run])
            if update:
                self._hand_out(layer)
                optimiser.step()
        for run, own in enumerate(sums):
            own.end_batch(positive_pairs[run], tokens.shape[1])

    def _forward(self, layer: int, tokens: Tensor) -> "list[_Pass]":
        model, size = self._config.model, min(self._config.runtime.micro_batch_size, tokens.shape[1])
        together = max(1, _AT_ONCE // (size * model.heads * model.tokens**2))
        last = layer + 1 == len(self.layers)
        return [
            _Pass(self.models[0], runs, part, return_tokens=not last)
            for runs, part in zip(
                _parts(self.layers[layer], together), torch.split(tokens, together), strict=True
            )
        ]

    def _hand_out(self, layer: int) -> None:
        """Gives each run's parameters their part of the gradients, as views."""
        stacked = [parameter.grad for parameter in self.layers[layer]]
        for run, own in enumerate(self._own[layer]):
            for parameter, gradient in zip(own, stacked, strict=True):
                parameter.grad = None if gradient is None else gradient[run]

    def _of_run(self, layer: int, run: int) -> slice:
        """A run's parameters among those of a layer's optimiser."""
        count = len(self.layers[layer])
        return slice(run * count, (run + 1) * count)

    def state_dict(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimisers, named as if it were alone."""
        return {
            name: tensor
            for layer, optimiser in enumerate(self._optimisers)
            for name, tensor in optimiser.state_dict(f"optimiser.{layer}", self._of_run(layer, run)).items()
        }

    def load_state_dict(self, run: int, state: dict[str, Tensor]) -> None:
        """Puts a run's part of the optimisers back."""
        for layer, optimiser in enumerate(self._optimisers):
            optimiser.load_state_dict(f"optimiser.{layer}", state, self._of_run(layer, run))


@cache
def _encode(compiled: bool) -> Callable[..., tuple[Tensor, Tensor | None]]:
    # One translation for each shape: a general one would depend on which shapes came first.
    return torch.compile(encode, dynamic=False) if compiled else encode


def _stacked(runs: Sequence[Sequence[nn.Parameter]]) -> list[nn.Parameter]:
    """One layer's parameters of all runs; the runs' own become views of them."""
    stacked = []
    for own in zip(*runs, strict=True):
        together = nn.Parameter(torch.stack([parameter.detach() for parameter in own]))
        for run, parameter in enumerate(own):
            parameter.data = together.data[run]
        stacked.append(together)
    return stacked


def _parts(parameters: Sequence[nn.Parameter], size: int) -> list[tuple[Tensor, ...]]:
    """The parameters of `size` runs at a time."""
    return list(zip(*(torch.split(parameter, size) for parameter in parameters), strict=True))


def _norms(parameters: Sequence[nn.Parameter]) -> Tensor:
    """`(R,)`, the gradient norm of a layer (Eq. grad_norm) in each run, left on the device."""
    each = [torch.linalg.vector_norm(p.grad.flatten(1), dim=1) for p in parameters if p.grad is not None]
    norms: Tensor = torch.linalg.vector_norm(torch.stack(each, dim=1), dim=1)
    return norms


def _send_back(outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """`torch.autograd.backward(outputs, gradients)`, which would load sympy to compare shapes."""
    both = zip(outputs, gradients, strict=True)
    scalar = torch.stack([(output * gradient).sum() for output, gradient in both]).sum()
    scalar.backward()  # type: ignore[no-untyped-call]


class _Pass:
    """A few runs on their way through a layer and back, slice by slice.

    Attributes:
        tokens: `(C, N, ...)`, the layer's input.
    """

    def __init__(
        self, model: LayerwiseModel, parameters: Sequence[Tensor], tokens: Tensor, *, return_tokens: bool
    ) -> None:
        self.tokens = tokens
        self._config = config = model.config
        self._precision = model.precision
        embedding, block = folded_weights(parameters, config.model.heads)
        self._folded = [*(embedding or ()), *block]
        # The graph of a slice ends here; what reaches these is sent on to the parameters once.
        self._leaves = [weight.detach().requires_grad_() for weight in self._folded]
        self._slices = slices(config, tokens, dim=1)
        with torch.set_grad_enabled(not config.runtime.activation_checkpointing):
            self._outputs = [self._forward(part, return_tokens=return_tokens) for part in self._slices]

    def _forward(self, part: Tensor, *, return_tokens: bool) -> tuple[Tensor, Tensor | None]:
        model = self._config.model
        block = BlockWeights(*self._leaves[-len(BlockWeights._fields) :])
        if len(self._leaves) > len(block):
            part = embed(
                part, EmbeddingWeights(*self._leaves[: -len(block)]), model.patch_size, self._precision
            )
        return _encode(self._config.runtime.compile)(
            part, block, model.heads, self._precision, return_tokens=return_tokens
        )

    def pooled(self) -> Tensor:
        """`(C, N, d)`, what the loss sees; no graph."""
        return torch.cat([pooled.detach() for pooled, _ in self._outputs], dim=1)

    def next_tokens(self) -> Tensor:
        """`(C, N, T, d)`, the next layer's input; no graph."""
        return torch.cat([output for _, output in self._outputs if output is not None], dim=1)

    def backward(self, gradient: Tensor) -> None:
        """Adds to the parameters' gradients, from that by the pooled features, `(C, N, d)`."""
        parts = slices(self._config, gradient, dim=1)
        for part, grad_pooled in zip(self._slices, parts, strict=True):
            # Taken out, so that a slice's graph is freed with it.
            pooled, _ = self._outputs.pop(0)
            if self._config.runtime.activation_checkpointing:
                pooled, _ = self._forward(part, return_tokens=False)
            _send_back([pooled], [grad_pooled])
        _send_back(self._folded, [leaf.grad for leaf in self._leaves if leaf.grad is not None])
