"""
Twelve pairs of patterns contain all that one half of a digit says about the other
==================================================================================

Cut images of handwritten digits in the middle: what does the left half say about the right one? Canonical
correlation analysis finds pairs of patterns, one in each half, that are correlated over the images. The
correlations on the fitted images are too large, so a third of the images is held out for testing. The picture
of a pair shows its loadings, the correlations of the pixels with the variate; weights alone
do not show what a variate means.

The variates also predict the missing half. With all pairs and no ridge this is ordinary least squares, as a
comparison with scikit-learn shows. Twelve pairs predict equally well.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

import linspec as ls

images = load_digits().images  # 1797 images of 8 x 8 pixels
left, right = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
order = np.random.default_rng(0).permutation(len(images))
train, test = order[:1200], order[1200:]

# %%
# Pairs of patterns
# -----------------
# The ridge prevents that pixels which are almost always white fit single images.

cca = ls.solve(ls.CCA(left[train], right[train], k=4, ridge=100.0))
new = cca.score(left[test], right[test])
of_left, of_right = cca.loadings(left[train], right[train])

figure, axes = plt.subplots(1, 4, figsize=(9, 2.9), layout="constrained")
for pair, panel in enumerate(axes):
    # Pixels that are always blank have no correlation: 0.
    both = np.hstack([of_left[:, pair].reshape(8, 4), of_right[:, pair].reshape(8, 4)])
    picture = panel.imshow(both, cmap="RdBu_r", vmin=-1, vmax=1)
    panel.axvline(3.5, color="black", linewidth=1)
    panel.set(xticks=[], yticks=[])
    fitted, held_out = cca.correlations[pair], new.correlations[pair]
    panel.set_title(f"pair {pair + 1}\n{fitted:.2f} fitted, {held_out:.2f} new", fontsize=10)
figure.colorbar(picture, ax=axes, label="correlation with\nthe variate")
figure.suptitle("Patterns of the left half go with patterns of the right, on new images too")

assert min(new.correlations) > 0.6  # 14 standard errors of correlations without a relation, 1/sqrt(597)

# %%
# The missing half
# ----------------
# The share of the variance of the right halves of new images that their left halves explain, by the number of
# pairs.

ks = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28]
reached = []
for k in ks:
    exact = ls.solve(ls.CCA(left[train], right[train], k=k), "direct")
    reached.append(r2_score(right[test], exact.predict(left[test]), multioutput="variance_weighted"))

least_squares = LinearRegression().fit(left[train], right[train])
peer = r2_score(right[test], least_squares.predict(left[test]), multioutput="variance_weighted")

figure, curve = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
curve.plot(ks, reached, "o-", label="linspec, k pairs")
curve.axhline(peer, color="#555555", linestyle="--", label="scikit-learn, least squares")
curve.set(xlabel="k, number of pairs", ylabel="share of variance explained, new images", ylim=(0, 0.35))
curve.legend(loc="lower right")
curve.set_title(
    f"Twelve pairs explain {reached[7]:.1%} of the variance,\nleast squares on all pixels {peer:.1%}"
)

assert abs(reached[-1] - peer) < 1e-4  # all pairs without a ridge: ordinary least squares
assert reached[7] > 0.97 * peer

# %%
# Predicted halves: single pixels are hard to predict, but the digit can often be recognised.

twelve = ls.solve(ls.CCA(left[train], right[train], k=12), "direct")
guessed = twelve.predict(left[test]).clip(0, 16)

figure, axes = plt.subplots(2, 10, figsize=(9, 2.2), layout="constrained")
for i in range(10):
    for panel, half in zip(axes[:, i], (right[test[i]], guessed[i]), strict=True):
        panel.imshow(
            np.hstack([left[test[i]].reshape(8, 4), half.reshape(8, 4)]), cmap="gray_r", vmin=0, vmax=16
        )
        panel.axvline(3.5, color="#D55E00", linewidth=1)
        panel.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("true")
axes[1, 0].set_ylabel("right half\nguessed")
figure.suptitle("Right halves of new images, guessed from left ones by twelve pairs")
plt.show()
