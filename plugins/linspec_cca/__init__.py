"""Canonical correlation analysis."""
