"""Principal components of rows with missing entries.

Read `problem` first, then `em`.
"""
