"""A run's config, frozen and validated, and augmentation as data: steps, and pipelines (`pipelines.toml`)."""

import re
import tomllib
from importlib.resources import files
from types import FunctionType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, field_validator, model_validator

from seedspread.cff.datasets import DATASETS, DEFAULT, is_dotted, is_npz, is_own
from seedspread.errors import one_of, short
from seedspread.runs.files import FrozenConfig, Share


class RandomCrop(FrozenConfig):
    """Zero padding on all sides, then a window of the old size at a random place."""

    op: Literal["random_crop"] = "random_crop"
    padding: int = Field(ge=0, le=1000)


class HorizontalFlip(FrozenConfig):
    """Left and right exchanged with probability `p`."""

    op: Literal["horizontal_flip"] = "horizontal_flip"
    p: Share = 0.5


class RandomRotation(FrozenConfig):
    """A turn by up to `degrees` either way; nearest pixel, black corners."""

    op: Literal["random_rotation"] = "random_rotation"
    degrees: float = Field(ge=0, le=180)


class RandomErasing(FrozenConfig):
    """A black rectangle, with probability `p`, of a share of the area and a ratio of height to width.

    As the last step it may come `after_normalization`, as in most pipelines of torchvision: then what is
    erased is 0 in normalized units, the mean color.
    """

    op: Literal["random_erasing"] = "random_erasing"
    p: Share = 0.5
    scale: tuple[Share, Share] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    after_normalization: bool = False

    @field_validator("scale", "ratio")
    @classmethod
    def _a_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 < value[0] <= value[1]:
            raise ValueError(f"must be a range of positive numbers, smaller first; got {value}")
        return value


class ColorJitter(FrozenConfig):
    """Brightness, contrast, saturation by a factor in [1 - x, 1 + x], hue by a shift in [-x, x] of a turn.

    The four are applied in an order drawn for each image; those that are 0 are left out.
    """

    op: Literal["color_jitter"] = "color_jitter"
    brightness: float = Field(default=0, ge=0)
    contrast: float = Field(default=0, ge=0)
    saturation: float = Field(default=0, ge=0)
    hue: float = Field(default=0, ge=0, le=0.5)


class RandAugment(FrozenConfig):
    """`num_ops` of 14 operations, each drawn at random for each image, all of one magnitude from 0 to 30.

    As torchvision's `RandAugment(num_ops, magnitude)` with its defaults: 31 magnitudes, the sign of those
    that have one at random, nearest pixel, black outside. For images of 1 or 3 channels.
    """

    op: Literal["rand_augment"] = "rand_augment"
    num_ops: int = Field(default=2, ge=1, le=100)
    magnitude: int = Field(default=9, ge=0, le=30)


Step = Annotated[
    RandomCrop | HorizontalFlip | RandomRotation | RandomErasing | ColorJitter | RandAugment,
    Field(discriminator="op"),
]

PIPELINES = TypeAdapter(dict[str, tuple[Step, ...]]).validate_python(
    tomllib.loads((files(__package__) / "pipelines.toml").read_text(encoding="utf-8"))
)


class DataConfig(FrozenConfig):
    """Which images a run sees, and how.

    Attributes:
        name: one of `datasets.DATASETS`; the default is the sample inside the package. Or the path of one's
            own images: an `.npz` file, or a folder with a folder of images per class; it contains a "/" or
            ends in ".npz". Or `package.module:function`, which returns an `ArrayDataset`. `arrays` stands for
            images that are given from Python.
        labels: CIFAR-100's 100 `fine` or 20 `coarse` classes.
        allow_partial: use a dataset of which only a part is there.
        limit_per_class: at most so many training images of each class, before the split.
        test_limit_per_class: likewise of the test images.
        validation_fraction: the share of each class held out of the training images.
        split_seed: decides the split and the subsets; apart from the run's seed.
        order: `shuffled`, or `balanced`: batches that hold the classes in proportion.
        augment: a pipeline's name, a list of steps, or None for the dataset's own pipeline. One's own images
            have none.
        resize: of a folder: the shorter side is resized to so many pixels, and the center cut out, a square.
        test_fraction: the share of each class held out for the test, if one's own images have no test part.
    """

    name: str = DEFAULT.name
    labels: Literal["fine", "coarse"] = "fine"
    allow_partial: bool = False
    limit_per_class: int | None = Field(default=None, ge=2, le=1_000_000)
    test_limit_per_class: int | None = Field(default=None, ge=1, le=1_000_000)
    validation_fraction: float = Field(default=0.1, gt=0, lt=1)
    split_seed: int = Field(default=0, ge=0, lt=2**63)
    order: Literal["shuffled", "balanced"] = "shuffled"
    augment: str | Annotated[tuple[Step, ...], Field(max_length=100)] | None = None
    resize: int | None = Field(default=None, ge=1, le=4096)
    test_fraction: float = Field(default=0.2, gt=0, lt=1)

    @field_validator("name")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        if not is_own(value):
            try:
                one_of("name", value, DATASETS)
            except ValueError as error:
                raise ValueError(f"{error}; or give a path, such as ./leaves or leaves.npz") from None
        return value

    @field_validator("augment")
    @classmethod
    def _known_pipeline(cls, value: str | tuple[Step, ...] | None) -> str | tuple[Step, ...] | None:
        if isinstance(value, str):
            one_of("augment", value, PIPELINES)
        elif any(isinstance(step, RandomErasing) and step.after_normalization for step in (value or ())[:-1]):
            raise ValueError("random_erasing with after_normalization must be the last step")
        return value

    @model_validator(mode="after")
    def _fits_the_data(self) -> Self:
        own = is_own(self.name)
        if self.resize is not None and (not own or is_npz(self.name) or is_dotted(self.name)):
            raise ValueError("resize is for a folder of images; arrays have one size")
        if not own and self.test_fraction != type(self).model_fields["test_fraction"].default:
            raise ValueError(f"test_fraction is for images of one's own; {self.name} has a test part")
        if own and self.labels != "fine":
            raise ValueError("labels = 'coarse' is for cifar100")
        return self

    @property
    def pipeline(self) -> tuple[Step, ...]:
        """The steps asked for, or those of the dataset's own pipeline."""
        own: tuple[Step, ...] | str = () if is_own(self.name) else DATASETS[self.name].augment
        augment = own if self.augment is None else self.augment
        return PIPELINES[augment] if isinstance(augment, str) else augment


def _known(field: str, *names: str) -> BeforeValidator:
    """Take one of these names, or one of user code, which a class or function of a module stands for too."""

    def name_of(value: Any) -> str:
        if isinstance(value, type | FunctionType) and "<" not in value.__qualname__:
            return f"{value.__module__}:{value.__qualname__}"
        if not isinstance(value, str):
            raise ValueError(
                f"{field} must be a name, or a class or function of a module; got {short(value)}"
            )
        if not is_dotted(value):
            one_of(field, value, names)
        return value

    return BeforeValidator(name_of)


# Stands in a config for layers and losses that are given from Python.
GIVEN = "given"

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
_LARGEST_SIDE = 4096
_MAX_PARAMETERS = 1_000_000_000  # with its optimiser and gradients more than most machines hold


class ModelConfig(FrozenConfig):
    """The layers, and the shape of the images that they see.

    Attributes:
        architecture: `vit`, the paper's; `convnet` or `mlp`, small examples; or `package.module:name`, which
            is called with `image_shape=(C, H, W)` and those of the last four fields below that it takes, and
            returns an `nn.ModuleList`. A study calls this field `model`.
        image_size: pixels along an image's side, as the dataset has them; height and width if they differ.
        channels: color channels, likewise.
        patch_size: pixels along a patch's side.
        dim: width of a token.
        depth: number of layers.
        heads: attention heads.
    """

    architecture: Annotated[str, _known("architecture", "vit", "convnet", "mlp", GIVEN)] = "vit"
    image_size: int | tuple[int, int] = DEFAULT.image_size
    channels: int = Field(default=DEFAULT.channels, ge=1, le=1024)
    patch_size: int = Field(default=4, ge=1, le=4096)
    dim: int = Field(default=128, ge=1, le=16_384)
    depth: int = Field(default=8, ge=1, le=1000)
    heads: int = Field(default=4, ge=1, le=1024)

    @field_validator("image_size", mode="before")
    @classmethod
    def _height_and_width(cls, value: object) -> int | tuple[int, int]:
        """Read a number, `[24, 32]` or `"24x32"`; a square is one number."""
        text = "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        known = re.fullmatch("[0-9]{1,4}(x[0-9]{1,4})?", text)
        sides = [int(side) for side in text.split("x")] if known else [0]
        if not 1 <= min(sides) <= max(sides) <= _LARGEST_SIDE:
            sizes = f"from 1 to {_LARGEST_SIDE} pixels, or such a height and width, as '24x32'"
            raise ValueError(f"must be {sizes}; got {short(value)}")
        return sides[0] if sides[0] == sides[-1] else (sides[0], sides[1])

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.architecture != "vit":
            return self
        if any(side % self.patch_size for side in self.image_shape[1:]):
            raise ValueError(
                f"patch_size {self.patch_size} does not divide the image's {self.image_size} pixels"
            )
        if self.dim % self.heads:
            raise ValueError(f"heads {self.heads} does not divide dim {self.dim}")
        if self.parameters > _MAX_PARAMETERS:
            raise ValueError(f"{self.parameters:,} parameters; at most {_MAX_PARAMETERS:,} are trained")
        return self

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """`(C, H, W)`."""
        size = self.image_size
        return (self.channels, *size) if isinstance(size, tuple) else (self.channels, size, size)

    @property
    def parameters(self) -> int:
        """Number of weights of the layers, without biases and norms, which hardly count."""
        return self.dim * (self.channels * self.patch_size**2 + self.tokens + self.depth * 8 * self.dim)

    @property
    def tokens(self) -> int:
        """T, the number of patches of an image."""
        _, height, width = self.image_shape
        return (height // self.patch_size) * (width // self.patch_size)


class ObjectiveConfig(FrozenConfig):
    """The layers' losses; `docs/method.md` has the definitions.

    Attributes:
        loss: `supcon`, `goodness` (Forward-Forward), `local_cross_entropy`, or `package.module:Name`, a
            `LocalLoss`; the first alone has the fields from `temperature` to `reduction`. `cross_entropy`,
            the rule, uses none of them.
        threshold: theta of `goodness`.
        temperature: tau.
        margin_type: how the margin enters: `none`, `clamp`, `soft_clamp`, `subtract`, `shift`, or
            `package.module:Name`, a subclass of `Margin`.
        margin_first: the margin of layer 0.
        margin_last: the margin of the last layer.
        margin_schedule: how it goes from one to the other.
        margin_exponent: of the schedule; `linear` has none.
        margin_warmup_epochs: over so many epochs, batch by batch, all margins grow from 0 to these values.
        margin_sharpness: beta of `soft_clamp`.
        stability: whether the gradient flows through the row maximum.
        reduction: over an anchor's positives.
        positives: which pairs are: two of one `class`, or of one `superclass` (CIFAR-10's vehicles and
            animals, CIFAR-100's coarse classes). The probe is trained and tested on the classes in either
            case.
    """

    loss: Annotated[str, _known("loss", "supcon", "goodness", "local_cross_entropy", GIVEN)] = "supcon"
    threshold: Positive = 2.0
    temperature: Positive = 0.15
    margin_type: Annotated[str, _known("margin_type", "none", "clamp", "soft_clamp", "subtract", "shift")] = (
        "clamp"
    )
    margin_first: NotNegative = 0.4
    margin_last: NotNegative = 0.1
    margin_schedule: Literal["linear", "parabolic", "cosine", "exponential"] = "linear"
    margin_exponent: Positive = 1.0
    margin_warmup_epochs: NotNegative = 0.0
    margin_sharpness: Positive = 20.0
    stability: Literal["detach", "direct"] = "detach"
    reduction: Literal["mean", "sum"] = "mean"
    positives: Literal["class", "superclass"] = "class"

    @model_validator(mode="after")
    def _margins_fit(self) -> Self:
        if self.margin_schedule == "exponential" and min(self.margin_first, self.margin_last) == 0:
            raise ValueError("an exponential margin_schedule needs margin_first > 0 and margin_last > 0")
        return self


Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(FrozenConfig):
    """Stage 1.

    Attributes:
        rule: `layer_local` (CFF), `end_to_end` (the layers' losses summed, gradients flowing through) or
            `cross_entropy` (plain backpropagation through the head, on one view).
        epochs: how many.
        batch_size: images per batch.
        learning_rate: of the optimizer; with a schedule or a warm-up, the highest. `cross_entropy` uses the
            probe's.
        betas: of `adamw` and `adam`.
        weight_decay: of the optimizer: apart from the gradient in `adamw`, added to it in `adam` and `sgd`.
            `cross_entropy` uses the probe's.
        optimizer: torch's of that name. In `layer_local` each layer has its own.
        momentum: of `sgd`.
        schedule: of the learning rate after the warm-up, batch by batch: `constant`, or `cosine`, half a
            period down to 0 at the last epoch's end.
        warmup_epochs: over so many epochs, batch by batch, the learning rate grows linearly from 0.
        max_gradient_norm: each optimizer's gradient is scaled down to this l2 norm, before its step; in
            `layer_local` that is each layer's by itself. The norms that are recorded are those before.
        select: the weights that stage 1 ends with: the `last` epoch's, or those with the lowest loss of the
            last layer on two augmented validation views (`best_val_loss`).
        init_from: a finished run, by its folder or by its key in the same store, whose encoder training
            starts from, on the same or on other data.
        continue_from: a finished run, likewise, of which this is one with more epochs.
    """

    rule: Literal["layer_local", "end_to_end", "cross_entropy"] = "layer_local"
    epochs: int = Field(default=600, ge=1, le=1_000_000)
    batch_size: int = Field(default=512, ge=2, le=1_000_000)
    learning_rate: Positive = 4e-3
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    weight_decay: NotNegative = 1e-4
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    momentum: Beta = 0.9
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_epochs: NotNegative = 0.0
    max_gradient_norm: Positive | None = None
    select: Literal["last", "best_val_loss"] = "last"
    init_from: str | None = Field(default=None, min_length=1)
    continue_from: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _selects_by_its_own_loss(self) -> Self:
        if self.init_from and self.continue_from:
            raise ValueError("give init_from or continue_from: a run starts from one other run at most")
        if self.rule == "cross_entropy" and self.select == "best_val_loss":
            raise ValueError("select = 'best_val_loss' needs a contrastive rule, not cross_entropy")
        return self


class ProbeConfig(FrozenConfig):
    """Stage 2: a linear classifier on the frozen encoder.

    Attributes:
        epochs: how many; the one with the highest validation accuracy counts, the earliest of equals.
        batch_size: images per batch.
        learning_rate: AdamW's; constant.
        weight_decay: AdamW's.
        features: `augmented`, one fresh view an epoch, or `cached`, un-augmented features computed once.
        repeats: how many probes are trained on the one encoder, each with a probe seed of its own.
        layers: probe the `last` layer's features, or those of `all` layers, each by itself.
    """

    epochs: int = Field(default=50, ge=1, le=1_000_000)
    batch_size: int = Field(default=512, ge=1, le=1_000_000)
    learning_rate: Positive = 5e-4
    weight_decay: NotNegative = 0.01
    features: Literal["augmented", "cached"] = "augmented"
    repeats: int = Field(default=1, ge=1, le=1000)
    layers: Literal["last", "all"] = "last"


Seed = Annotated[int, Field(ge=0, lt=2**63)]


class SeedConfig(FrozenConfig):
    """The run's seed gives four independent streams, each of which can also be set alone; so can the split.

    Attributes:
        run: the seed of all streams that are not set.
        init: of the weights.
        order: of the batches.
        augment: of the augmentation.
        probe: of the probe's weights, batches and augmentation.
        split: of the split, instead of `data.split_seed`; the run's seed does not drive it.
    """

    run: Seed = 0
    init: Seed | None = None
    order: Seed | None = None
    augment: Seed | None = None
    probe: Seed | None = None
    split: Seed | None = None

    def stream(self, name: Literal["init", "order", "augment", "probe"]) -> int:
        """Return the seed of one source of randomness."""
        own: int | None = getattr(self, name)
        return self.run if own is None else own


# What `micro_batch_size` is on a CPU unless it is set, and in the key of a run anywhere.
VIEWS_AT_ONCE = 128


class RuntimeConfig(FrozenConfig):
    """How a run is run.

    Attributes:
        device: `auto` takes CUDA, else MPS, else the CPU.
        precision: of the encoder's products; `bf16` alters results and is part of the run's identity.
        implementation: how `layer_local` is computed: `plain` goes through autograd as the method is
            written, `fast` has fewer products and lets several runs be trained as one program
            (`docs/performance.md`). Gradients are the same to rounding; it is part of the run's identity.
            `native` is a kernel in C++ for a whole layer, which takes a compiler and a CPU, for
            `bf16` one with AVX-512 BF16. The other rules have one implementation.
        micro_batch_size: `fast`: at most so many views of a batch go through a layer at a time; None is 128,
            and on CUDA the whole batch. Part of the run's identity, in which None is 128 on any device.
        activation_checkpointing: `fast`, `native`: work each slice out again for its backward pass: less
            memory, more time, the same bits.
        threads: CPU threads; None takes what torch takes. Kept through every resume.
        checkpoint_seconds: how often a checkpoint is written, at least once per stage.
        keep_model: keep the encoder and its probe, and what training would go on from.
    """

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    implementation: Literal["fast", "plain", "native"] = "fast"
    micro_batch_size: int | None = Field(default=None, ge=2, le=1_000_000)
    activation_checkpointing: bool = False
    threads: int | None = Field(default=None, ge=1, le=1024)
    checkpoint_seconds: NotNegative = 60.0
    keep_model: bool = True

    @model_validator(mode="before")
    @classmethod
    def _without_former_options(cls, values: Any) -> Any:
        """Leave out options that are no more, where a stored run did not use them."""
        if not isinstance(values, dict):
            return values
        former = ("compile", "fused_attention", "tf32")
        return {name: value for name, value in values.items() if name not in former or value is not False}

    @model_validator(mode="after")
    def _native_fits(self) -> Self:
        if self.implementation == "native" and self.device not in ("auto", "cpu"):
            raise ValueError(f"implementation = 'native' is for the CPU; got device {self.device!r}")
        return self


class RunConfig(FrozenConfig):
    """Everything that defines a run; the same config is the same run.

    Args:
        data: dataset, split and augmentation.
        model: shape of the Vision Transformer.
        objective: loss and margins.
        training: stage 1: rule, epochs, optimizer.
        probe: stage 2, the linear probe.
        seeds: seeds of the sources of randomness.
        runtime: device, precision, threads, implementation.

    Example:
        >>> RunConfig(objective={"margin_type": "subtract"}).objective.margin_type
        'subtract'
    """

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: TrainingConfig = TrainingConfig()
    probe: ProbeConfig = ProbeConfig()
    seeds: SeedConfig = SeedConfig()
    runtime: RuntimeConfig = RuntimeConfig()

    @property
    def split_data(self) -> DataConfig:
        """`data`, with the seed of the split that `seeds` sets."""
        split = self.seeds.split
        return self.data if split is None else self.data.model_copy(update={"split_seed": split})

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        colored = [step.op for step in self.data.pipeline if isinstance(step, ColorJitter | RandAugment)]
        if colored and self.model.channels not in (1, 3):
            raise ValueError(f"{colored[0]} is for images of 1 or 3 channels; got {self.model.channels}")
        warmups = {
            "training.warmup_epochs": self.training.warmup_epochs,
            "objective.margin_warmup_epochs": self.objective.margin_warmup_epochs,
        }
        for name, epochs in warmups.items():
            if epochs > self.training.epochs:
                raise ValueError(
                    f"{name} must be at most training.epochs, {self.training.epochs}; got {epochs:g}"
                )
        if self.training.select == "best_val_loss" and self.objective.loss != "supcon":
            raise ValueError(f"select = 'best_val_loss' needs loss = 'supcon'; got {self.objective.loss!r}")
        if self.objective.positives == "superclass":
            known = [name for name, info in DATASETS.items() if info.superclasses]
            if self.data.name not in known or self.data.labels != "fine":
                raise ValueError(
                    f"positives = 'superclass' is for {' and '.join(known)} with labels = 'fine'; got "
                    f"{self.data.name} with labels = {self.data.labels!r}"
                )
        return self

    @property
    def has_kernels(self) -> bool:
        """Whether `implementation` has a choice: the kernels are for the ViT, layer by layer with SupCon."""
        is_paper = self.model.architecture == "vit" and self.objective.loss == "supcon"
        return self.training.rule == "layer_local" and is_paper

    @model_validator(mode="after")
    def _asks_for_kernels_that_fit(self) -> Self:
        if self.training.rule == "layer_local" and not self.has_kernels:
            if "implementation" in self.runtime.model_fields_set and self.runtime.implementation != "plain":
                raise ValueError(
                    f"implementation = {self.runtime.implementation!r} is for model = 'vit' with "
                    f"loss = 'supcon'; got {self.model.architecture!r} with {self.objective.loss!r}: leave "
                    "implementation out"
                )
            plain = self.runtime.model_copy(update={"implementation": "plain"})
            object.__setattr__(self, "runtime", plain)  # so that it is recorded
        return self

    def with_runtime(self, **values: int) -> Self:
        """Return the config with values for fields of its runtime that it leaves open."""
        unset = {name: value for name, value in values.items() if getattr(self.runtime, name) is None}
        return self.model_copy(update={"runtime": self.runtime.model_copy(update=unset)})
