"""Normalizers, which make the columns of a block orthonormal: one method, one file; `plugin` declares them.

Read `qr` first.
"""
