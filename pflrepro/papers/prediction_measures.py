"""What is measured on the predictions of all clients' models on the pooled test set: one kept answer serves all of these measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pflrepro.data.heterogeneity import total_variation
from pflrepro.errors import check_word
from pflrepro.papers.measures import Evidence, Measure, Value
from pflrepro.papers.model_measures import LAST, PERCENT, Arrays, over_clients

if TYPE_CHECKING:
    from pflrepro.metrics.predictions import Predictions
    from pflrepro.simulation.simulation import Simulation


def predictions_of(evidence: Evidence) -> Predictions:
    """The predicted labels of all clients' models on the pooled test set; scores are ones and zeros."""
    from pflrepro.metrics.classification import predicted_labels
    from pflrepro.metrics.predictions import Predictions, predict

    def take(simulation: Simulation) -> Arrays:
        found = predict(simulation)
        arrays = {"labels": found.labels, "owner": found.owner, "own": found.own_predicted, "pooled": found.pooled}
        arrays["ensemble"] = predicted_labels(found.ensemble)
        if found.global_scores is not None:
            arrays["server"] = predicted_labels(found.global_scores)
        sizes = {"classes": np.array(found.classes), "clients": np.array(found.clients)}
        return {name: array.astype(np.min_scalar_type(array.max())) for name, array in (arrays | sizes).items()}

    kept = evidence.reading("predictions", take, after=False)  # `after`: a part of the question that kept answers have
    classes = int(kept["classes"])

    def scores(name: str) -> np.ndarray | None:
        return np.arange(classes) == kept[name][:, None] if name in kept else None

    return Predictions(
        classes=classes,
        after=False,
        labels=kept["labels"].astype(np.int64),
        owner=kept["owner"].astype(np.int64),
        own_scores=scores("own"),
        pooled=kept["pooled"].astype(np.int32),
        ensemble=scores("ensemble"),
        global_scores=scores("server"),
        clients=int(kept["clients"]),
    )


GRP_SCORES = {
    "T_g": "the global model (or the clients' ensemble), on all test data",
    "T_p": "a client's model, on its own test data",
    "T_r": "a client's model, on all test data",
    "T_l": "harmonic mean of T_p and T_r of a client",
}
NEAREST, FARTHEST = "nearest", "farthest"


def grp_fed(score: str, of_client: str | None = None) -> Measure:
    """T_g, T_p, T_r or T_l of GRP-FED (macro-F1), see `personalisation.grp_fed_scores`, in percent.

    Args:
        of_client: those of one client alone [GRP Figure 5]: of the `nearest` or `farthest` one, by the total variation of its test
            labels to the pooled ones; there T_g is the global model (the ensemble, where there is none) on the client's test part.
    """
    check_word("score of GRP-FED", score, GRP_SCORES)
    if of_client is not None:
        check_word("client", of_client, (NEAREST, FARTHEST))

    def of(evidence: Evidence) -> Value:
        from pflrepro.metrics.personalisation import f1_of_server, grp_fed_scores

        predictions = predictions_of(evidence)
        scores = grp_fed_scores(predictions)
        vectors = {"T_p": scores.personal, "T_r": scores.general, "T_l": scores.harmonic}
        if of_client is None:
            return over_clients(vectors[score], scale=100.0) if score in vectors else Value(100.0 * scores.t_g)
        if score == "T_g":
            vectors[score] = f1_of_server(predictions)
        apart = total_variation(tested(predictions))
        client = np.nanargmin(apart) if of_client == NEAREST else np.nanargmax(apart)
        return Value(100.0 * float(vectors[score][client]))

    whose = f" of the {of_client} client" if of_client else ""
    what = "the global model, on its test data" if whose and score == "T_g" else GRP_SCORES[score]
    alone = {"name": f"{score}{whose.replace(' ', '-')}", "title": f"{score}{whose}: {what} (macro-F1)"}
    metric = "global_test_macro_f1" if score == "T_g" and of_client is not None else f"{score}_macro_f1"
    return Measure(of=of, digits=1, metric=metric, printed=100.0, rule=LAST, bounds=PERCENT, **alone)


def tested(predictions: Predictions) -> np.ndarray:
    """Test samples of each client and class, int64 [clients, classes]."""
    counts = np.zeros((predictions.clients, predictions.classes), np.int64)
    np.add.at(counts, (predictions.owner, predictions.labels), 1)
    return counts
