"""
Words of two languages share exactly the topics that were planted
=================================================================

Each row is a document in two languages, and a column says whether a word occurs. Words are drawn at random,
with one exception: every document has one of eight topics, and some of its words belong to that topic, in both
languages. Canonical correlations find what the two views share. The matrices stay sparse, also with centring.

How many pairs are real? If the rows of one view are permuted, the views share nothing, so their correlations
are those of chance for these columns and this ridge. Eight topics have seven differences: seven correlations
are larger. Clusters of the variates of new documents are the topics, although the solver did not know them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

import linspec as ls

texts = ls.datasets.planted_word_views(0, n=6000, p=2000, q=1500, shared=8, strength=(0.3, 0.2))
X, Y = texts.X[:4000], texts.Y[:4000]  # sparse: 1.6 % of the entries
problem = ls.CCA(X, Y, k=12, ridge=50.0)
found = ls.solve(problem, rng=0)
null = ls.null_correlations(problem, permutations=5, rng=0)

# %%
# The variates of new documents use only the words of the first language. The clusters are computed in seven dimensions.

places = found.transform(texts.X[4000:])[:, :7]
clusters = KMeans(8, n_init=5, random_state=0).fit_predict(places)
agreement = adjusted_rand_score(texts.topics[4000:], clusters)
beyond_chance = int((found.correlations > null.max()).sum())

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ls.plots.scree(found, null=null, ax=left)
left.set_title(f"{beyond_chance} correlations beyond chance:\n8 topics, less 1 for the means")
shared = contingency_matrix(texts.topics[4000:], clusters)
shared = shared[:, shared.argmax(axis=0).argsort()]  # clusters have no order of their own
right.imshow(shared, cmap="Blues")
for (topic, cluster), documents in np.ndenumerate(shared):
    ink = "white" if documents > 100 else "black"
    right.text(cluster, topic, documents, ha="center", va="center", fontsize=8, color=ink)
right.set(xlabel="cluster of variates", ylabel="planted topic", xticks=range(8), yticks=range(8))
right.set_title(f"Clusters of new documents are the topics\n(adjusted Rand index {agreement:.3f})")
plt.show()

assert beyond_chance == 7
assert agreement > 0.95
assert np.ptp(null, axis=0).max() < 0.1  # a few permutations are enough here
