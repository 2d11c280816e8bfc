"""The claims in words, where the paper makes them, and which function checks each."""

from collections.abc import Callable
from dataclasses import dataclass

from seedspread.paper import loss, mechanism, variances, words
from seedspread.paper.values import CheckResult


@dataclass(frozen=True)
class Claim:
    """A claim in words."""

    section: str
    where: str
    says: str
    check: Callable[[], CheckResult]


_GENERAL, _METHODS, _CIFAR10 = "Abstract and introduction", "4 Methods", "5.2 CIFAR-10"
_MECHANISM, _ELSEWHERE, _DISCUSSION = "6 Mechanism", "7 Generalisation", "8 Discussion"
_LIMITS = "9 Limitations and conclusion"
_APPENDIX = "Appendix A, per-seed results"

# fmt: off
CLAIMS = (
    Claim(_GENERAL, "Abstract", "no difference in mean accuracy on CIFAR-10", words.no_mean_difference),
    Claim(_GENERAL, "Abstract", "removes the inflation at no cost to mean accuracy", words.no_cost),
    Claim(_GENERAL, "Abstract", "equal or lower variance on the other three datasets", words.lower_elsewhere),
    Claim(_GENERAL, "Abstract, Sections 7.2, 7.3, 7.5, 8", "high accuracy compresses the spread over seeds",
          variances.compressed_by_accuracy),
    Claim(_METHODS, "Sections 3, 4.4, 10", "the variance of test accuracies over seeds is training variance",
          variances.training_variance),
    Claim(_METHODS, "Section 4.2", "the modes differ in whether gradients flow through the max",
          loss.modes_differ),
    Claim(_CIFAR10, "Section 5.2", "n = 14 seeds per margin type", words.fourteen_seeds),
    Claim(_CIFAR10, "Section 5.2", "the margin-type effect is marginal", words.marginal),
    Claim(_CIFAR10, "Sections 5.1, 5.2, 9", "stability mode: both p > 0.82", words.stability_p),
    Claim(_CIFAR10, "Sections 5.1, 5.2, 9",
          "the factorial establishes that stability mode does not affect variance",
          variances.modes_have_one_variance),
    Claim(_CIFAR10, "Section 5.2", "a marginal Levene interaction", words.interaction),
    Claim(_CIFAR10, "Section 5.2", "normality tests support the F test's assumption",
          words.normality_supports_f),
    Claim(_CIFAR10, "Sections 5.2, 6.4, 10", "halving the margin cut the variance ratio from 5.90 to 2.98",
          words.halving_halves_ratio),
    Claim(_CIFAR10, "Section 5.2", "no significant mean difference under the low margin",
          words.indistinguishable_low),
    Claim(_CIFAR10, "Section 5.2", "the low-margin bootstrap interval includes 1.0",
          words.interval_includes_one),
    Claim(_MECHANISM, "Section 6.1", "gradients flow through a saturated pair's denominator pathway",
          loss.denominator_pathway),
    Claim(_MECHANISM, "Section 6.2", "the gap between schedules narrows monotonically",
          mechanism.gap_narrows),
    Claim(_MECHANISM, "Section 6.3", "the rate drops below 50 % by layer 3", mechanism.below_half_by_layer_3),
    Claim(_MECHANISM, "Section 6.3", "norm reduction corresponds to the rate across layers",
          mechanism.truncation_tracks_rate),
    Claim(_MECHANISM, "Sections 6, 6.4", "under clamping the runs of different seeds separate more",
          variances.seeds_separate),
    Claim(_MECHANISM, "Section 6.4", "reducing the starting margin halves the rate", mechanism.halves),
    Claim(_ELSEWHERE, "Table 9", "CIFAR-10 is the only dataset with a variance ratio above 1",
          words.only_cifar10_above_one),
    Claim(_ELSEWHERE, "Section 7.1", "CIFAR-100 has about 10 times fewer positive pairs",
          mechanism.ten_times_fewer),
    Claim(_ELSEWHERE, "Section 7.1", "low rate translates to an absence of truncation",
          mechanism.no_truncation_on_cifar100),
    Claim(_ELSEWHERE, "Section 7.1", "consistent with the absence of a variance effect on CIFAR-100",
          variances.no_effect_on_cifar100),
    Claim(_ELSEWHERE, "Section 7.1", "the reverse of CIFAR-10", mechanism.reverse_of_cifar10),
    Claim(_ELSEWHERE, "Table 12", "norms of a single seed, with a standard deviation", mechanism.single_seed),
    Claim(_ELSEWHERE, "Section 7.2, Table 18", "SVHN's rate increases with depth, to 78.3 % at layer 7",
          mechanism.rises_with_depth),
    Claim(_ELSEWHERE, "Section 7.2", "CIFAR-10's rate decreases monotonically", mechanism.falls_on_cifar10),
    Claim(_ELSEWHERE, "Section 7.3", "the strongest inversion", words.strongest_inversion),
    Claim(_ELSEWHERE, "Section 7.3", "Fashion-MNIST's inversion is significant", words.holm_adjusted),
    Claim(_ELSEWHERE, "Section 7.4", "progressively more aggressive augmentation", words.more_aggressive),
    Claim(_ELSEWHERE, "Section 7.4", "bimodal: about 35 % and about 18 %", words.two_clusters),
    Claim(_ELSEWHERE, "Sections 7.4, 7.5", "the sweep confirms the role of intermediate difficulty",
          words.sweep_confirms),
    Claim(_ELSEWHERE, "Section 7.5", "a high rate is necessary", mechanism.necessary),
    Claim(_ELSEWHERE, "Sections 7.5, 8", "SVHN and Fashion-MNIST reach more than 92 %", words.above_92),
    Claim(_DISCUSSION, "Section 8", "lower rate at every layer of CIFAR-100", mechanism.lower_at_every_layer),
    Claim(_DISCUSSION, "Section 8", "CIFAR-10's gradient norm ratio is 4.0 times higher under clamping",
          mechanism.higher_under_clamping),
    Claim(_LIMITS, "Section 9", "gradient-neutrality does not hold for other reductions",
          loss.neutral_only_for_means),
    Claim(_LIMITS, "Section 10", "nearly six-fold", words.nearly_six),
    Claim(_LIMITS, "Section 10", "rates exceed 60 % at early layers", mechanism.over_60_early),
    Claim(_GENERAL, "Abstract, Sections 7.5, 10", "positive-pair density governs the rate",
          mechanism.density_determines_rate),
    Claim(_MECHANISM, "Section 6.2", "the gap vanishes at layer 7", mechanism.vanishes_at_layer_7),
    Claim(_MECHANISM, "Section 6.3", "the norm reduction disappears by layer 2", mechanism.gone_by_layer_2),
    Claim(_LIMITS, "Section 9", "all results use a fixed augmentation pipeline", words.fixed_pipeline),
    Claim(_APPENDIX, "Appendix A", "the subtract_detach rows of both tables are identical", words.same_rows),
)
# fmt: on
