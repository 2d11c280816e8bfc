"""Runs of one shape, trained layer by layer as one program: weights stacked, each run with its own numbers.

`training/autograd.py` is the definition; this computes the same gradients sooner (see `block.py`). A batch
goes through a layer in slices. The loss needs the pooled features of the whole batch and nothing else of it:
it gives the gradient by all of them at once, and each slice takes its part back through the layer.

On a CPU with one thread a run's numbers are the same, to the bit, whichever runs it is stacked with, and if
it is alone; elsewhere runs are not stacked (`stacking.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor, nn

from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES
from seedspread.cff.training.fast.block import (
    BlockWeights,
    EmbeddingWeights,
    embed,
    embedding_gradients,
    embedding_weights,
    encode,
    folded_weights,
    layer_parameters,
    parts,
    query_scale,
    slices,
    stacked_parameters,
    unfolded_gradients,
)
from seedspread.cff.training.fast.block import features as pooled_features
from seedspread.cff.training.fast.loss import LossRules, StackedLoss, StackedPairs, stacked_loss
from seedspread.cff.training.layerwise import LayerwiseModel, optimiser_of
from seedspread.cff.training.records import EpochSums
from seedspread.cff.training.trainer import Trainer

# Numbers of an attention matrix that go through a layer at once: runs are taken together up to this size.
_AT_ONCE = 2**21


class StackedTrainer(Trainer):
    """Trains several models in one; their parameters become views of the stack's.

    Attributes:
        models: of the runs, which differ in seeds and margins only.
    """

    features = FEATURES["fast"]

    def __init__(self, models: Sequence[LayerwiseModel]) -> None:
        self.models = models
        self._config = models[0].config
        self._embedding, self._blocks = stacked_parameters([model.vit for model in models])
        # By layer and run.
        self._own = list(zip(*(layer_parameters(model.vit) for model in models), strict=True))
        for parameter, data in self._views(self._embedding, self._blocks):
            parameter.data = data
        # Over each run's own parameters: an element's place in a vector register then does not depend on R.
        self._optimiser = optimiser_of(
            self._config, [parameter for runs in self._own for run in runs for parameter in run]
        )
        first = self._blocks[0]
        self._scale = query_scale(self._config.model, first)
        self._rules = [
            LossRules.of([loss.spec for loss in losses], first.dtype, first.device)
            for losses in zip(*(model.losses for model in models), strict=True)
        ]

    @classmethod
    def of(cls, models: Sequence[LayerwiseModel]) -> Self:
        """Of any number of models."""
        return cls(models)

    @staticmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        """By the layers as they are trained, in slices."""
        return pooled_features(model.vit, images, model.config, model.precision)

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains every run on its batch and adds to its epoch's sums; without `update` it only looks."""
        tokens = torch.stack([batch.images for batch in batches])
        pairs = StackedPairs.of(torch.stack([batch.labels for batch in batches]), self._rules[0])
        weights = folded_weights(self._blocks, self._scale)
        losses, gradients = [], []
        for layer, (block, rules) in enumerate(zip(weights, self._rules, strict=True)):
            embedding = embedding_weights(self._embedding) if layer == 0 else ()
            passes = self._forward([*embedding, *block], tokens, return_tokens=layer + 1 < len(weights))
            losses.append(stacked_loss(_joined([part.pooled() for part in passes]), pairs, rules))
            if layer + 1 < len(weights):
                tokens = _joined([part.next_tokens() for part in passes])
            grad_pooled = parts(losses[-1].gradient, len(passes[0].tokens))
            by_pass = [one.backward(part) for one, part in zip(passes, grad_pooled, strict=True)]
            gradients.append([_joined(of_runs) for of_runs in zip(*by_pass, strict=True)])
        self._hand_out(gradients)
        self._record(number, sums, pairs, losses)
        if update:
            self._optimiser.step()

    def _record(
        self, number: int, sums: Sequence[EpochSums], pairs: StackedPairs, losses: Sequence[StackedLoss]
    ) -> None:
        """Adds a batch to the runs' sums."""
        loss = torch.stack([one.loss for one in losses], dim=1)  # (R, L), as are the next two
        rates = torch.stack([one.saturated for one in losses], dim=1) / pairs.pairs
        norms = self._norms()
        histograms = torch.stack([one.histogram for one in losses], dim=1)
        for run, own in enumerate(sums):
            every = slice(len(losses))
            own.add_layer(every, number, loss[run], norms[run], rates[run], histograms[run])
            own.end_batch(pairs.pairs[run, 0], pairs.labels.shape[1])

    def _forward(self, weights: Sequence[Tensor], tokens: Tensor, *, return_tokens: bool) -> "list[_Pass]":
        """A layer's passes, of a few runs each, so that attention's matrices stay small."""
        model, size = self._config.model, min(self._config.runtime.micro_batch_size, tokens.shape[1])
        together = max(1, _AT_ONCE // (size * model.heads * model.tokens**2))
        return [
            _Pass(self.models[0], leaves, part, return_tokens=return_tokens)
            for leaves, part in zip(_leaves(weights, together), parts(tokens, together), strict=True)
        ]

    def _hand_out(self, gradients: Sequence[Sequence[Tensor]]) -> None:
        """Gives each run's parameters their gradients, from those by each layer's weights."""
        of_blocks = [BlockWeights(*of_layer[-len(BlockWeights._fields) :]) for of_layer in gradients]
        embedding = EmbeddingWeights(*gradients[0][: -len(BlockWeights._fields)])
        blocks = unfolded_gradients(self._blocks, of_blocks, self._scale)
        for parameter, gradient in self._views(embedding_gradients(embedding), blocks):
            parameter.grad = gradient

    def _views(
        self, embedding: Sequence[Tensor], blocks: Sequence[Tensor]
    ) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each run's own parameters beside their part of what is stacked: `(R, ...)`, and `(L, R, ...)`."""
        runs = len(self.models)
        for place, stacked in enumerate(embedding):
            for run, part in enumerate(stacked.unbind()):
                yield self._own[0][run][place], part
        for place, stacked in enumerate(blocks, -len(blocks)):
            for number, part in enumerate(stacked.flatten(0, 1).unbind()):
                yield self._own[number // runs][number % runs][place], part

    def _norms(self) -> Tensor:
        """`(R, L)`, the gradient norm of each layer (Eq. grad_norm) in each run, left on the device."""
        runs = len(self.models)
        each = torch.stack(torch._foreach_norm(self._optimiser.gradients()))
        by_layer = torch.split(each, [runs * len(own[0]) for own in self._own])
        return torch.stack([torch.linalg.vector_norm(one.view(runs, -1), dim=1) for one in by_layer], dim=1)

    def _of_run(self, layer: int, run: int) -> slice:
        """A run's parameters among those of the optimiser."""
        before = len(self.models) * sum(len(own[0]) for own in self._own[:layer])
        count = len(self._own[layer][0])
        return slice(before + run * count, before + (run + 1) * count)

    def state_dict(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimiser, named as if it were alone, an optimiser a layer."""
        return {
            name: tensor
            for layer in range(len(self._own))
            for name, tensor in self._optimiser.state_dict(
                f"optimiser.{layer}", self._of_run(layer, run)
            ).items()
        }

    def load_state_dict(self, run: int, state: dict[str, Tensor]) -> None:
        """Puts a run's part of the optimiser back."""
        for layer in range(len(self._own)):
            self._optimiser.load_state_dict(f"optimiser.{layer}", state, self._of_run(layer, run))


@cache
def _encode(compiled: bool) -> Callable[..., tuple[Tensor, Tensor | None]]:
    # One translation for each shape: a general one would depend on which shapes came first.
    return torch.compile(encode, dynamic=False) if compiled else encode


def _leaves(weights: Sequence[Tensor], size: int) -> list[tuple[Tensor, ...]]:
    """The weights of `size` runs at a time."""
    split = zip(*(parts(weight, size) for weight in weights), strict=True)
    return [tuple(leaf.requires_grad_() for leaf in of_runs) for of_runs in split]


def _joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Put together again; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def _gradients(output: Tensor, inputs: Sequence[Tensor], gradient: Tensor) -> tuple[Tensor, ...]:
    """`torch.autograd.grad(output, inputs, gradient)`, which would load sympy to compare shapes."""
    engine: Any = torch.autograd.Variable._execution_engine
    return engine.run_backward(  # type: ignore[no-any-return]
        (output,), (gradient,), False, False, tuple(inputs), allow_unreachable=False, accumulate_grad=False
    )


class _Pass:
    """A few runs on their way through a layer and back, slice by slice.

    Attributes:
        tokens: `(C, N, ...)`, the layer's input.
    """

    def __init__(
        self, model: LayerwiseModel, leaves: Sequence[Tensor], tokens: Tensor, *, return_tokens: bool
    ) -> None:
        self.tokens = tokens
        self._config = config = model.config
        self._precision = model.precision
        self._leaves = leaves
        self._slices = slices(config, tokens, dim=1)
        with torch.set_grad_enabled(not config.runtime.activation_checkpointing):
            self._outputs = [self._forward(part, return_tokens=return_tokens) for part in self._slices]

    def _forward(self, part: Tensor, *, return_tokens: bool) -> tuple[Tensor, Tensor | None]:
        model, runtime = self._config.model, self._config.runtime
        block = BlockWeights(*self._leaves[-len(BlockWeights._fields) :])
        if len(self._leaves) > len(block):
            part = embed(
                part, EmbeddingWeights(*self._leaves[: -len(block)]), model.patch_size, self._precision
            )
        return _encode(runtime.compile)(
            part,
            block,
            model.heads,
            self._precision,
            fused_attention=runtime.fused_attention,
            return_tokens=return_tokens,
        )

    def pooled(self) -> Tensor:
        """`(C, N, d)`, what the loss sees; no graph."""
        return _joined([pooled.detach() for pooled, _ in self._outputs], dim=1)

    def next_tokens(self) -> Tensor:
        """`(C, N, T, d)`, the next layer's input; no graph."""
        return _joined([output for _, output in self._outputs if output is not None], dim=1)

    def backward(self, gradient: Tensor) -> list[Tensor]:
        """The gradients by the weights, from that by the pooled features, `(C, N, d)`."""
        summed: list[Tensor] = []
        for part, grad_pooled in zip(self._slices, slices(self._config, gradient, dim=1), strict=True):
            # Taken out, so that a slice's graph is freed with it.
            pooled, _ = self._outputs.pop(0)
            if self._config.runtime.activation_checkpointing:
                pooled, _ = self._forward(part, return_tokens=False)
            own = _gradients(pooled, self._leaves, grad_pooled)
            summed = [a.add_(b) for a, b in zip(summed, own, strict=True)] if summed else list(own)
        return summed
