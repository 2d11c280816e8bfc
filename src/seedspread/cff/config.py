"""The config of a run, frozen and validated; the augmentation steps and named pipelines of them."""

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
    """Pad with zeros on all sides, then cut out a window of the original size at a random place."""

    op: Literal["random_crop"] = "random_crop"
    padding: int = Field(ge=0, le=1000)


class HorizontalFlip(FrozenConfig):
    """Mirror the image left to right with probability `p`."""

    op: Literal["horizontal_flip"] = "horizontal_flip"
    p: Share = 0.5


class RandomRotation(FrozenConfig):
    """Rotate by up to `degrees` either way; nearest pixel, black corners."""

    op: Literal["random_rotation"] = "random_rotation"
    degrees: float = Field(ge=0, le=180)


class RandomErasing(FrozenConfig):
    """Blacken a rectangle with probability `p`; `scale` is its share of the area, `ratio` its height / width.

    As the last step it may come `after_normalization`, as in most pipelines of torchvision: erased pixels are
    then 0 in normalized units, the mean color.
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
    """Scale brightness, contrast, saturation by a factor in [1 - x, 1 + x]; shift hue by up to x of a turn.

    The four are applied in an order drawn for each image; those that are 0 are left out.
    """

    op: Literal["color_jitter"] = "color_jitter"
    brightness: float = Field(default=0, ge=0)
    contrast: float = Field(default=0, ge=0)
    saturation: float = Field(default=0, ge=0)
    hue: float = Field(default=0, ge=0, le=0.5)


class RandAugment(FrozenConfig):
    """Apply `num_ops` of 14 operations, drawn at random for each image, all of one magnitude from 0 to 30.

    Like torchvision's `RandAugment(num_ops, magnitude)` with its defaults: 31 magnitudes, a random sign for
    operations that have one, nearest pixel, black outside. For images of 1 or 3 channels.
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
    """The images of a run, their split and their augmentation.

    Attributes:
        name: one of `datasets.DATASETS`; the default is the sample inside the package. Or the path of your
            own images, which must contain a "/" or end in ".npz": an `.npz` file, or a folder with a folder
            of images per class. Or `package.module:function`, which returns an `ArrayDataset`. `arrays`
            stands for images that are passed from Python.
        labels: CIFAR-100's 100 `fine` or 20 `coarse` classes.
        allow_partial: use a dataset even if parts of it are missing.
        limit_per_class: largest number of training images of each class, before the split.
        test_limit_per_class: largest number of test images of each class.
        validation_fraction: the share of each class held out of the training images.
        split_seed: seed of the split and the subsets; independent of the run's seed.
        order: `shuffled`, or `balanced`: batches that contain the classes in proportion.
        augment: a pipeline's name, a list of steps, or None for the dataset's own pipeline. Your own images
            have none.
        resize: for a folder: the shorter side is resized to this many pixels, and a center square cut out.
        test_fraction: the share of each class held out for the test, if your own images have no test part.
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
        """The steps of `augment`, or of the dataset's own pipeline if that is None."""
        own: tuple[Step, ...] | str = () if is_own(self.name) else DATASETS[self.name].augment
        augment = own if self.augment is None else self.augment
        return PIPELINES[augment] if isinstance(augment, str) else augment


def _known(field: str, *names: str) -> BeforeValidator:
    """Accept one of these names, a dotted name of user code, or a module's class or function itself."""

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


# The name in a config for layers and losses that are passed from Python.
GIVEN = "given"

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
_LARGEST_SIDE = 4096
_MAX_PARAMETERS = 1_000_000_000  # with gradients and optimizer state, more than fits into most machines


class ModelConfig(FrozenConfig):
    """The layers and the shape of their input images.

    Attributes:
        architecture: `vit`, the paper's; `convnet` or `mlp`, small examples; or `package.module:name`, which
            is called with `image_shape=(C, H, W)`, and with any of the last four fields below that it
            accepts, and returns an `nn.ModuleList`. A study calls this field `model`.
        image_size: pixels along an image's side, as in the dataset; height and width if they differ.
        channels: color channels, as in the dataset.
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
        """Read a number, `[24, 32]` or `"24x32"`; return a square as one number."""
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
        """Number of weights of the layers, without biases and norms, which are few."""
        return self.dim * (self.channels * self.patch_size**2 + self.tokens + self.depth * 8 * self.dim)

    @property
    def tokens(self) -> int:
        """T, the number of patches of an image."""
        _, height, width = self.image_shape
        return (height // self.patch_size) * (width // self.patch_size)


class ObjectiveConfig(FrozenConfig):
    """The layers' losses; `docs/method.md` defines them.

    Attributes:
        loss: `supcon`, `goodness` (Forward-Forward), `local_cross_entropy`, or `package.module:Name`, a
            `LocalLoss`; only `supcon` uses the fields from `temperature` to `reduction`. The rule
            `cross_entropy` uses no layer's loss.
        threshold: theta of `goodness`.
        temperature: tau.
        margin_type: how the margin enters: `none`, `clamp`, `soft_clamp`, `subtract`, `shift`, or
            `package.module:Name`, a subclass of `Margin`.
        margin_first: the margin of layer 0.
        margin_last: the margin of the last layer.
        margin_schedule: shape of the path from `margin_first` to `margin_last`.
        margin_exponent: exponent of the schedule; `linear` has none.
        margin_warmup_epochs: number of epochs over which all margins grow, batch by batch, from 0.
        margin_sharpness: beta of `soft_clamp`.
        stability: whether the gradient flows through the row maximum.
        reduction: `mean` or `sum` over an anchor's positives.
        positives: which pairs are positive: two images of one `class`, or of one `superclass` (CIFAR-10's
            vehicles and animals, CIFAR-100's coarse classes). The probe is trained and tested on the classes
            in either case.
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
    """Stage 1: training of the encoder.

    Attributes:
        rule: `layer_local` (CFF), `end_to_end` (the layers' losses summed, gradients flowing through) or
            `cross_entropy` (plain backpropagation through the head, on one view).
        epochs: number of epochs.
        batch_size: images per batch.
        learning_rate: the optimizer's; with a schedule or a warm-up, the highest. `cross_entropy` uses the
            probe's.
        betas: those of `adamw` and `adam`.
        weight_decay: the optimizer's: apart from the gradient in `adamw`, added to it in `adam` and `sgd`.
            `cross_entropy` uses the probe's.
        optimizer: torch's optimizer of that name. In `layer_local` each layer has its own.
        momentum: that of `sgd`.
        schedule: learning rate after the warm-up, batch by batch: `constant`, or `cosine`, half a period
            down to 0 at the last epoch's end.
        warmup_epochs: number of epochs over which the learning rate grows linearly, batch by batch, from 0.
        max_gradient_norm: largest l2 norm of an optimizer's gradient, which is scaled down to it before a
            step; in `layer_local` each layer's separately. Recorded norms are those before scaling.
        select: the weights that stage 1 ends with: the `last` epoch's, or those with the lowest loss of the
            last layer on two augmented validation views (`best_val_loss`).
        init_from: folder of a finished run, or its key in the same store: training starts from its encoder,
            on the same or on other data.
        continue_from: folder or key of a finished run, which this run continues for more epochs.
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
        epochs: number of epochs; the one with the highest validation accuracy counts, the earliest of equals.
        batch_size: images per batch.
        learning_rate: AdamW's; constant.
        weight_decay: AdamW's.
        features: `augmented`, one fresh view per epoch, or `cached`, un-augmented features computed once.
        repeats: number of probes trained on the one encoder, each with a probe seed of its own.
        layers: probe the `last` layer's features, or those of `all` layers, each separately.
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
    """The run's seed, and seeds of single sources of randomness, each of which overrides it.

    Attributes:
        run: seed of all sources that are not set.
        init: seed of the weights.
        order: seed of the order of the batches.
        augment: seed of the augmentation.
        probe: seed of the probe's weights, batches and augmentation.
        split: seed of the split, instead of `data.split_seed`; the run's seed does not control it.
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


# The default of `micro_batch_size` on a CPU and, whatever the device, in the key of a run.
VIEWS_AT_ONCE = 128


class RuntimeConfig(FrozenConfig):
    """How a run is computed.

    Attributes:
        device: `auto` takes CUDA, else MPS, else the CPU.
        precision: precision of the encoder's products; `bf16` alters results and is part of the run's
            identity.
        implementation: how `layer_local` is computed: `plain` follows the equations through autograd, `fast`
            needs fewer products (`docs/performance.md`), and `native` is a kernel in C++ for a whole layer,
            which needs a compiler and trains on the CPU, in `bf16` only with AVX-512 BF16. Gradients are the
            same up to rounding; it is part of the run's identity. Other rules have one implementation.
        micro_batch_size: for `fast`, the largest number of views that go through a layer at a time; None is
            128, and on CUDA the whole batch. Part of the run's identity, where None is always 128.
        activation_checkpointing: for `fast` and `native`: recompute each slice for its backward pass, with
            less memory, more time and the same bits.
        threads: CPU threads; None takes torch's default. Kept through every resume.
        checkpoint_seconds: time between checkpoints, of which each stage writes at least one.
        keep_model: keep the encoder, its probe, and the training state from which a run can be continued.
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
        """Drop options that no longer exist, if a stored run did not use them."""
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
        """`data`, with the seed of the split that `seeds` sets, if any."""
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
        """True if `implementation` has a choice: kernels are for the ViT, layer by layer with SupCon."""
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
        """Return the config with these values for fields of `runtime` that are None."""
        unset = {name: value for name, value in values.items() if getattr(self.runtime, name) is None}
        return self.model_copy(update={"runtime": self.runtime.model_copy(update=unset)})
