"""What the runs behind a number allow to say: its interval, and which claimed orderings they decide.

A cell holds the selected accuracies of some seeds. The federation (partition, test samples) is the same for all of them, so seeds
tell how much start and batch order matter, and only clients tell how much the choice of clients matters.

Intervals (95 %): Student's t over 2 to 9 seeds, the bootstrap over 10 or more (with fewer it is too narrow, see
`pflrepro.metrics.intervals`), cut to 0 and 100 %. A single seed says nothing of other seeds: its interval is the bootstrap of the
pooled accuracy over clients, each drawn with its test samples, at the selected evaluations. That answers another question (other
clients, the same training), so every interval says which it is.

Claims: two-sided paired tests. An ordering is kept or broken where its own p is below 0.05, else undecided. Beside it stands the p
after Holm's correction (Scandinavian Journal of Statistics 1979) over all claims of the artefact that could be tested at that scale;
`ClaimOutcome.firm` says whether the decision stands there too.

* Two seeds or more: Student's paired t over the seeds that both methods have. The same seed means the same start and batch orders,
  so what they have in common cancels. Wilcoxon's ranks cannot give p < 0.05 with fewer than six seeds; the t test can, at the price
  of supposing that differences are about normal. With few seeds it has little power all the same: a difference must be 12.7 of its
  standard errors with two seeds, 4.3 with three, 3.2 with four, 2.8 with five (`t_needed`).
  Undecided does not mean equal; more seeds are the remedy (`--seeds`).
  Differences that are equal in all seeds happen with counts of few test samples and do not prove a spread of zero: there signs are
  flipped over seeds, p = 2^(1 - seeds).
* A single seed: signs of the clients' differences in correct predictions flipped at random (`comparison.paired`, `permutation`).
  That tests the pooled accuracy, which is what is claimed; ranks of the clients' accuracies (Demšar, JMLR 2006, compares data sets
  so) would weigh a client of 5 test samples like one of 50. It speaks of clients like these and of this one training.

Clients' differences averaged over two to four seeds would have more power (20 clients are 20 pairs), but are no substitute: a seed's
good or bad start moves all clients of a global model together, which a test over clients does not see. So this p is shown beside
(`p_clients`, uncorrected) and decides nothing where there are seeds.

Why an ordering's own p decides, and not the corrected one: a verdict is read one cell at a time, and asks one comparison, "is this
method above that one in this column?". Testing at 0.05 bounds the error of that one answer. Holm's correction answers for the family:
with probability 0.95 or more, none of all the decisions of an artefact is false. The claims of a table are a large family (ten methods
in eight columns), and with the papers' three trials the clearest of 80 differences would have to be 40 of its standard errors: nearly
everything would be undecided, whatever is true. The price is false decisions: of m tests about 0.05 m are decided by chance if nothing
differs, and the verdict of a cell that stands in ten claims shows the worst of ten tests. So whoever sums verdicts up is told how many
of the kept and of the broken also stand after the correction, and how many chance alone would decide (`verdicts.ClaimCounts`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from pflrepro.papers.artefact import Artefact, Claim, Column
from pflrepro.papers.finished import Trials
from pflrepro.papers.verdicts import ALPHA, ClaimOutcome

Cell = tuple[str, str]
EQUAL = 1e-9  # points; differences that are closer are the same counts


def interval(trials: Trials) -> tuple[float, float, str]:
    """(low, high, what it is) of a cell's mean accuracy in percent; NaN and "" for one seed with one tested client."""
    from pflrepro.metrics.intervals import over_clients, over_seeds

    count = len(trials.seeds)
    if count > 1:
        found = over_seeds(trials.values)
        low, high, what = found.low, found.high, f"{'t' if found.method == 't' else 'bootstrap'}, {count} seeds"
    else:
        found = over_clients(trials.correct[0], trials.samples[0])
        low, high, what = 100.0 * found.low, 100.0 * found.high, f"bootstrap, {found.n} clients"
    if math.isnan(low):
        return math.nan, math.nan, ""
    return max(low, 0.0), min(high, 100.0), what


def check_claims(artefact: Artefact, trials: dict[Cell, Trials]) -> list[ClaimOutcome]:
    """Every claim in every column where both rows were run, tested and decided; `trials` by (algorithm, column key)."""
    from pflrepro.metrics.comparison import holm

    tested = [
        _test(artefact, column, claim, trials[claim.better, column.key], trials[claim.worse, column.key])
        for column in artefact.columns
        for claim in artefact.claims
        if (claim.columns is None or column.key in claim.columns)
        and {(claim.better, column.key), (claim.worse, column.key)} <= trials.keys()
    ]
    adjusted = holm([claim.p for claim in tested]).tolist()
    return [replace(claim, adjusted=p) for claim, p in zip(tested, adjusted, strict=True)]


def t_needed(seeds: int, tests: int = 1) -> float:
    """How many of its standard errors a difference must be for p < 0.05 in the paired t test over `seeds`.

    `tests`: for the clearest of so many differences to stand after Holm's correction (p < 0.05 / tests).

    Example:
        >>> [round(t_needed(seeds), 1) for seeds in (2, 3, 4, 5)]
        [12.7, 4.3, 3.2, 2.8]
        >>> round(t_needed(3, tests=80))
        40
    """
    from scipy import stats

    return float(stats.t.ppf(1 - ALPHA / 2 / tests, seeds - 1))


def _outcome(difference: float, p: float) -> str:
    if not p < ALPHA:  # NaN too: no test
        return "undecided"
    return "kept" if difference > 0 else "broken"


def _test(artefact: Artefact, column: Column, claim: Claim, better: Trials, worse: Trials) -> ClaimOutcome:
    """The claim with its test and outcome; what Holm's correction makes of p needs all claims."""
    labels = {row.algorithm: row.label for row in artefact.rows}
    seeds = [seed for seed in better.seeds if seed in worse.seeds]
    p_clients, clients = _over_clients(better, worse, seeds)
    if len(seeds) > 1:
        difference, error, p, test = _over_seeds(better, worse, seeds)
    elif seeds:
        difference, error, p = float((better.at(seeds) - worse.at(seeds))[0]), math.nan, p_clients
        test = f"sign flips over {clients} clients" if clients else "none: other clients"
    else:
        difference, error, p = float(better.values.mean() - worse.values.mean()), math.nan, math.nan
        test = "none: no common seed"
    who = labels[claim.better], labels[claim.worse]
    outcome = _outcome(difference, p)
    return ClaimOutcome(column.key, *who, difference, error, outcome, claim.source, test=test, p=p, p_clients=p_clients)


def _over_seeds(better: Trials, worse: Trials, seeds: list[int]) -> tuple[float, float, float, str]:
    """(mean difference, its standard error s / sqrt(n), p, the test) over the common seeds."""
    import numpy as np

    from pflrepro.metrics.comparison import paired

    difference = better.at(seeds) - worse.at(seeds)
    count = len(seeds)
    error = float(difference.std(ddof=1) / math.sqrt(count))
    if np.ptp(difference) < EQUAL:
        p = paired(difference, np.zeros(count), "permutation").p if abs(difference).max() > EQUAL else 1.0
        return float(difference.mean()), error, p, f"sign flips over {count} seeds"
    return float(difference.mean()), error, paired(difference, np.zeros(count), "t").p, f"paired t over {count} seeds"


def _over_clients(better: Trials, worse: Trials, seeds: list[int]) -> tuple[float, int]:
    """(p, tested clients) of the clients' differences, averaged over the common seeds; NaN where clients differ."""
    import numpy as np

    from pflrepro.metrics.comparison import paired

    samples = [side.samples[side.seeds.index(seed)] for side in (better, worse) for seed in seeds]
    if not samples or not all(np.array_equal(samples[0], other) for other in samples[1:]):
        return math.nan, 0
    ours, theirs = (
        np.mean([side.correct[side.seeds.index(seed)] for seed in seeds], axis=0) for side in (better, worse)
    )
    tested = samples[0] > 0
    return paired(ours[tested], theirs[tested], "permutation").p, int(tested.sum())
