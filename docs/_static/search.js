// The order of the results of the search: `html_search_scorer` of Sphinx, which loads this before its own script.
//
// Sphinx shows only pages with all words of a query, in an order that takes no notice of what a page is for. Here pages
// of tasks come first and evidence last, every word counts, and where few pages have all words the others that have
// most of them follow. ASKED has places, and the words with which newcomers ask for them.
"use strict";

const ASKED = {
  "start/install": "install installation setup pip requirements dependencies versions extras",
  "start/tour": "tutorial quickstart introduction getting started begin first beginner",
  "start/jobs": "recipe recipes cookbook howto examples csv parquet",
  "start/jobs#10-a-file-that-is-larger-than-the-memory": "larger bigger than memory ram out of core big file large",
  "guide/choose-a-solver": "which solver choose method algorithm auto select best fast default",
  "guide/answers": "save saving load model persist pickle store export reuse deploy predict new rows transform unseen",
  "guide/answers#checkpoints-go-on-where-a-run-has-ended": "checkpoint resume continue interrupted run",
  "guide/data": "input data types dataframe pandas polars numpy torch jax dlpack tensorflow sparse tensor formats pass",
  "guide/data#weights-confounds-and-scale":
    "confounds confounders confounding covariates covariate regress adjust nuisance batch partial control add weights "
    + "standardize scale scaling normalize normalise",
  "guide/data#data-frames-and-names": "column names feature names labels categorical strings frame pandas polars",
  "guide/data#how-a-run-ends-early": "time limit timeout stop interrupt max_seconds",
  "guide/data#threads-memory-and-other-processes": "threads cores parallel memory limit n_jobs logging verbose",
  "guide/files": "files parquet csv hdf5 zarr anndata h5ad disk larger than memory out of core",
  "guide/rows-later":
    "incremental online streaming partial_fit update add rows new data batch batches minibatch federated sites merge pooled "
    + "IncrementalPCA moments accumulate",
  "guide/scale": "cluster dask distributed machines spark larger than memory",
  "guide/gpu": "gpu cuda cupy torch device accelerator",
  "guide/certificates": "residual converged convergence accuracy error trust status certificate warning",
  "guide/choosing":
    "cross validation cv ridge alpha lambda regularization penalty hyperparameter tune tuning grid search "
    + "how many components number k",
  "guide/compare": "compare benchmark solvers kernels",
  "guide/plots": "plot plots picture figure draw scree biplot visualize matplotlib",
  "guide/estimators": "scikit learn sklearn pipeline estimator fit transform gridsearchcv",
  "guide/faq": "missing nan values sign signs differ reproducible seed random",
  "guide/faq#does-it-take-missing-values": "missing values value nan nans impute imputation na null",
  "guide/faq#why-do-signs-or-scales-differ-from-my-old-tool": "sign flip signs differ scale other results different",
  "problems/svd": "pca svd principal components component sparse matrix lsa truncated explained variance dimension reduction",
  "problems/svd#how-many-components": "parallel analysis horn number of components factors p value scree chance kaiser",
  "problems/cca": "cca canonical correlation correlations two views multimodal loadings",
  "problems/cca#how-many-components":
    "p value values pvalue significance significant permutation test bootstrap interval confidence wilks null "
    + "hypothesis inference uncertainty error bars standard errors",
  "problems/cca#rows-that-were-not-fitted": "predict new rows test set held out score generalize overfitting",
  "problems/least-squares": "least squares linear regression ridge intercept coefficients ols",
  "problems/many-targets":
    "many targets multi output multioutput multitarget alpha per target banded group ridge bands voxels encoding model himalaya",
  "problems/reduced-rank": "reduced rank regression rrr low multivariate multi output multitask targets redundancy analysis rda",
  "problems/supervised": "lda discriminant classification classify classes labels multilabel pls opls",
  "problems/supervised#classes-of-new-rows": "predict class classes probabilities new rows classifier",
  "problems/kernel-ridge": "kernel ridge regression nonlinear regression svr gaussian process rbf predict",
  "problems/kernel-cca": "kernel nonlinear rbf gaussian nystrom",
  "problems/multiset-cca": "mcca gcca maxvar multiset generalized canonical correlation three several many views multiway",
  "problems/multiset-cca#rows-that-a-view-lacks": "missing absent rows views incomplete mask present samples",
  "problems/multiset-cca#sumcor": "sumcor horst rgcca sum of correlations",
  "problems/deep-cca": "deep neural network nets nonlinear torch",
  "problems/sparse-weights": "sparse lasso l1 penalised penalized pmd pma group stability selection",
  "problems/preimage-cca": "nonlinear sparse weights hsic preimage",
  "reference/command-line": "command line cli terminal shell",
  "extend/write-a-plugin": "plugin custom own solver write extend",
  "about/cite": "cite citation reference bibtex paper",
};

const IMPORTANCE = [  // the first that fits the name of a page
  [/^(evidence|listings|auto_gallery\/papers|about\/stability|extend\/(fuzzing|printed|architecture)|solvers\/(data|numbers))/, 0.2],
  [/^(start|guide|problems|about|reference\/command-line)/, 2],
  [/^(api|auto_gallery|glossary|reference)/, 1],
  [/./, 0.6],
];

const QUESTION_WORDS = new Set("a an any can could do does for from get how i in is it me my of on or please should "
  .concat("some the there this to use using want what when where which why with you your").split(" "));

var splitQuery = (query) => {
  const words = query.split(/[^\p{Letter}\p{Number}_]+/gu).filter((word) => word);
  const telling = words.filter((word) => !QUESTION_WORDS.has(word.toLowerCase()));
  return telling.length ? telling : words;
};

var Scorer = {
  score: ([page, title, , , score, , kind]) => {
    const method = kind === "object" && title.split(".").length > 2;  // linspec.solve comes before methods of this name
    return score * IMPORTANCE.find(([names]) => names.test(page))[1] * (method ? 0.2 : 1);
  },
  objNameMatch: 60,
  objPartialMatch: 2,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 5,
  term: 4,
  partialTerm: 1,
};

// Pages by the sum over the words, in place of pages that have all of them by the best word alone.
const byAllWords = (pagesWith) => (words, excluded) => {
  const index = Search._index, stemmer = new Stemmer(), found = new Map();
  const add = (place, item, word, score) => {
    const entry = found.get(place) ?? { item: [...item], words: new Set(), score: 0 };
    entry.words.add(word);
    entry.score += score;
    found.set(place, entry);
  };
  const asked = Object.entries(ASKED).map(([place, text]) =>
    [place, new Set(text.split(" ").map((word) => stemmer.stemWord(word)))]);
  for (const word of words) {
    for (const item of pagesWith(new Set([word]), excluded)) add(item[0], item, word, item[4]);
    for (const [place, stems] of asked) {
      if (!stems.has(word)) continue;
      const [page, anchor] = place.split("#"), file = index.docnames.indexOf(page);
      const section = anchor && Object.entries(index.alltitles).find(([, places]) =>
        places.some(([number, id]) => number === file && id === anchor))?.[0];
      const title = section ? `${index.titles[file]} > ${section}` : index.titles[file];
      const item = [page, title, anchor ? `#${anchor}` : "", null, 0, index.filenames[file], SearchResultKind.text];
      add(place, item, word, 20);
    }
  }
  const entries = [...found.values()], most = (least) => entries.filter((entry) => entry.words.size >= least);
  let least = words.size;
  while (least > 1 && most(least).length < 3) least -= 1;
  return most(least).map(({ item, words: matched, score }) => {
    item[4] = score * (matched.size / words.size) ** 2;
    return item;
  });
};

// Sphinx loads this after its own script; should that change, before it begins to search.
const takeOver = () => { Search.performTermsSearch = byAllWords(Search.performTermsSearch); };
if (typeof Search === "undefined") document.addEventListener("DOMContentLoaded", takeOver);
else takeOver();
