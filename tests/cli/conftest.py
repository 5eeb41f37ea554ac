"""A folder with the files of all tests, in which the commands run."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("click")
    from cli.running import write_files

    monkeypatch.chdir(tmp_path)
    write_files()
    return tmp_path
