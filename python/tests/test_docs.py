"""Runs every Python block of the documentation pages, in order."""

import pathlib
import re

import pytest

import te_mlir

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    "guides/python.md",
    "guides/pytorch.md",
    "guides/jax.md",
    "guides/reinforcement_learning.md",
    "get_started/first_model.md",
    "get_started/tutorial.md",
    "reference/errors.md",
]


def test_cpp_is_of_the_trainer():
    """The C++ blocks are parts of the trainer, which test/install builds and runs."""
    trainer = (ROOT / "examples/cpp_trainer/trainer.cpp").read_text()
    blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs/guides/cpp.md").read_text(), re.S)
    assert blocks
    for block in blocks:
        assert block in trainer


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, monkeypatch, reference):
    needed = dict.fromkeys(
        ("get_started/first_model.md", "guides/python.md", "guides/reinforcement_learning.md"), "ml_dtypes"
    )
    needed["guides/jax.md"] = "jax"
    pytest.importorskip(needed.get(page, "torch"))
    if page == "guides/reinforcement_learning.md":
        pytest.importorskip("torch")
    monkeypatch.chdir(ROOT / "examples" / "byte_lm")
    if page == "get_started/tutorial.md":
        pytest.importorskip("transformers").logging.set_verbosity_error()
    monkeypatch.setattr("te_mlir.step.context_of", lambda *_: reference)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert blocks
    names = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert te_mlir
