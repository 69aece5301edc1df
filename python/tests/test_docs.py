"""Every Python block of the pages runs, in order."""

import pathlib
import re

import pytest
import te_mlir

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "users"


@pytest.mark.parametrize("page", ["python.md", "torch.md"])
def test_page_runs(page, monkeypatch, reference):
    pytest.importorskip("torch" if page == "torch.md" else "ml_dtypes")
    monkeypatch.setattr("te_mlir.program.context_of", lambda *_: reference)
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.S)
    assert len(blocks) >= 4
    names = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert te_mlir
