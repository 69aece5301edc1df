"""te_mlir.torch.optim.Muon compared with torch.optim.Muon and with its definition in float64."""

import copy
import math
import pickle

import pytest

torch = pytest.importorskip("torch")

from optimizers import U, assert_near, assert_same_step, give_gradients, parameters

import te_mlir.torch.optim
from te_mlir.errors import ArgumentError

if not hasattr(torch.optim, "Muon"):
    pytest.skip("expected torch.optim.Muon, but got an older PyTorch", allow_module_level=True)

#: Wide, square and tall matrices, and sizes that are no multiples of anything.
SHAPES = [(8, 24), (24, 8), (16, 16), (7, 13), (13, 7), (1, 5)]
#: Half the distance of numbers of bfloat16, relative, with 5% for all roundings to float32: at most 24 sqrt(16) + 16 of them
#: in a product or norm of these sizes, relative to Frobenius norms.
NARROW = 1.05 * 2.0**-9
DEFAULTS = {"momentum": 0.95, "nesterov": True, "ns_coefficients": (3.4445, -4.775, 2.0315), "eps": 1e-7, "ns_steps": 5}
#: With the default coefficients, errors grow too fast for a bound of more than two steps to mean anything.
VARIANTS = (
    {"ns_steps": 0, "weight_decay": 0.0},
    {"ns_steps": 1},
    {"ns_steps": 2, "momentum": 0.5, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
    {"ns_steps": 5, "ns_coefficients": (1.875, -1.25, 0.375)},
)


def give_even_gradients(tensors, seed):
    """Gradients whose singular values differ by at most 1.2, and whose singular vectors are the same for each seed."""
    for number, tensor in enumerate(tensors):
        fixed = torch.Generator().manual_seed(number)
        u, _, v = torch.linalg.svd(torch.randn(tensor.shape, generator=fixed), full_matrices=False)
        values = 0.9 + 0.2 * torch.rand(min(tensor.shape), generator=torch.Generator().manual_seed(seed))
        tensor.grad = (u * values @ v).to(tensor.dtype)


def largest(polynomial, low, high, critical):
    """The largest magnitude of a polynomial in s² on [low, high]; `critical` is the s² where it may have an extremum."""
    at = [low * low, high * high] + ([critical] if low * low < critical < high * high else [])
    return max(abs(polynomial(square)) for square in at)


def orthogonalized(direction, options, once):
    """The iteration in float64, and how far a computation with operands of bfloat16 may be from it in the Frobenius norm.

    once: whether the direction, the gram matrix, the polynomial and the iterate are rounded to bfloat16 only once each, and
    the last iterate not at all, as te does. PyTorch also rounds the norm and the direction before they are divided, and may
    round the terms of sums.

    An error E of an iterate X becomes at most L E, where L is the largest divided difference of the odd polynomial p that a
    step applies to singular values: over [low, high], which has those of all matrices between, and between s and -s, where
    it is p(s) / s. Errors of a step add to that: that of the gram matrix A, whose effect on bA + cA² is at most that of
    b + c (s² + t²), the rounding of bA + cA², and that of the result.
    """
    a, b, c = options["ns_coefficients"]
    x = direction.double()
    x = x / max(x.norm().item(), options["eps"])
    error = NARROW * (1 if once else 3)
    for step in range(options["ns_steps"]):
        values = torch.linalg.svdvals(x)
        low, high = max(values[-1].item() - error, 0.0), values[0].item() + error
        size = x.norm().item() + error
        slope = largest(lambda s: a + 3 * b * s + 5 * c * s * s, low, high, -3 * b / (10 * c))
        growth = largest(lambda s: a + b * s + c * s * s, low, high, -b / (2 * c))
        scale = largest(lambda s: b + c * s, low, high, -1.0) * high
        gram = NARROW * high * size
        polynomial = largest(lambda s: b + 2 * c * s, low, high, -1.0) * gram + c * gram * gram
        polynomial += NARROW * size * (scale if once else scale + abs(b) * high + c * high**3)
        result = growth if once else growth + a + scale * high
        last = once and step == options["ns_steps"] - 1
        error = max(slope, growth) * error + high * polynomial + (0.0 if last else NARROW * size * result)
        gram_matrix = x @ x.T
        x = a * x + (b * gram_matrix + c * gram_matrix @ gram_matrix) @ x
    return x, error


def factor(shape, adjust):
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(shape))
    return math.sqrt(max(1, shape[0] / shape[1]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_updates_are_those_of_pytorch(variant):
    def groups(tensors):
        return [{"params": tensors[:2]}, {"params": tensors[2:], "weight_decay": 0.2, "lr": 0.03}]

    ours, theirs = parameters(SHAPES), parameters(SHAPES)
    reference = torch.optim.Muon(groups(theirs), lr=0.02, **variant)
    mine = te_mlir.torch.optim.Muon(groups(ours), lr=0.02, **variant)
    for number in range(3):
        give_even_gradients(ours, number)
        give_even_gradients(theirs, number)
        # Both start each step from the state of PyTorch, so that the bounds are those of one step. lr changes.
        for group in reference.param_groups:
            group["lr"] *= 0.5
        if number:
            mine.load_state_dict(reference.state_dict())
        else:
            for group, other in zip(mine.param_groups, reference.param_groups):
                group["lr"] = other["lr"]
        for a, b in zip(ours, theirs):
            a.data.copy_(b.data)
        before = [(tensor.detach().double(), tensor.grad.double()) for tensor in theirs]
        buffers = [reference.state[tensor].get("momentum_buffer", torch.zeros(())).double() for tensor in theirs]
        reference.step()
        mine.step()
        options = [{**DEFAULTS, **group} for group in reference.param_groups for _ in group["params"]]
        for a, b, (param, grad), buffer, own in zip(ours, theirs, before, buffers, options):
            momentum = own["momentum"]
            buffer = buffer + (1 - momentum) * (grad - buffer)
            # At most 6 roundings of a buffer, of terms that these bound.
            assert_near(mine.state[a]["momentum_buffer"], buffer, 6 * U * (buffer.abs() + 2 * grad.abs()))
            assert_near(
                mine.state[a]["momentum_buffer"],
                reference.state[b]["momentum_buffer"],
                12 * U * (buffer.abs() + 2 * grad.abs()),
            )
            direction = grad + momentum * (buffer - grad) if own["nesterov"] else buffer
            exact, limit = orthogonalized(direction, own, once=True)
            _, of_pytorch = orthogonalized(direction, own, once=False)
            rate = own["lr"] * factor(param.shape, own["adjust_lr_fn"])
            expected = param - rate * exact - own["lr"] * own["weight_decay"] * param
            rounded = 8 * U * (param.norm() + rate * exact.norm())
            assert (a.detach().double() - expected).norm() <= rate * limit + rounded
            difference = (a.detach().double() - b.detach().double()).norm()
            assert difference <= rate * (limit + of_pytorch) + 2 * rounded
            # Of two other directions, the difference would be of the size of the direction.
            assert limit + of_pytorch < 0.15 * exact.norm(), (variant, limit / exact.norm(), of_pytorch / exact.norm())
    assert len(mine._programs) == 1


def test_defaults_and_training_without_compiling_again():
    start = parameters([(12, 8), (8, 20)])
    mine = te_mlir.torch.optim.Muon(start)
    assert mine.defaults == {**torch.optim.Muon(start).defaults, "capturable": False}
    for group in mine.param_groups:
        group["lr"] = torch.tensor(0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(mine, total_iters=30, end_factor=0.1)
    losses = []
    for _ in range(30):
        mine.zero_grad()
        loss = (start[0] @ start[1] - 1).square().mean()
        loss.backward()
        mine.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2 and len(mine._programs) == 1


@pytest.mark.parametrize("max_norm", (0.5, 1e6))
def test_clipping_has_the_bits_of_clipped_gradients(max_norm):
    ours, plain = parameters(SHAPES), parameters(SHAPES)
    mine, without = te_mlir.torch.optim.Muon(ours, max_norm=max_norm), te_mlir.torch.optim.Muon(plain)
    for number in range(2):
        give_gradients(ours, number)
        mine.step()
        factor = (max_norm / (mine.grad_norm + 1e-6)).clamp(max=1.0)
        for tensor, own in zip(plain, ours):
            tensor.grad = own.grad * factor
        without.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, plain))


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_narrow_parameters_are_rounded_once(dtype):
    ours = parameters(SHAPES, dtype)
    wide = [torch.nn.Parameter(tensor.detach().float()) for tensor in ours]
    mine, reference = te_mlir.torch.optim.Muon(ours, lr=0.1), te_mlir.torch.optim.Muon(wide, lr=0.1)
    for number in range(2):
        give_gradients(ours, number)
        for a, b in zip(ours, wide):
            b.data.copy_(a.data)
            b.grad = a.grad.float()
        mine.step()
        reference.step()
        for a, b in zip(ours, wide):
            assert torch.equal(a, b.to(dtype))
            assert torch.equal(mine.state[a]["momentum_buffer"], reference.state[b]["momentum_buffer"])


def test_checkpoints_and_copies():
    (tensor,) = parameters([(10, 6)])
    mine = te_mlir.torch.optim.Muon([tensor], lr=0.1, adjust_lr_fn="match_rms_adamw", max_norm=1.0)
    give_gradients([tensor], 0)
    mine.step()
    # PyTorch's class reads the state, writes it, and this one reads it back.
    between = torch.optim.Muon([torch.nn.Parameter(tensor.detach().clone())])
    between.load_state_dict(mine.state_dict())
    other = torch.nn.Parameter(tensor.detach().clone())
    loaded = te_mlir.torch.optim.Muon([other], max_norm=1.0)
    loaded.load_state_dict(copy.deepcopy(between.state_dict()))
    copied, pickled = copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))
    assert_same_step(mine, (loaded, copied, pickled), seed=1)


def test_a_gradient_of_zeros_decays_only():
    (tensor,) = parameters([(6, 10)])
    before = tensor.detach().clone()
    mine = te_mlir.torch.optim.Muon([tensor], lr=0.5, weight_decay=0.25)
    tensor.grad = torch.zeros(6, 10)
    mine.step()
    assert torch.equal(tensor, before - 0.5 * (0.25 * before))


def test_errors():
    one = parameters([(4, 6)])
    for options, message in (
        ({"ns_steps": 100}, "expected 'ns_steps' to be in \\[0, 100\\), but got 100"),
        ({"momentum": 1.5}, "expected 'momentum' to be in \\[0, 1\\], but got 1.5"),
        ({"ns_coefficients": (1.0, 2.0)}, "expected 3 'ns_coefficients', but got 2"),
        (
            {"adjust_lr_fn": "rms"},
            "expected 'adjust_lr_fn' to be None or one of 'original', 'match_rms_adamw', but got 'rms'",
        ),
        ({"eps": -1.0}, "expected 'eps' to be zero or more, but got -1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            te_mlir.torch.optim.Muon(one, **options)
    mine = te_mlir.torch.optim.Muon(one)
    with pytest.raises(ArgumentError, match="expected parameters with 2 dimensions, but got one of shape \\[4\\]"):
        mine.add_param_group({"params": parameters([(4,)])})
    assert len(mine.param_groups) == 1
