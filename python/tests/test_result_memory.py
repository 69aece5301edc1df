"""Memory of results: how new tensors are allocated, and which memory a step must not use."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from programs import count, train_step

import te_mlir
from te_mlir import build, makers


def test_new_results_share_memory_and_nothing_else(reference, monkeypatch):
    for limit, blocks in ((makers.SHARED_BYTES, 2), (4096, 3)):
        # grad.x has 4,096 bytes and grad.w 6,144. y is not a gradient, so it does not share memory.
        monkeypatch.setattr(makers, "SHARED_BYTES", limit)
        torch, step, tensors = train_step(reference)
        step(**tensors)
        first, second = step(**tensors), step(**tensors)
        assert step._quick is not None and list(first) == step.results
        assert len({t.untyped_storage().data_ptr() for t in first.values()}) == blocks
        for name, result in first.items():
            assert result.is_contiguous() and not result.requires_grad and not result._is_view()
            assert tuple(result.shape) == step.interface.results[name].shape and result.data_ptr() % 64 == 0
            assert torch.equal(result, second[name]) and result.data_ptr() != second[name].data_ptr()
        # A write to one result changes neither the others nor their versions. Each of them keeps the memory alive.
        first["grad.x"].fill_(7)
        assert [first[n]._version for n in first] == [n == "grad.x" for n in first]
        assert torch.equal(first["y"], second["y"]) and torch.equal(first["grad.w"], second["grad.w"])
        kept = first["grad.w"]
        del first, result
        step(**tensors)
        assert torch.equal(kept, second["grad.w"])


def test_new_tensors_are_what_empty_makes():
    torch = pytest.importorskip("torch")
    kinds = [
        ((3, 5), torch.float32, True),
        ((), torch.float32, True),
        ((0, 4), torch.bfloat16, True),
        ((7,), torch.bfloat16, True),
        ((4, 64), torch.float32, True),
        ((600, 500), torch.float32, True),
        ((256,), torch.bfloat16, True),
        ((2, 2, 32), torch.float32, True),
        ((6, 64), torch.float32, True),
        ((3, 64), torch.float32, True),
        ((2, 3, 4), torch.int32, True),
        ((9, 1), torch.bfloat16, True),
        ((2, 0), torch.float32, True),
        ((8,), torch.float32, False),
        ((4,), torch.float8_e4m3fn, True),
        *[((rows, 64), torch.float32, True) for rows in (2, 8, 4, 2)],
        *[((256 * count,), torch.float32, True) for count in (1, 2, 1, 1, 3, 1)],
        *[((rows, 3, 128), torch.bfloat16, True) for rows in (2, 4, 2, 6, 2, 2)],
    ]
    # Some of these indices are consecutive.
    places = [*reversed(range(10)), *range(11, len(kinds) + 1)]
    Pointers = ctypes.c_void_p * (len(kinds) + 1)
    pointers = Pointers()
    make = makers.TorchMaker(kinds, torch.device("cpu"), places, 64)
    assert [len(block.groups) for block in make._blocks] == [2, 1]
    # The memory of these results is free again, but the next call has other pointers.
    make(Pointers())
    made = make(pointers)
    assert pointers[10] is None
    addresses = [pointers[place] for place in places]
    assert [(tuple(t.shape), t.dtype) for t in made] == [kind[:2] for kind in kinds]
    for tensor, address in zip(made, addresses):
        plain = torch.empty(tensor.shape, dtype=tensor.dtype)
        assert tensor.stride() == plain.stride() and tensor.device == plain.device
        assert address % 16 == 0 and (not tensor.numel() or tensor.data_ptr() == address)
    # The results do not overlap: bytes written to one do not appear in another.
    for number, tensor in enumerate(made):
        tensor.view(torch.uint8).fill_(number + 1) if tensor.dim() else tensor.fill_(2)
    for number, tensor in enumerate(made):
        assert (tensor.view(torch.uint8) == number + 1).all() if tensor.dim() else tensor == 2
    assert [t.untyped_storage().data_ptr() == made[0].untyped_storage().data_ptr() for t in made] == [
        t.dtype is torch.float32 and t.nbytes <= makers.SHARED_BYTES and shares for t, (*_, shares) in zip(made, kinds)
    ]


def test_pointers_follow_memory_that_comes_and_goes():
    torch = pytest.importorskip("torch")
    kinds = [*[((rows, 256), torch.float32, True) for rows in (8, 2, 4, 2, 8, 2)], ((3, 5), torch.float32, True)]
    places = [4, 5, 6, 0, 1, 2, 8]
    make = makers.TorchMaker(kinds, torch.device("cpu"), places)
    several = [(ctypes.c_void_p * 9)() for _ in range(2)]
    kept, seen = [], set()
    for number in range(5 * makers._ADDRESSES):
        pointers = several[number % 3 == 0]
        pointers[3] = 7
        made = make(pointers)
        assert [pointers[place] for place in places] == [t.data_ptr() for t in made]
        assert pointers[3] == 7 and pointers[7] is None
        seen.add(made[0].data_ptr())
        # More addresses than the limit of the table, and then few that alternate.
        kept = [*kept, made] if number < 2 * makers._ADDRESSES else [made]
    assert len(seen) > makers._ADDRESSES and 0 < len(make._blocks[0].written) <= makers._ADDRESSES


def test_losses_of_several_calls_share_memory_and_nothing_else():
    torch = pytest.importorskip("torch")
    kinds = [((), torch.float32, False), ((32,), torch.bfloat16, False), ((33,), torch.bfloat16, False)]
    make = makers.TorchMaker(kinds, torch.device("cpu"), [0, 1, 2])
    pointers = (ctypes.c_void_p * 3)()
    kept = []
    for number in range(2 * makers._SLOTS + 1):
        inference = number in (5, makers._SLOTS)
        with torch.inference_mode(inference):
            made = make(pointers)
            for tensor in made[:2]:
                tensor.fill_(number)
        assert [t.data_ptr() for t in made] == list(pointers) and all(p % 64 == 0 for p in pointers[:2])
        assert [(tuple(t.shape), t.dtype, t.is_contiguous(), t._is_view()) for t in made] == [
            (*kind[:2], True, False) for kind in kinds
        ]
        assert all(t.is_inference() == inference for t in made)
        kept.append(made)
    for number, made in enumerate(kept):
        assert all((t == number).all() for t in made[:2])
    for place, blocks in ((0, 3), (1, 3), (2, len(kept))):
        storages = {made[place].untyped_storage().data_ptr() for made in kept}
        assert len(storages) == blocks
    # Memory is not used again if its storage was resized, or if it belongs to another stream.
    kept[-1][0].untyped_storage().resize_(0)
    number = make(pointers)[0]
    assert number.data_ptr() and number.fill_(3) == 3
    other, again = make(pointers, 7)[0], make(pointers, 7)[0]
    assert (
        other.untyped_storage().data_ptr() == again.untyped_storage().data_ptr() != number.untyped_storage().data_ptr()
    )
    # A CUDA graph that PyTorch records has its own memory.
    slots = make._alone[0][-1]
    slots._recording = lambda: True
    first, second = slots.take(7), slots.take(7)
    assert first[1] == second[1] == 0 and first[0].nbytes == makers._SLOT_BYTES
    assert len({t.data_ptr() for t in (first[0], second[0], again)}) == 3


def test_arrays_outlive_the_module_when_python_ends():
    pytest.importorskip("torch")
    # Python destroys modules in the reverse order of their imports.
    program = """
import torch
import te_mlir.runtime
context = te_mlir.runtime.context()
torch.kept = torch.from_dlpack(context.full((64, 64), "float32", 1.0)), context.full((8,), "float32", 1.0).__dlpack__()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


# Memory that a step must not use


def test_storages_that_are_too_small_are_told(reference):
    torch, step, tensors = train_step(reference)
    out = {"y": torch.empty(32, 48, dtype=torch.bfloat16)}
    for name, tensor in {**tensors, **out}.items():
        # In the first call, and in later ones, which check only addresses.
        for calls in (0, 3):
            step._quick = None
            short = tensor.clone()
            given, written = {**tensors, name: short}, {**out, name: short}
            given, written = {n: given[n] for n in tensors}, {n: written[n] for n in out}
            for _ in range(calls):
                step(**given, out=written)
            short.untyped_storage().resize_(64)
            with pytest.raises(te_mlir.ArgumentError) as caught:
                step(**given, out=written)
            assert str(caught.value) == (
                f"{'result' if name in out else 'argument'} '{name}': expected memory of {tensor.numel() * 2} bytes, "
                "but its storage was resized to 64"
            )


def test_inputs_that_move_lie_apart_from_what_is_written(reference):
    torch, step, tensors = train_step(reference, main_grad=True)
    grad = torch.zeros(48, 64)
    step.set_state({"grad.w": grad})
    expected = {n: t.clone() for n, t in step(**tensors).items()}
    sums = grad.clone()
    out = {"y": torch.empty(32, 48, dtype=torch.bfloat16)}
    inside = grad.view(torch.bfloat16).view(-1)[1024 : 1024 + 32 * 64].view(32, 64)
    half = tensors["x"].clone()
    here = tensors["x"].clone()
    for number in range(6):
        # Earlier calls have other addresses for x, and later ones also for the result.
        if number > 2:
            out = {"y": torch.empty_like(out["y"])}
        grad.zero_()
        results = step(**{**tensors, "x": tensors["x"].clone()}, out=out)
        assert all(torch.equal(results[n], t) for n, t in expected.items()) and torch.equal(grad, sums)
        for _ in range(2 * (number % 3)):
            # The rejected call left no addresses behind: the next call has those of the call before.
            step(**{**tensors, "x": here}, out=out)["y"].zero_()
            with pytest.raises(te_mlir.ArgumentError, match="state 'grad.w'.* overlaps argument 'x'"):
                step(**{**tensors, "x": inside}, out=out)
            with pytest.raises(te_mlir.ArgumentError, match="result 'y'.* overlaps argument 'x'"):
                step(**{**tensors, "x": half}, out={"y": half.view(-1)[: 32 * 48].view(32, 48)})
            assert torch.equal(step(**{**tensors, "x": here}, out=out)["y"], expected["y"])
        assert step._quick is not None


def test_memory_that_is_written_is_one_arguments(reference):
    torch, step, tensors = train_step(reference)
    y = torch.empty(32, 48, dtype=torch.bfloat16)
    wide = torch.empty(80 * 64, dtype=torch.bfloat16)
    shifted = {**tensors, "x": wide[1024 : 1024 + 32 * 64].view(32, 64)}
    wrong = [
        ({"grad.x": tensors["x"]}, tensors, "result 'grad.x'.* overlaps argument 'x'"),
        ({"grad.w": tensors["w"], "y": y}, tensors, "result 'grad.w'.* overlaps argument 'w'"),
        ({"y": wide[: 32 * 48].view(32, 48)}, shifted, "result 'y'.* overlaps argument 'x'"),
        ({"grad.x": wide[2048 : 2048 + 32 * 64].view(32, 64)}, shifted, "result 'grad.x'.* overlaps argument 'x'"),
        ({"y": y.view(-1).view(32, 48), "grad.y": y}, tensors, "out: expected results"),
    ]
    for out, given, said in wrong:
        with pytest.raises(te_mlir.ArgumentError, match=said):
            step(**given, out=out)
        # This also holds for a call with the addresses of the previous one.
        fine = {name: torch.empty_like(t) for name, t in out.items() if name in step.results}
        for _ in range(3):
            step(**tensors, out=fine)
        if len(fine) == len(out):
            for _ in range(2):
                with pytest.raises(te_mlir.ArgumentError, match=said):
                    step(**given, out=out)
    with pytest.raises(te_mlir.ArgumentError, match="result 'grad.x': .* overlaps result 'y'|'y': .* overlaps result"):
        both = torch.empty(32 * 64, dtype=torch.bfloat16)
        step(**tensors, out={"y": both[: 32 * 48].view(32, 48), "grad.x": both.view(32, 64)})
    # Adjacent memory is allowed, and so is one array for two inputs.
    beside = torch.empty(32 * 48 + 32 * 64, dtype=torch.bfloat16)
    out = {"y": beside[: 32 * 48].view(32, 48), "grad.x": beside[32 * 48 :].view(32, 64)}
    assert all(torch.equal(a, b) for a, b in zip(step(**tensors, out=out).values(), step(**tensors).values()))


def test_states_lie_apart_and_are_changed_in_place(reference):
    step = te_mlir.compile(count(("n", "m")), "count", context=reference)
    x, n = np.ones(4, np.float32), np.zeros(4, np.float32)
    step.set_state({"n": n, "m": n})
    with pytest.raises(te_mlir.ArgumentError, match="state '[nm]': .* overlaps state '[nm]'"):
        step(x=x)
    step.set_state({"m": x})
    with pytest.raises(te_mlir.ArgumentError, match="state 'm': expected memory of its own, .* overlaps argument 'x'"):
        step(x=x)
    m = np.zeros(4, np.float32)
    step.set_state({"m": m})
    step(x=x)
    step(x=x, n=n)
    assert (n == 2).all() and (m == 2).all()


def test_a_result_that_is_used_again_is_no_input(reference):
    module = build.Module()
    with module.function("f") as f:
        f.result("y", f.unary("math.exp", f.argument("x", (4,), "float32")))
    step = te_mlir.compile(module, "f", context=reference, reuse_results=True)
    y = step(np.zeros(4, np.float32))["y"]
    with pytest.raises(te_mlir.ArgumentError, match="result 'y': expected memory of its own"):
        step(y)
