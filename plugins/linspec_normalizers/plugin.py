"""The declarations of the normalizers of this package, which are not imported here."""

from __future__ import annotations

from linspec import NormalizerSpec, hookimpl


@hookimpl
def linspec_normalizers() -> tuple[NormalizerSpec, ...]:
    """Declare the normalizers.

    Returns
    -------
    tuple of NormalizerSpec
    """
    return (
        NormalizerSpec(
            name="cholesky-qr",
            target="linspec_normalizers.cholesky_qr:CholeskyQR",
            summary="Cholesky QR, repeated, shifted or replaced as conditioning demands: the fast default.",
            reference="Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015, ETNA 44, 306-326; shifted: Fukaya, "
            "Kannan, Nakatsukasa, Yamamoto and Yanagisawa 2020, doi:10.1137/18M1218212",
            traits=("direct",),
        ),
        NormalizerSpec(
            name="inverse-sqrt",
            target="linspec_normalizers.rank_revealing:InverseSqrt",
            summary="Symmetric inverse square root of the Gram matrix: the basis nearest to the block.",
            reference="Ma, Lu and Foster 2015, Finding linear structure in large datasets with scalable "
            "canonical correlation analysis, ICML (PMLR 37)",
            traits=("direct",),
        ),
        NormalizerSpec(
            name="qr",
            target="linspec_normalizers.qr:QR",
            summary="Householder QR by the array's own library: slowest, and indifferent to conditioning.",
            reference="Householder 1958, doi:10.1145/320941.320947",
            traits=("direct",),
        ),
        NormalizerSpec(
            name="rank-revealing",
            target="linspec_normalizers.rank_revealing:RankRevealing",
            summary="Eigen-decomposition of the scaled Gram matrix, twice, cut at its numerical rank.",
            reference="Stathopoulos and Wu 2002, doi:10.1137/S1064827500370883",
            traits=("direct",),
        ),
    )
