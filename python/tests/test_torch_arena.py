"""Arenas from PyTorch's allocator, with gradients in them: who owns which memory, and for how long."""

import copy
import io

import pytest

torch = pytest.importorskip("torch")

from models import GPT, Llama
from torch.multiprocessing.reductions import StorageWeakRef

import te_mlir
import te_mlir.torch

#: Gradients of more bytes are in the arena: in these models matrices, but not vectors.
SMALL = 2048


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(te_mlir.makers, "SHARED_BYTES", SMALL)


def batches(count):
    return [(torch.randint(0, 64, (2, 32)), torch.randint(0, 64, (2, 32))) for _ in range(count)]


def jit(model, **options):
    torch._dynamo.reset()
    return te_mlir.torch.jit(model, strict=True, **options)


def pool_of(compiled, training=True):
    return compiled.te.graphs[0].region.load(training).pool


def storages(parameters):
    """Weak references to the storages of the gradients, by the number of bytes."""
    found = [p.grad.untyped_storage() for p in parameters]
    return {len(storage): StorageWeakRef(storage) for storage in found}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_equal(mine, wanted):
    for name, grad in wanted.items():
        assert torch.equal(mine[name], grad), name


def separate(monkeypatch, model, inputs, **options):
    """The gradients of a model for each of `inputs`, from steps whose gradients are all outside of the arena."""
    with monkeypatch.context() as patch:
        patch.setattr(te_mlir.makers, "SHARED_BYTES", 1 << 40)
        compiled = jit(model, **options)
        found = []
        for one in inputs:
            model.zero_grad()
            compiled(*one)[0].backward()
            found.append(gradients(model))
        loaded = compiled.te.graphs[0].region.load(True)
        assert all(a.arena_offset < 0 for a in loaded.pool.program.arguments)
    model.zero_grad()
    return found


def test_large_gradients_are_in_the_arena(monkeypatch):
    model = Llama(layers=2).bfloat16()
    inputs = batches(3)
    wanted = separate(monkeypatch, model, inputs, recipe=te_mlir.Float8CurrentScaling())
    compiled = jit(model, recipe=te_mlir.Float8CurrentScaling())
    parameters = dict(model.named_parameters())
    large = {name: p for name, p in parameters.items() if p.nbytes > SMALL}
    for one, grads in zip(inputs, wanted):
        compiled(*one)[0].backward()
        assert_equal(gradients(model), grads)
        pool = pool_of(compiled)
        size = pool.program.arena_bytes
        # Autograd took the gradients without copying them. They do not overlap, and are not views.
        inside = {name for name, p in parameters.items() if len(p.grad.untyped_storage()) == size}
        assert inside == set(large) and len(large) > 10
        assert len({p.grad.untyped_storage().data_ptr() for p in large.values()}) == 1
        assert all(not p.grad._is_view() and p.grad._version == 0 for p in large.values())
        for name, p in large.items():
            before = gradients(model)
            p.grad.zero_()
            before[name] = torch.zeros_like(p)
            assert_equal(gradients(model), before)
        # Nothing but the gradients has the memory.
        assert all(arena.block is None for arena in pool.free) and len(pool.free) == 1
        found = storages(large.values())
        assert not found[size].expired()
        model.zero_grad()
        assert found[size].expired()


def test_a_small_gradient_does_not_keep_the_arena():
    model = Llama().bfloat16()
    compiled = jit(model)
    compiled(*batches(1)[0])[0].backward()
    kept = model.norm.weight.grad
    value = kept.clone()
    found = storages(model.parameters())
    size = pool_of(compiled).program.arena_bytes
    assert len(kept.untyped_storage()) < size
    model.zero_grad()
    assert found[size].expired()
    # A large one does, and so does a view of it.
    compiled(*batches(1)[0])[0].backward()
    part = model.head.weight.grad[3:5]
    found = storages(model.parameters())
    model.zero_grad()
    assert not found[size].expired()
    del part
    assert found[size].expired() and torch.equal(kept, value)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_each_forward_in_flight_has_an_arena(cuda_graph, monkeypatch):
    model = Llama().bfloat16()
    inputs = batches(3)
    wanted = separate(monkeypatch, model, inputs)
    compiled = jit(model, cuda_graph=cuda_graph)
    for _ in range(2):
        losses = [compiled(*one)[0] for one in inputs]
        found = {}
        for index in (1, 2, 0):
            found[index] = torch.autograd.grad(losses[index], list(model.parameters()))
        for index, grads in found.items():
            assert_equal(dict(zip(wanted[index], grads)), wanted[index])
        del found, grads, losses
    pool = pool_of(compiled)
    assert len(pool.free) == 3
    if not cuda_graph:
        assert all(arena.block is None for arena in pool.free)


def test_forwards_without_a_backward_give_their_memory_back():
    model = Llama().bfloat16()
    compiled = jit(model)
    one = batches(1)[0]
    with torch.no_grad():
        first = compiled(*one)[0]
        assert torch.equal(compiled(*one)[0], first)
    evaluation = compiled.te.graphs[-1].region.load(False).pool
    assert evaluation.program.arena_bytes and [arena.block for arena in evaluation.free] == [None]
    loss = compiled(*one)[0]
    pool = compiled.te.graphs[-1].region.load(True).pool
    assert torch.equal(loss.detach(), first) and not pool.free
    del loss
    assert [arena.block for arena in pool.free] == [None]
    # A backward that fails gives it back, too.
    loss = compiled(*one)[0]
    with torch.no_grad():
        model.head.weight.mul_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    del loss
    assert [arena.block for arena in pool.free] == [None]


def test_a_checkpoint_needs_one_arena():
    model = GPT()
    x = torch.randn(16, 64, requires_grad=True)
    compiled = jit(model)
    compiled(x).square().mean().backward()
    wanted, x.grad = gradients(model), None
    model.zero_grad()
    for reentrant in (False, True):
        y = torch.utils.checkpoint.checkpoint(compiled, x, use_reentrant=reentrant)
        y.square().mean().backward()
        assert_equal(gradients(model), wanted)
        model.zero_grad()
    assert all(arena.block is None for arena in pool_of(compiled).free)


def test_copies_and_files_have_the_gradients():
    model = Llama().bfloat16()
    compiled = jit(model)
    compiled(*batches(1)[0])[0].backward()
    wanted = gradients(model)
    grads = {name: p.grad for name, p in model.named_parameters()}
    twins = copy.deepcopy(grads)
    file = io.BytesIO()
    torch.save(grads, file)
    for grad in grads.values():
        grad.zero_()
    file.seek(0)
    assert_equal(twins, wanted)
    assert_equal(torch.load(file), wanted)


def test_recorded_gradients_are_not_copied(monkeypatch):
    """With gradients that are dropped before the next forward, there is one arena, whose gradients are handed out."""
    model = Llama().bfloat16()
    inputs = batches(4)
    wanted = separate(monkeypatch, model, inputs)
    compiled = jit(model, cuda_graph=True)
    addresses = set()
    for one, grads in zip(inputs, wanted):
        compiled(*one)[0].backward()
        assert_equal(gradients(model), grads)
        addresses.add(tuple(p.grad.data_ptr() for p in model.parameters()))
        (arena,) = pool_of(compiled).free
        block = arena.block
        assert {p.grad.untyped_storage().data_ptr() for p in model.parameters()} == {block.untyped_storage().data_ptr()}
        assert arena.is_held()
        model.zero_grad()
        assert not arena.is_held()
    assert len(addresses) == 1


def test_recorded_micro_batches_add_up_in_two_arenas(monkeypatch):
    model = Llama().bfloat16()
    inputs = batches(3)
    parts = separate(monkeypatch, model, inputs)
    wanted = {name: (grad + parts[1][name]) + parts[2][name] for name, grad in parts[0].items()}
    compiled = jit(model, cuda_graph=True)
    for set_to_none in (True, True, False, False):
        for index, one in enumerate(inputs):
            compiled(*one)[0].backward()
            if index == 0:
                assert_equal(gradients(model), parts[0])
        assert_equal(gradients(model), wanted)
        model.zero_grad(set_to_none=set_to_none)
        assert len(pool_of(compiled).free) == 2
    # The sums are as PyTorch's own, except for the rounding of bf16.
    theirs = copy.deepcopy(model)
    theirs.zero_grad()
    for one in inputs:
        theirs(*one)[0].backward()
    for name, p in theirs.named_parameters():
        assert (p.grad.float() - wanted[name].float()).norm() <= 0.05 * p.grad.float().norm(), name


def contents(value):
    """The elements of a tensor or an array, or the bytes of a storage, which is slow to read one by one."""
    return (
        torch.empty(0, dtype=torch.uint8).set_(value) if isinstance(value, torch.UntypedStorage) else value
    ).tolist()


@pytest.mark.parametrize(
    "keep",
    [
        lambda grad: grad,
        lambda grad: grad[1:, 2:],
        lambda grad: grad.detach().t(),
        lambda grad: grad.view(torch.int16).numpy(),
        lambda grad: grad.untyped_storage(),
    ],
)
def test_recorded_gradients_that_are_kept_do_not_change(keep, monkeypatch):
    model = Llama().bfloat16()
    inputs = batches(6)
    wanted = separate(monkeypatch, model, inputs)
    compiled = jit(model, cuda_graph=True)
    kept = []
    for one, grads in zip(inputs, wanted):
        compiled(*one)[0].backward()
        assert_equal(gradients(model), grads)
        value = keep(model.head.weight.grad)
        kept.append((value, copy.deepcopy(value)))
        model.zero_grad()
        for value, before in kept:
            same = contents(value) == contents(before)
            assert same
    # However many are kept, further ones are copies.
    assert len(pool_of(compiled).free) == 3
    del value, before, kept
    assert not any(arena.is_held() for arena in pool_of(compiled).free)
    compiled(*inputs[0])[0].backward()
    assert_equal(gradients(model), wanted[0])
    assert len(pool_of(compiled).free) == 3


def test_recorded_gradients_that_stay_take_all_further_ones(monkeypatch):
    """`.grad` that nobody sets to zero is the sum of all steps."""
    model = Llama().bfloat16()
    inputs = batches(4)
    parts = separate(monkeypatch, model, inputs)
    compiled = jit(model, cuda_graph=True)
    total = None
    for one, grads in zip(inputs, parts):
        compiled(*one)[0].backward()
        total = grads if total is None else {name: total[name] + grad for name, grad in grads.items()}
        assert_equal(gradients(model), total)
    assert len(pool_of(compiled).free) == 2


def test_the_report_has_the_gradients():
    model = Llama().bfloat16()
    compiled = jit(model)
    compiled(*batches(1)[0])[0].backward()
    inside, _, outside = compiled.te.report("memory").partition("arguments and results, outside the arena")
    assert "grad.head.weight" in inside and "grad.head.weight" not in outside
    assert "grad.norm.weight" in outside


def test_misuse_is_told():
    with pytest.raises(ValueError, match="expected no 'results_in_arena', because te_mlir.torch chooses these results"):
        te_mlir.torch.jit(GPT(), results_in_arena="grad.*")
    text = """
    func.func @f(%x: tensor<64x32xf32> {te.name = "x"}) -> (tensor<64x32xf32> {te.name = "y"}) {
      %y = te.activation <silu> %x : tensor<64x32xf32> -> tensor<64x32xf32>
      return %y : tensor<64x32xf32>
    }
    """
    with pytest.raises(
        te_mlir.ArgumentError, match=r"expected results with memory of their own, but .* \['y'\] in the"
    ):
        te_mlir.compile(text, "f", results_in_arena="y")
    with pytest.raises(te_mlir.CompileError, match="expected 'results-in-arena' to name results of 'f'.*there are 'y'"):
        te_mlir.compile(text, "f", results_in_arena="z")
