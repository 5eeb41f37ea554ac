"""Normalizers that ship with linspec: one method, one file; ``plugin.py`` declares them."""
