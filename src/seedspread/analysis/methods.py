"""A paragraph for a paper's methods section about an audit, and NeurIPS' question on error bars."""

from seedspread.analysis.audit_result import AuditResult
from seedspread.analysis.words import look_title
from seedspread.render.table import tex_text
from seedspread.stats.headline import FEWEST_SEEDS, MODEL
from seedspread.version import __version__


def methods(audit: AuditResult, latex: bool = False) -> str:
    """Return both, as text or as LaTeX that fits NeurIPS' checklist."""
    what, test, failed = _error_bars(audit), _test(audit), _failed(audit)
    paragraph = f"{audit.value} is reported as mean ± standard deviation. {what} {test} {failed}"
    answer = f"{what} They show the variability across seeds, and are not standard errors. {test} {failed}"
    paragraph += f" Computed with seedspread {__version__}."
    if latex:
        return (
            f"\\paragraph{{Statistics.}} {tex_text(paragraph)}\n\n"
            f"% NeurIPS checklist, experiment statistical significance\n\\item[] Answer: \\answerYes{{}}\n"
            f"\\item[] Justification: {tex_text(answer)}\n"
        )
    return f"{paragraph}\n\nNeurIPS checklist, experiment statistical significance: [Yes] {answer}\n"


def _error_bars(audit: AuditResult) -> str:
    """Return what ± means, and over how many seeds or runs."""
    counts = sorted({n for c in audit.comparisons for n in c.seeds})
    n = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    unit = f"{n} seeds per group" if audit.seed else f"{n} runs per group, each counted as a seed of its own"
    over = f" over all runs of a group ({', '.join(audit.blocks)} pooled)" if audit.blocks else ""
    once = "; runs that share a seed count once in every test" if audit.blocks else ""
    return f"Error bars (±) are one sample standard deviation (n − 1){over}, from {unit}{once}."


def _test(audit: AuditResult) -> str:
    """Return how variances and means are compared, and how p values are adjusted."""
    tested = [c for c in audit.comparisons if c.p_adjusted is not None]
    if not tested:
        return f"Variances are not tested: that takes {FEWEST_SEEDS} seeds per group."
    methods = {c.headline.method for c in tested}
    by_model = f"a Student-t model of the log variance ratio ({MODEL})"
    by_jackknife = "Miller's jackknife of the log variance ratio over seeds"
    how = by_model if methods == {MODEL} else by_jackknife
    if MODEL in methods and len(methods) > 1:
        some = sum(c.headline.method != MODEL for c in tested)
        how = f"{by_model}, or in {some} of {len(tested)} comparisons, whose shapes differ, by {by_jackknife}"
    pairs = sum(c.headline.pairs > 0 for c in tested)
    shared = "" if not pairs else f", with shared seeds as pairs{f' in {pairs}' * (pairs < len(tested))}"
    family = tested[0].family
    adjusted = f" adjusted for {family} comparisons (Bonferroni)" if family > 1 else ""
    out = [
        f"Variances are compared by {how}{shared}; p values are two-sided, and they and the "
        f"{audit.level:.0%} intervals are{adjusted or ' for a single comparison'}."
    ]
    if any(c.word == "NO" for c in tested):
        factor = tested[0].headline.equivalence
        out.append(f"Variances count as alike if two one-sided tests show a ratio within {factor:g}x.")
    if audit.looks:
        out.append(f"This is {look_title(audit.looks)}, and the levels account for all of them.")
    if any(c.means for c in audit.comparisons):
        out.append("Means over seeds are compared by t intervals, not adjusted.")
    return " ".join(out)


def _failed(audit: AuditResult) -> str:
    """Return how failed runs were treated."""
    failed = [c.failures for c in audit.comparisons if c.failures and c.failures.kind != "clusters"]
    if not failed:
        return "No run is recorded as failed."
    done = "are left out of means and variances, and their rates are compared by Fisher's exact test"
    if len(audit.comparisons) > 1:
        return f"Seeds with a failed run (in {len(failed)} of {len(audit.comparisons)} comparisons) {done}."
    f = failed[0]
    counts = " and ".join(
        f"{k} of {n} in {name}" for name, k, n in zip(f.groups, f.failed, f.seeds, strict=True)
    )
    return f"Seeds with a failed run ({counts}) {done}."
