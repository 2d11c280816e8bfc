"""Runs of one shape, trained layer by layer as one program: weights stacked, each run with its own numbers.

`plain.py` is the definition; this computes the same gradients sooner (see `block.py`). A batch goes through a
layer in slices. The loss needs the pooled features of the whole batch and nothing else of it: it gives the
gradient by all of them at once, and each slice takes its part back through the layer.

On a CPU with one thread a run's numbers are the same, to the bit, whichever runs it is stacked with, and if
it is alone; elsewhere runs are not stacked (`together.py`).
"""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from seedspread.data.loader import Batch
from seedspread.objective.stacked import StackedPairs, stacked_loss
from seedspread.training.block import Block, Embedding, block_weights, embed, embedding_weights, encode
from seedspread.training.encoder import Encoder, optimiser_of, slices
from seedspread.training.records import EpochSums

# Numbers of an attention matrix that go through a layer at once: runs are taken together up to this size.
_AT_ONCE = 2**21


class Stack:
    """Several encoders in one; the models' parameters become views of the stack's.

    Attributes:
        encoders: of the runs, which differ in seeds and margins only.
        layers: each layer's parameters by name, `(R, ...)`.
    """

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self.encoders = encoders
        self.layers = [_stacked(layers) for layers in zip(*(e.model.layers for e in encoders), strict=True)]
        self._config = encoders[0].config
        # Over each run's own parameters: an element's place in a vector register then does not depend on R.
        self._own = [
            [list(encoder.model.layers[layer].parameters()) for encoder in encoders]
            for layer in range(len(self.layers))
        ]
        self._optimisers = [
            optimiser_of(self._config, [parameter for run in own for parameter in run]) for own in self._own
        ]

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains every run on its batch and adds to its epoch's sums; without `update` it only looks."""
        tokens = torch.stack([batch.images for batch in batches])
        pairs = StackedPairs.of(torch.stack([batch.labels for batch in batches]), torch.float32)
        positive_pairs = pairs.pairs
        for layer, optimiser in enumerate(self._optimisers):
            for parameter in self.layers[layer].values():
                parameter.grad = None
            passes = self._forward(layer, tokens)
            specs = [encoder.losses[layer].spec for encoder in self.encoders]
            found = stacked_loss(torch.cat([one.pooled() for one in passes]), pairs, specs)
            # What is handed on is computed before the step.
            if layer + 1 < len(self.layers):
                tokens = torch.cat([one.handed_on() for one in passes])
            for one, gradient in zip(passes, torch.split(found.gradient, len(passes[0].tokens)), strict=True):
                one.backward(gradient)
            norms = _norms(self.layers[layer])
            rates = found.saturated / positive_pairs
            for run, own in enumerate(sums):
                own.add_layer(layer, number, found.loss[run], norms[run], rates[run], found.histogram[run])
            if update:
                self._hand_out(layer)
                optimiser.step()
        for run, own in enumerate(sums):
            own.end_batch(positive_pairs[run], tokens.shape[1])

    def _forward(self, layer: int, tokens: Tensor) -> "list[_Pass]":
        model, size = self._config.model, min(self._config.runtime.slice_images, tokens.shape[1])
        together = max(1, _AT_ONCE // (size * model.heads * model.tokens**2))
        last = layer + 1 == len(self.layers)
        return [
            _Pass(self.encoders[0], runs, part, hand_on=not last)
            for runs, part in zip(
                _parts(self.layers[layer], together), torch.split(tokens, together), strict=True
            )
        ]

    def _hand_out(self, layer: int) -> None:
        """Gives each run's parameters their part of the gradients, as views."""
        stacked = [parameter.grad for parameter in self.layers[layer].values()]
        for run, own in enumerate(self._own[layer]):
            for parameter, gradient in zip(own, stacked, strict=True):
                parameter.grad = None if gradient is None else gradient[run]

    def _of_run(self, layer: int, run: int) -> slice:
        """A run's parameters among those of a layer's optimiser."""
        count = len(self.layers[layer])
        return slice(run * count, (run + 1) * count)

    def tensors(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimisers, named as if it were alone."""
        return {
            name: tensor
            for layer, optimiser in enumerate(self._optimisers)
            for name, tensor in optimiser.tensors(f"optimiser.{layer}", self._of_run(layer, run)).items()
        }

    def load(self, checkpoints: Sequence[dict[str, Tensor]]) -> None:
        """Puts the optimisers back, from the checkpoints of all runs."""
        for layer, optimiser in enumerate(self._optimisers):
            for run, tensors in enumerate(checkpoints):
                optimiser.load(f"optimiser.{layer}", tensors, self._of_run(layer, run))


@cache
def _encode(compiled: bool) -> Callable[..., tuple[Tensor, Tensor | None]]:
    # One translation for each shape: a general one would depend on which shapes came first.
    return torch.compile(encode, dynamic=False) if compiled else encode


def _stacked(layers: Sequence[nn.Module]) -> dict[str, nn.Parameter]:
    """One layer's parameters of all runs; the modules' own become views of them."""
    named = [dict(layer.named_parameters()) for layer in layers]
    stacked = {name: nn.Parameter(torch.stack([own[name].detach() for own in named])) for name in named[0]}
    for run, own in enumerate(named):
        for name, parameter in own.items():
            parameter.data = stacked[name].data[run]
    return stacked


def _parts(parameters: dict[str, nn.Parameter], size: int) -> list[dict[str, Tensor]]:
    """The parameters of `size` runs at a time."""
    split = {name: torch.split(parameter, size) for name, parameter in parameters.items()}
    return [dict(zip(split, own, strict=True)) for own in zip(*split.values(), strict=True)]


def _norms(parameters: dict[str, nn.Parameter]) -> Tensor:
    """`(R,)`, the gradient norm of a layer (Eq. grad_norm) in each run, left on the device."""
    each = [
        torch.linalg.vector_norm(p.grad.flatten(1), dim=1) for p in parameters.values() if p.grad is not None
    ]
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

    def __init__(self, encoder: Encoder, named: dict[str, Tensor], tokens: Tensor, *, hand_on: bool) -> None:
        self.tokens = tokens
        self._config = config = encoder.config
        self._precision = encoder.precision
        embedding, block = embedding_weights(named), block_weights(named, config.model.heads)
        self._folded = [*(embedding or ()), *block]
        # The graph of a slice ends here; what reaches these is sent on to the parameters once.
        self._leaves = [weight.detach().requires_grad_() for weight in self._folded]
        self._slices = slices(config, tokens, dim=1)
        with torch.set_grad_enabled(not config.runtime.recompute):
            self._outputs = [self._forward(part, hand_on=hand_on) for part in self._slices]

    def _forward(self, part: Tensor, *, hand_on: bool) -> tuple[Tensor, Tensor | None]:
        model = self._config.model
        block = Block(*self._leaves[-len(Block._fields) :])
        if len(self._leaves) > len(block):
            part = embed(part, Embedding(*self._leaves[: -len(block)]), model.patch_size, self._precision)
        return _encode(self._config.runtime.compile)(
            part, block, model.heads, self._precision, hand_on=hand_on
        )

    def pooled(self) -> Tensor:
        """`(C, N, d)`, what the loss sees; no graph."""
        return torch.cat([pooled.detach() for pooled, _ in self._outputs], dim=1)

    def handed_on(self) -> Tensor:
        """`(C, N, T, d)`, the next layer's input; no graph."""
        return torch.cat([output for _, output in self._outputs if output is not None], dim=1)

    def backward(self, gradient: Tensor) -> None:
        """Adds to the parameters' gradients, from that by the pooled features, `(C, N, d)`."""
        parts = slices(self._config, gradient, dim=1)
        for part, by_pooled in zip(self._slices, parts, strict=True):
            # Taken out, so that a slice's graph is freed with it.
            pooled, _ = self._outputs.pop(0)
            if self._config.runtime.recompute:
                pooled, _ = self._forward(part, hand_on=False)
            _send_back([pooled], [by_pooled])
        _send_back(self._folded, [leaf.grad for leaf in self._leaves if leaf.grad is not None])
