"""te_mlir.torch.optim.SGD compared with torch.optim.SGD and torch.nn.utils.clip_grad_norm_."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

from optimizers import SHAPES, U, assert_near, assert_same_step, give_gradients, parameters

import te_mlir.torch.optim
from te_mlir.errors import ArgumentError

VARIANTS = (
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.1},
    {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
)


def bounds(param, grad, buffer, group):
    """How far apart two updates in float32 from one state may be: bounds of the buffer and of the parameter.

    A buffer has at most 5 roundings of terms that `size` bounds, and a direction 5 more; the constants are the same
    numbers of float32, and a compiler may leave out a rounding. Two updates have twice as many, and 24 is above that.
    """
    p, g = param.detach().double().abs(), grad.double().abs()
    b = 0.0 if buffer is None else buffer.double().abs()
    decayed = g + group["weight_decay"] * p
    size = group["momentum"] * b + decayed
    direction = group["momentum"] * size + decayed if group["nesterov"] else size
    return 24 * U * size, 24 * U * (p + group["lr"] * direction)


@pytest.mark.parametrize("options", VARIANTS)
def test_updates_are_those_of_pytorch(options):
    def groups(tensors):
        return [{"params": tensors[:2]}, {"params": tensors[2:], "weight_decay": 0.0, "lr": 1e-2}]

    ours, theirs = parameters(), parameters()
    reference = torch.optim.SGD(groups(theirs), lr=3e-3, foreach=False, **options)
    mine = te_mlir.torch.optim.SGD(groups(ours), lr=3e-3, **options)
    for number in range(4):
        give_gradients(ours, number)
        give_gradients(theirs, number)
        # Both start each step from the state of PyTorch, so that the bounds are those of one step. lr changes.
        for group in reference.param_groups:
            group["lr"] *= 0.5
        mine.load_state_dict(reference.state_dict())
        limits = {}
        for group in reference.param_groups:
            for tensor in group["params"]:
                limits[tensor] = bounds(tensor, tensor.grad, reference.state[tensor].get("momentum_buffer"), group)
        for a, b in zip(ours, theirs):
            a.data.copy_(b.data)
        versions = [tensor._version for tensor in ours]
        reference.step()
        mine.step()
        for a, b, version in zip(ours, theirs, versions):
            if not a.numel():
                continue
            assert a._version > version
            of_buffer, of_p = limits[b]
            assert_near(a, b, of_p)
            assert mine.state[a].keys() == reference.state[b].keys()
            if "momentum" in options:
                assert_near(mine.state[a]["momentum_buffer"], reference.state[b]["momentum_buffer"], of_buffer)
    assert len(mine._programs) == 1


@pytest.mark.parametrize("max_norm", (0.5, 1e6))
def test_clipping_has_the_bits_of_clipped_gradients(max_norm):
    ours, plain = parameters(), parameters()
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    mine = te_mlir.torch.optim.SGD(ours, **options, max_norm=max_norm)
    without = te_mlir.torch.optim.SGD(plain, **options)
    count = sum(tensor.numel() for tensor in plain)
    for number in range(2):
        give_gradients(ours, number)
        give_gradients(plain, number)
        mine.step()
        # The factor of PyTorch, of a norm whose sum may have another order.
        theirs = torch.nn.utils.clip_grad_norm_(plain, max_norm)
        torch.testing.assert_close(mine.grad_norm, theirs, rtol=count * U, atol=0.0)
        factor = (max_norm / (mine.grad_norm + 1e-6)).clamp(max=1.0)
        for tensor, own in zip(plain, ours):
            tensor.grad = own.grad * factor
        without.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, plain))


def test_a_closure_lowers_the_loss_and_lr_is_not_compiled_again():
    (tensor,) = parameters([(40,)])
    mine = te_mlir.torch.optim.SGD([tensor], lr=0.1, momentum=0.5)
    schedule = torch.optim.lr_scheduler.LinearLR(mine, total_iters=4)

    def closure():
        mine.zero_grad()
        loss = tensor.square().sum()
        loss.backward()
        return loss

    losses = []
    for _ in range(4):
        losses.append(mine.step(closure).item())
        schedule.step()
    assert losses[3] < losses[0] and len(mine._programs) == 1
    # Without momentum, the buffer stays as it was; with another momentum, it goes on.
    before = mine.state[tensor]["momentum_buffer"].clone()
    for momentum, programs in ((0.0, 2), (0.75, 3)):
        mine.param_groups[0]["momentum"] = momentum
        mine.step(closure)
        assert torch.equal(mine.state[tensor]["momentum_buffer"], before) == (momentum == 0)
        assert len(mine._programs) == programs


def test_checkpoints_and_copies():
    (tensor,) = parameters([(40,)])
    mine = te_mlir.torch.optim.SGD([tensor], lr=0.1, momentum=0.9, nesterov=True, max_norm=1.0)
    give_gradients([tensor], 0)
    mine.step()
    # PyTorch's class reads the state, writes it, and this one reads it back.
    between = torch.optim.SGD([torch.nn.Parameter(tensor.detach().clone())], lr=9.0)
    between.load_state_dict(mine.state_dict())
    other = torch.nn.Parameter(tensor.detach().clone())
    loaded = te_mlir.torch.optim.SGD([other], lr=9.0, max_norm=1.0)
    loaded.load_state_dict(copy.deepcopy(between.state_dict()))
    copied, pickled = copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))
    assert_same_step(mine, (loaded, copied, pickled), seed=1)
    # A state without buffers, as PyTorch saves it if there is no momentum.
    plain = torch.optim.SGD([tensor], lr=0.1)
    plain.step()
    loaded.load_state_dict(plain.state_dict())
    loaded.step()
    assert not loaded.state[other]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_narrow_parameters_are_rounded_once(dtype):
    ours = parameters(SHAPES, dtype)
    wide = [torch.nn.Parameter(tensor.detach().float()) for tensor in ours]
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    mine, reference = te_mlir.torch.optim.SGD(ours, **options), te_mlir.torch.optim.SGD(wide, **options)
    for number in range(2):
        give_gradients(ours, number)
        for a, b in zip(ours, wide):
            b.data.copy_(a.data)
            b.grad = a.grad.float()
        mine.step()
        reference.step()
        for a, b in zip(ours, wide):
            assert torch.equal(a, b.to(dtype))
            if a.numel():
                assert mine.state[a]["momentum_buffer"].dtype == torch.float32
                assert torch.equal(mine.state[a]["momentum_buffer"], reference.state[b]["momentum_buffer"])


def test_errors():
    one = parameters([(4, 6)])
    for options, message in (
        ({"max_norm": -1.0}, "expected 'max_norm' to be above 0, but got -1.0"),
        ({"momentum": 1.0}, "expected 'momentum' to be in \\[0, 1\\), but got 1.0"),
        (
            {"momentum": 0.9, "dampening": 0.5},
            "expected 'dampening' to be 0, which is all that is implemented, but got",
        ),
        ({"nesterov": True}, "expected 'momentum' to be above 0 with 'nesterov', but got 0"),
        ({"weight_decay": -1.0}, "expected 'weight_decay' to be zero or more, but got -1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            te_mlir.torch.optim.SGD(one, **options)
    mine = te_mlir.torch.optim.SGD(one)
    with pytest.raises(ArgumentError, match="expected 'dampening' to be 0, which is all that is implemented"):
        mine.load_state_dict(torch.optim.SGD(one, momentum=0.9, dampening=0.1).state_dict())
