"""Repeated calls: recorded steps, memory of results that is used again, and micro-batches."""

import sys

import numpy as np
import pytest
from programs import train_step

import te_mlir
from te_mlir import build


def test_recorded_steps_run_no_code_again(reference, monkeypatch):
    torch, plain, tensors = train_step(reference)
    _, step, _ = train_step(reference, cuda_graph=True)
    first = step(**tensors)
    kept = {name: result.clone() for name, result in first.items()}
    assert all(torch.equal(kept[name], wanted) for name, wanted in plain(**tensors).items())
    # The addresses do not change, so the recorded launches are replayed.
    tensors["x"].mul_(2)
    again = step(**tensors)
    assert all(again[name] is first[name] for name in first)
    assert torch.equal(again["y"], plain(**tensors)["y"]) and not torch.equal(again["y"], kept["y"])
    # At a new address, an input is copied, and a weight is used in place after recording again.
    for name in ("x", "w"):
        for _ in range(3):
            moved = {**tensors, name: torch.randn(tensors[name].shape).bfloat16()}
            mine, theirs = step(**moved), plain(**moved)
            assert all(torch.equal(mine[n], theirs[n]) for n in theirs), name
    assert list(step._quick.own) == [0]
    # The values at the new addresses change.
    for _ in range(3):
        moved["x"].mul_(0.5)
        assert torch.equal(step(**moved)["y"], plain(**moved)["y"])
    # Count recordings: there are none if only inputs move.
    calls = []
    pointers = step._instance._replay

    def counted(handle, array, *rest):
        calls.append(tuple(array))
        return pointers(handle, array, *rest)

    monkeypatch.setattr(step._instance, "_replay", counted)
    for _ in range(4):
        step(**{**tensors, "x": torch.randn(32, 64).bfloat16()})
    assert len(set(calls)) == 1


def test_a_quick_call_checks_what_the_first_did(reference):
    for cuda_graph in (False, True):
        torch, step, tensors = train_step(reference, cuda_graph=cuda_graph)
        for _ in range(3):
            step(**tensors)
        assert step._quick is not None
        odd = torch.empty(32 * 64 + 8, dtype=torch.bfloat16)[1 : 32 * 64 + 1].view(32, 64)
        foreign = torch.from_numpy(np.zeros(32 * 64 + 8, np.float32).view(np.int16)[1 : 32 * 64 + 1].reshape(32, 64))
        freed = torch.zeros(32, 64, dtype=torch.bfloat16)
        freed.untyped_storage().resize_(0)
        for wrong, said in (
            (tensors["x"].float(), "expected elements of bfloat16, but got float32"),
            (tensors["x"][:16], r"expected shape \[32, 64\], but got \[16, 64\]"),
            (tensors["x"].t().contiguous().t(), "expected a row-major array"),
            (tensors["x"].to("meta"), "expected a dense tensor in memory"),
            (odd, "expected memory aligned to 16 bytes"),
            (foreign.view(torch.bfloat16), "expected memory aligned to 16 bytes"),
            (freed, "expected a tensor with memory"),
            (torch._neg_view(tensors["x"]), "expected a tensor whose memory holds its elements"),
        ):
            with pytest.raises(te_mlir.ArgumentError, match=f"argument 'x': {said}"):
                step(**{**tensors, "x": wrong})
            step(**tensors)
        # The tensor object is the same, but its size changes.
        step(**tensors)
        tensors["w"].resize_(24, 64)
        with pytest.raises(te_mlir.ArgumentError, match="argument 'w': expected shape"):
            step(**tensors)


def test_results_are_made_anew_reused_or_given(reference):
    torch, plain, tensors = train_step(reference)
    first, second = plain(**tensors), plain(**tensors)
    assert all(first[n].data_ptr() != second[n].data_ptr() for n in plain.results)
    _, step, _ = train_step(reference, reuse_results=True)
    kept = step(**tensors)
    assert all(torch.equal(kept[n], first[n]) for n in first)
    doubled = {**tensors, "grad.y": tensors["grad.y"] * 2}
    again = step(**doubled)
    assert step._quick is not None and all(again[n] is kept[n] for n in kept)
    assert torch.equal(kept["grad.x"], 2 * first["grad.x"])
    # Some or all results are written to tensors of the caller, which may differ between calls.
    for names in (["grad.w"], list(reversed(plain.results))):
        for _ in range(3):
            out = {name: torch.full_like(first[name], 7) for name in names}
            results = plain(**doubled, out=out)
            assert list(results) == plain.results and all(results[n] is out[n] for n in names)
            assert all(torch.equal(results[n], again[n]) for n in results)
        assert plain._quick.outs == tuple(names)
        short = {**out, names[0]: out[names[0]][:8]}
        odd = {**out, names[0]: torch.empty(8 * 48 * 64, dtype=torch.bfloat16)[1:][: out[names[0]].numel()]}
        odd[names[0]] = odd[names[0]].view(out[names[0]].shape)
        for wrong, said in ((short, "expected shape"), (odd, "aligned to 16 bytes")):
            with pytest.raises(te_mlir.ArgumentError, match=f"result '{names[0]}': .*{said}"):
                plain(**doubled, out=wrong)
            plain(**doubled, out=out)
            plain(**doubled, out=out)
    with pytest.raises(te_mlir.ArgumentError, match="out: expected results"):
        plain(**doubled, out={"z": out["y"]})


def test_kept_results_share_memory_too(reference):
    torch, step, tensors = train_step(reference, reuse_results=True)
    plain = train_step(reference)[1](**tensors)
    for _ in range(3):
        results = step(**tensors)
    blocks = {n: t.untyped_storage().data_ptr() for n, t in results.items()}
    assert blocks["grad.x"] == blocks["grad.w"] != blocks["y"] and len(step._quick.storages) == 2
    assert all(torch.equal(t, plain[n]) and not t._is_view() for n, t in results.items())
    results.pop("y")
    assert list(step(**tensors)) == step.results


def test_kept_results_that_are_resized_are_told(reference):
    for size in (0, 64):
        torch, step, tensors = train_step(reference, cuda_graph=True)
        for _ in range(3):
            result = step(**tensors)["grad.x"]
        result.untyped_storage().resize_(size)
        with pytest.raises(te_mlir.ArgumentError, match="result 'grad.x': expected .* resized to"):
            step(**tensors)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_micro_batches_add_in_main_grad_and_keep_casts(reference, cuda_graph):
    torch, plain, tensors = train_step(reference)
    _, step, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    assert "grad.w" in step.state_names and step.results == ["y", "grad.x"]
    # A later micro-batch does not cast weights, so it ignores the changed one.
    changed = {**tensors, "w": tensors["w"] * 2, "x": tensors["x"] * 0.5}
    for _ in range(2):
        main = torch.full((48, 64), float("nan"))
        step.set_state({"grad.w": main})
        total = torch.zeros_like(main)
        for given, weights, first in ((tensors, tensors, True), (changed, tensors, False), (changed, changed, True)):
            with step.microbatch(first=first):
                mine = step(**given)
            theirs = plain(**{**given, "w": weights["w"]})
            assert torch.equal(mine["y"], theirs["y"]) and torch.equal(mine["grad.x"], theirs["grad.x"])
            wide = theirs["grad.w"].float()
            total = wide if first else total + wide
            # `wide` was rounded to bf16 once in each micro-batch.
            assert (main - total).abs().max() <= 2 * 2.0**-8 * total.abs().max()
            assert first or (main - wide).abs().max() > 0.1
    with pytest.raises(te_mlir.ArgumentError, match="'cache_weights' or 'main_grad' for 'microbatch'"):
        with plain.microbatch(first=True):
            pass


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_later_micro_batch_comes_after_a_first(reference, cuda_graph):
    torch, step, tensors = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'first': expected True in the first call.*'w.row.data'"):
        with step.microbatch(first=False):
            step(**tensors)
    with step.microbatch(first=True):
        first = {name: t.clone() for name, t in step(**tensors).items()}
    with step.microbatch(first=False):
        assert all(torch.equal(t, first[name]) for name, t in step(**tensors).items())
    # Casts that another step computed are valid, also if they are set as states. Without cache_weights, no casts are
    # needed.
    _, other, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    other.set_state({n: s for n, s in step.state.items() if n != "grad.w"})
    _, filled, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    for name, state in filled.state.items():
        state.copy_bytes(step.state[name].tobytes())
    _, plain, _ = train_step(reference, main_grad=True, cuda_graph=cuda_graph)
    for one in (other, filled, plain):
        one.set_state({"grad.w": torch.zeros(48, 64)})
        with one.microbatch(first=False):
            assert all(torch.equal(t, first[name]) for name, t in one(**tensors).items())


@pytest.mark.parametrize("kept", ["cuda_graph", "reuse_results"])
def test_a_call_like_the_one_before_takes_the_short_path_and_leaves_nothing(reference, monkeypatch, kept):
    torch = pytest.importorskip("torch")
    module = build.Module()
    with module.function("many") as f:
        for number in range(36):
            x = f.argument(f"x{number}", (4,), "float32")
            f.result(f"y{number}", f.add(x, x))
    step = te_mlir.compile(module, "many", context=reference, **{kept: True})
    tensors = {name: torch.ones(4) for name in step.inputs}
    for _ in range(3):
        results = step(**tensors)
    assert len(results) == 36 and step._quick is not None
    launched = []
    monkeypatch.setattr(step._instance, "run", lambda *arguments: launched.append(0))
    monkeypatch.setattr(step._instance, "replay", lambda *arguments: launched.append(0))
    step(**tensors)
    blocks = sys.getallocatedblocks()
    for _ in range(1000):
        launched.clear()
        step(**tensors)
    assert len(launched) == 1 and sys.getallocatedblocks() - blocks < 50
