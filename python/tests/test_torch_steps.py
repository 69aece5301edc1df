"""Gradients that are added to main_grad, casts cached over micro-batches, and recorded steps."""

import pytest

torch = pytest.importorskip("torch")

from models import GPT, Llama

import te_mlir
import te_mlir.torch


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


RECIPE = te_mlir.Float8CurrentScaling()


def batches(count):
    return [(torch.randint(0, 64, (2, 32)), torch.randint(0, 64, (2, 32))) for _ in range(count)]


def wide_gradients(model, inputs):
    """The bf16 gradients of a model compiled without main_grad, in float32."""
    compiled = te_mlir.torch.jit(model, recipe=RECIPE, strict=True)
    model.zero_grad()
    loss = compiled(*inputs)[0]
    loss.backward()
    found = {n: p.grad.float() for n, p in model.named_parameters()}
    model.zero_grad()
    return loss.detach(), found


def assert_sums(model, wanted):
    """Checks that main_grad is `wanted`, except that each part of `wanted` was rounded to bf16."""
    for name, parameter in model.named_parameters():
        assert parameter.grad is None, name
        main = parameter.main_grad
        assert main.dtype is torch.float32
        assert (main - wanted[name]).abs().max() <= 2.0**-7 * wanted[name].abs().max(), name


@pytest.mark.sampled
@pytest.mark.parametrize("cuda_graph", [False, True])
@pytest.mark.parametrize("cache_weights", [False, True])
def test_main_grad_is_the_sum_over_micro_batches(cuda_graph, cache_weights):
    model = Llama().bfloat16()
    inputs = batches(3)
    parts = [wide_gradients(model, one) for one in inputs]
    total = {name: sum(grads[name] for _, grads in parts) for name in parts[0][1]}
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(
        model, recipe=RECIPE, strict=True, main_grad=True, cache_weights=cache_weights, cuda_graph=cuda_graph
    )
    for parameter in model.parameters():
        parameter.main_grad = torch.full(parameter.shape, 1e30)
    mains = {name: p.main_grad for name, p in model.named_parameters()}
    for _ in range(2):
        losses = []
        for index, one in enumerate(inputs):
            with compiled.te.microbatch(first=index == 0):
                loss = compiled(*one)[0]
                loss.backward()
            losses.append(loss.detach())
        assert all(torch.equal(mine, theirs) for mine, (theirs, _) in zip(losses, parts))
        assert_sums(model, total)
    assert all(p.main_grad is mains[name] for name, p in model.named_parameters())


@pytest.mark.sampled
@pytest.mark.parametrize("cuda_graph", [False, True])
@pytest.mark.parametrize("order", ["sum", "last first", "last first, then the rest"])
def test_the_first_micro_batch_may_come_last_in_the_backward(order, cuda_graph):
    """Autograd runs the backwards of a sum of losses from the last forward to the first."""
    model = Llama().bfloat16()
    inputs = batches(3)
    total = {n: 0.0 for n, _ in model.named_parameters()}
    for one in inputs:
        for name, grad in wide_gradients(model, one)[1].items():
            total[name] = total[name] + grad
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, recipe=RECIPE, strict=True, main_grad=True, cuda_graph=cuda_graph)
    # The earlier values of the sums do not matter.
    for parameter in model.parameters():
        parameter.main_grad = torch.full(parameter.shape, 1e30)
    for _ in range(2):
        losses = []
        for index, one in enumerate(inputs):
            with compiled.te.microbatch(first=index == 0):
                losses.append(compiled(*one)[0])
        if order == "sum":
            sum(losses).backward()
        else:
            for index in (2, 1, 0) if order == "last first" else (2, 0, 1):
                losses[index].backward()
        assert_sums(model, total)


@pytest.mark.parametrize("make", [GPT, Llama])
def test_a_sum_that_is_another_in_the_backward_is_told(make):
    """For example, a step may set gradients to None after its forward.

    The gradient would then be lost with the old sum.
    """
    model = make()
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=True)
    inputs = (torch.randn(16, 64),) if make is GPT else batches(1)[0]

    def loss():
        result = compiled(*inputs)
        return result[0] if make is Llama else result.square().mean()

    loss().backward()
    parameter = list(model.parameters())[-1]
    for other in (torch.zeros_like(parameter), None):
        mine = loss()
        parameter.main_grad = other
        with pytest.raises(te_mlir.ArgumentError, match="main_grad': expected the tensor of the forward, but there is"):
            mine.backward()
    # Setting the sums to zero in place is allowed.
    mine = loss()
    for each in model.parameters():
        each.main_grad.zero_()
    mine.backward()
    assert all(each.main_grad.abs().max() > 0 for each in model.parameters())


def test_without_micro_batches_calls_add():
    model = Llama().bfloat16()
    one = batches(1)[0]
    _, wanted = wide_gradients(model, one)
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, recipe=RECIPE, strict=True, main_grad=True)
    assert compiled.te.is_first_microbatch is None
    for count in (1, 2):
        compiled(*one)[0].backward()
        assert_sums(model, {name: count * grad for name, grad in wanted.items()})


def test_inputs_still_get_gradients():
    model = GPT()
    x = torch.randn(16, 64, requires_grad=True)
    model(x).square().mean().backward()
    wanted, x.grad = x.grad, None
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=True)
    model.zero_grad()
    compiled(x).square().mean().backward()
    assert (x.grad - wanted).norm() < 1e-5 * wanted.norm()
    assert model.up.weight.grad is None and model.up.weight.main_grad.abs().max() > 0


def test_recorded_steps_train_as_others():
    ids, labels = batches(1)[0]
    runs = []
    for cuda_graph in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Llama().bfloat16()
        compiled = te_mlir.torch.jit(
            model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True, cuda_graph=cuda_graph
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses = []
        for step in range(6):
            loss = compiled((ids + step) % 64, labels.clone())[0]
            loss.backward()
            if step % 2:
                # Autograd accumulates two gradients before each step.
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss)
        runs.append((torch.stack(losses), [p.detach().clone() for p in model.parameters()]))
    assert torch.equal(runs[0][0], runs[1][0])
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1], runs[1][1]))


def test_gradients_in_one_block_train_as_others(monkeypatch):
    runs = []
    for shared in (1 << 20, 0):
        monkeypatch.setattr(te_mlir.makers, "SHARED_BYTES", shared)
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Llama().bfloat16()
        compiled = te_mlir.torch.jit(model, recipe=RECIPE, strict=True)
        parameters = list(model.parameters())
        optimizer = torch.optim.AdamW(parameters, lr=1e-2, foreach=True)
        history = []
        for step, one in enumerate(batches(6)):
            loss = compiled(*one)[0]
            loss.backward()
            if step % 2 == 0:
                # Autograd takes the gradients without copying them, from a block of their own or from the arena.
                (size,) = {len(p.grad.untyped_storage()) for p in parameters}
                arena = compiled.te.graphs[0].region.load(True).pool.program.arena_bytes
                assert (size == arena) is not bool(shared)
                assert len({p.grad.untyped_storage().data_ptr() for p in parameters}) == 1
            else:
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                optimizer.step()
                optimizer.zero_grad()
            assert all(p.grad is None or not p.grad._is_view() for p in parameters)
            history.append(loss.detach())
        # If autograd reads a gradient, a write to another gradient does not change it.
        compiled(*batches(1)[0])[0].backward()
        first, second = parameters[:2]
        product = (first.detach().clone().requires_grad_() * first.grad).sum()
        second.grad.zero_()
        product.backward()
        runs.append((torch.stack(history), [p.detach().clone() for p in parameters]))
    assert torch.equal(runs[0][0], runs[1][0])
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1], runs[1][1]))


def test_a_recorded_step_is_recorded_once(monkeypatch):
    model = Llama().bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=RECIPE, strict=True, main_grad=True, cuda_graph=True)
    calls = []
    replay = te_mlir.runtime.Instance.replay

    def counted(self, pointers, stream, begin, end):
        calls.append((self.handle, begin, end, tuple(pointers)))
        replay(self, pointers, stream, begin, end)

    monkeypatch.setattr(te_mlir.runtime.Instance, "replay", counted)
    for one in batches(6):
        compiled(*one)[0].backward()
    # From the third call on, addresses do not change, because inputs that moved are copied by then.
    assert len(calls) == 12 and len(set(calls[4:])) == 2


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_nothing_is_allocated_after_the_first_steps(cuda_graph, monkeypatch):
    model = Llama().bfloat16()
    compiled = te_mlir.torch.jit(
        model, recipe=RECIPE, strict=True, main_grad=True, cache_weights=True, cuda_graph=cuda_graph
    )
    inputs = batches(4)
    compiled(*inputs[0])[0].backward()
    made = []
    for kind in (te_mlir.runtime.Tensor, te_mlir.runtime.Instance):
        start = kind.__init__

        def counted(self, *args, start=start):
            made.append(self)
            start(self, *args)

        monkeypatch.setattr(kind, "__init__", counted)
    for index, one in enumerate(inputs):
        with compiled.te.microbatch(first=index == 0):
            compiled(*one)[0].backward()
    assert not made
    # Check that allocations are counted: a second forward before the backward needs another arena.
    first = compiled(*inputs[0])[0]
    compiled(*inputs[1])
    assert made and first.requires_grad


def test_gradients_of_recorded_steps_are_the_callers_own():
    """A recorded backward writes to the same memory again. Gradients that were returned before do not change."""
    model = GPT()
    compiled = te_mlir.torch.jit(model, strict=True, cuda_graph=True)
    parameters, inputs = list(model.parameters()), [torch.randn(16, 64) for _ in range(3)]
    given = [torch.autograd.grad(compiled(x).square().mean(), parameters) for x in inputs]
    hooked = []
    handle = parameters[0].register_hook(hooked.append)
    for x in inputs:
        compiled(x).square().mean().backward()
    handle.remove()
    wanted = [torch.autograd.grad(model(x).square().mean(), parameters) for x in inputs]
    for mine, theirs in zip(given, wanted):
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(mine, theirs))
    assert all(torch.equal(a, mine[0]) for a, mine in zip(hooked, given))


def test_recorded_forwards_in_flight_have_results_of_their_own():
    model = GPT()
    x, y = torch.randn(16, 64), torch.randn(16, 64)
    plain = te_mlir.torch.jit(model, strict=True)
    wanted = [plain(x).detach().clone(), plain(y).detach().clone()]
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True, cuda_graph=True)
    a, b = compiled(x), compiled(y)
    assert torch.equal(a, wanted[0]) and torch.equal(b, wanted[1])
    (a.sum() + b.sum()).backward()


def test_misuse_is_told():
    model = GPT()
    plain = te_mlir.torch.jit(model, strict=True)
    with pytest.raises(ValueError, match="expected 'cache_weights' or 'main_grad' for 'is_first_microbatch'"):
        plain.te.is_first_microbatch = True
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=True)
    for wrong, said in (
        (torch.zeros(64, 256, dtype=torch.bfloat16), "expected elements of float32, but got bfloat16"),
        (torch.zeros(64, 255), r"expected shape \[64, 256\], but got \[64, 255\]"),
        (torch.zeros(256, 64).t(), "expected a row-major tensor without gaps"),
        (torch.zeros(64, 256, device="meta"), "expected memory of 'cpu', but got 'meta'"),
    ):
        model.down.weight.main_grad = wrong
        with pytest.raises(te_mlir.ArgumentError, match=f"argument 'down.weight.main_grad': {said}"):
            compiled(torch.randn(16, 64))
    model.down.weight.main_grad = None
    compiled(torch.randn(16, 64)).sum().backward()
    assert model.down.weight.main_grad.shape == (64, 256)


def test_modules_take_fuse_wgrad_accumulation():
    layer = te_mlir.torch.Linear(64, 48, params_dtype=torch.bfloat16, fuse_wgrad_accumulation=True)
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    with te_mlir.torch.autocast(recipe=RECIPE):
        layer(x, is_first_microbatch=True).float().square().sum().backward()
        once = layer.weight.main_grad.clone()
        layer(x, is_first_microbatch=False).float().square().sum().backward()
        assert torch.equal(layer.weight.main_grad, 2 * once) and once.abs().max() > 0
        layer(x, is_first_microbatch=True).float().square().sum().backward()
        assert torch.equal(layer.weight.main_grad, once)
        # The default of TransformerEngine adds to the sum.
        layer(x).float().square().sum().backward()
        assert torch.equal(layer.weight.main_grad, 2 * once)
    assert layer.weight.grad is None and layer.bias.grad is None
