"""
Hypergraph learning arranges images by what digits have in common; with classes as labels it is LDA
===================================================================================================

Linear discriminant analysis (LDA) finds directions that separate classes. Hypergraph spectral learning does this for
labels if a row may have several: each label is a hyperedge that connects the rows with this label. Both
are the problem ``ls.Discriminant``, with different targets.

Images of digits get three labels: the digit is even, it has a closed loop, it has a bar at the top or the bottom.
A regression on three directions predicts the labels of new images. Two facts hold exactly: where every row has one
label, its class, the hypergraph of Zhou, Huang and Schölkopf is LDA; and LDA without a ridge predicts the classes
that scikit-learn's does.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import linspec as ls

# %%
# Classes: three cultivars of wine
# --------------------------------

wine = load_wine()
measured = StandardScaler().fit_transform(wine.data)
lda = ls.solve(ls.Discriminant(measured, ls.targets.lda(wine.target)))
of_edges = ls.solve(ls.Discriminant(measured, ls.targets.hsl(np.eye(3)[wine.target])))
peer = LinearDiscriminantAnalysis().fit(measured, wine.target)
same = int((lda.predict(measured) == peer.predict(measured)).sum())

figure, panel = plt.subplots(figsize=(5.4, 4), layout="constrained")
kinds = [str(wine.target_names[i]) for i in wine.target]
ls.plots.scores(lda.transform(measured), kinds, label="direction", ax=panel)
panel.set_title(
    f"Two directions tell three cultivars apart;\n{same} of {len(wine.target)} predictions are scikit-learn's"
)

assert same == len(wine.target)
assert np.allclose(of_edges.eigenvalues[:2], lda.eigenvalues)  # classes as hyperedges are LDA
assert ls.metrics.subspace_distance(of_edges.weights[:, :2], lda.weights) < 1e-8

# %%
# Hyperedges: what digits have in common
# --------------------------------------

digits = load_digits()
members = {"even": [0, 2, 4, 6, 8], "loop": [0, 6, 8, 9], "bar": [2, 5, 7]}
labels = np.column_stack([np.isin(digits.target, edge) for edge in members.values()]).astype(float)
rows = np.random.default_rng(0).permutation(len(labels))
train, test = rows[:1200], rows[1200:]

found = ls.solve(ls.Discriminant(digits.data[train], ls.targets.hsl(labels[train]), ridge=100.0))
reduced = found.transform(digits.data)
areas = [
    roc_auc_score(
        edge[test], LogisticRegression().fit(scaled[train], edge[train]).predict_proba(scaled[test])[:, 1]
    )
    for scaled in [StandardScaler().fit(reduced[train]).transform(reduced)]
    for edge in labels.T
]

figure, panel = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
kinds = [
    ", ".join(name for name, has in zip(members, row, strict=True) if has) or "none" for row in labels[test]
]
ls.plots.scores(reduced[test], kinds, label="direction", ax=panel)
words = ", ".join(f"{name} {area:.2f}" for name, area in zip(members, areas, strict=True))
panel.set_title(f"New images by their labels, areas under the curve:\n{words}")
plt.show()

assert min(areas) > 0.9
