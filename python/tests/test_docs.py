"""Every Python block of the pages runs, in order."""

import pathlib
import re

import pytest

import te_mlir

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["users/python.md", "users/torch.md", "users/jax.md", "users/rl.md", "tutorial.md"])
def test_page_runs(page, monkeypatch, reference):
    needed = {"users/python.md": "ml_dtypes", "users/jax.md": "jax", "users/rl.md": "ml_dtypes"}
    pytest.importorskip(needed.get(page, "torch"))
    monkeypatch.chdir(ROOT / "examples" / "byte_lm")
    if page == "tutorial.md":
        pytest.importorskip("transformers").logging.set_verbosity_error()
    monkeypatch.setattr("te_mlir.program.context_of", lambda *_: reference)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert blocks
    names = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert te_mlir
