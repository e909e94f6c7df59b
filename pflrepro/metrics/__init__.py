"""What is measured: from a run's history, from the predictions of a simulation's models, and between methods.

Names load their module on first use; nothing is imported here.

* of a history: `accuracy` (pooled and plain curves), `selection` (rules that take one number from a curve), `curves` (rounds to a
  threshold, convergence), `fairness` (spread over clients), `divergence` (where training came apart), `cost` (time, numbers sent).
* of models: `predictions` (labels and scores of a simulation's models), `classification` (macro-F1 of arrays),
  `personalisation` (macro-F1 per client; GRP-FED's scores), `newcomers` (clients that come later; plain fine-tuning),
  `training_time` (where pFedFDA's local training spends its time).
* of features and models, looked inside: `mdl` (description length of a layer's features), `leakage` (samples recovered from uploads,
  PSNR), `representations` (features of any layer, t-SNE, Fisher ratio, distances), `separation` (of classes and clients, silhouette),
  `theory` (pFedFDA's Theorem 1, divergences between domains), `toy` (FedBR's model that goes on with half of the classes).
  Tutorials: `notebooks/tutorials/03_domain_bias.ipynb`, `03_description_length.ipynb`, `08_leakage.ipynb`; pictures: `mdl`,
  `leakage`, `embedding` in `pflrepro.viz`.
* between methods: `intervals` (bootstrap), `comparison` (paired tests).
"""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "predict": ".predictions",
    "Predictions": ".predictions",
    "grp_fed_scores": ".personalisation",
    "macro_f1": ".classification",
    "client_spread": ".fairness",
    "rounds_to": ".curves",
    "iterations_to_convergence": ".curves",
    "select": ".selection",
    "bootstrap": ".intervals",
    "over_seeds": ".intervals",
    "over_weighted_clients": ".intervals",
    "t_interval": ".intervals",
    "paired": ".comparison",
    "holm": ".comparison",
    "timing": ".cost",
    "Probe": ".probe_training",
    "online_codelength": ".mdl",
    "summarise": ".mdl",
    "Attack": ".leakage",
    "observe": ".leakage",
    "recover": ".leakage",
    "psnr": ".leakage",
    "collect": ".representations",
    "collect_layers": ".representations",
    "tsne": ".representations",
    "fisher_ratio": ".representations",
    "local_bias": ".representations",
    "class_separation": ".separation",
    "client_distances": ".separation",
    "silhouette": ".separation",
    "Setting": ".theory",
    "risk": ".theory",
    "best_beta": ".theory",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
