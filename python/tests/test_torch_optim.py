"""te_mlir.torch.optim.AdamW compared with torch.optim.AdamW and torch.nn.utils.clip_grad_norm_."""

import copy
import math
import pathlib
import pickle
import runpy
import weakref

import pytest

torch = pytest.importorskip("torch")

from optimizers import SHAPES, U, assert_near, assert_same_step, give_gradients, parameters

import te_mlir.torch.optim
from te_mlir.errors import ArgumentError

OPTIONS = {"lr": 3e-3, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}


def bounds(param, grad, state, group):
    """How far apart two updates in float32 from one state may be: bounds of exp_avg, exp_avg_sq and the parameter.

    Each update has at most 16 roundings of terms that the magnitudes below bound, so two have 32. te rounds a beta to
    float32 and computes 1 - beta from that, PyTorch rounds 1 - beta: the betas differ by `off`, which changes the
    moments by off (|m| + |g|) and off (v + g²), and a bias correction c = 1 - beta^t by t beta^(t-1) off.
    """
    p, g = param.detach().double(), grad.double()
    m, v, t = state["exp_avg"].double(), state["exp_avg_sq"].double(), float(state["step"]) + 1
    off1, off2 = (abs(float(torch.tensor(beta)) - beta) for beta in group["betas"])
    beta1, beta2 = group["betas"]
    size = beta1 * m.abs() + (1 - beta1) * g.abs()
    squares = beta2 * v + (1 - beta2) * g * g
    of_m = 32 * U * size + off1 * (m.abs() + g.abs())
    of_v = 32 * U * squares + off2 * (v + g * g)
    c1, c2 = 1 - beta1**t, 1 - beta2**t
    root = (squares / c2).sqrt() + group["eps"]
    # Relative changes of numerator and denominator; half of that of v, because of the root.
    relative = (
        t * beta1 ** (t - 1) * off1 / c1 + (of_v / squares.clamp_min(1e-300) + t * beta2 ** (t - 1) * off2 / c2) / 2
    )
    direction = of_m / c1 / root + size / c1 / root * (relative + 32 * U)
    of_p = 32 * U * (p.abs() + group["lr"] * group["weight_decay"] * p.abs()) + group["lr"] * direction
    return of_m, of_v, of_p


def test_updates_are_those_of_pytorch():
    ours, theirs = parameters(), parameters()
    groups = [{"params": theirs[:2]}, {"params": theirs[2:], "weight_decay": 0.0, "lr": 1e-2}]
    reference = torch.optim.AdamW(groups, **OPTIONS, foreach=False)
    mine = te_mlir.torch.optim.AdamW(
        [{"params": ours[:2]}, {"params": ours[2:], "weight_decay": 0.0, "lr": 1e-2}], **OPTIONS
    )
    assert mine.param_groups[0]["betas"] == (0.9, 0.99)
    for number in range(5):
        give_gradients(ours, number)
        give_gradients(theirs, number)
        # Both start each step from the state of PyTorch, so that the bounds are those of one step.
        if number:
            mine.load_state_dict(reference.state_dict())
            for a, b in zip(ours, theirs):
                a.data.copy_(b.data)
        limits = {}
        for group in reference.param_groups:
            for tensor in group["params"]:
                state = reference.state[tensor] or {
                    "exp_avg": torch.zeros_like(tensor), "exp_avg_sq": torch.zeros_like(tensor), "step": 0
                }  # fmt: skip
                limits[tensor] = bounds(tensor, tensor.grad, state, group)
        versions = [tensor._version for tensor in ours]
        reference.step()
        mine.step()
        for a, b, version in zip(ours, theirs, versions):
            if not a.numel():
                continue
            assert a._version > version
            of_m, of_v, of_p = limits[b]
            assert_near(mine.state[a]["exp_avg"], reference.state[b]["exp_avg"], of_m)
            assert_near(mine.state[a]["exp_avg_sq"], reference.state[b]["exp_avg_sq"], of_v)
            assert_near(a, b, of_p)
            assert mine.state[a]["step"] == reference.state[b]["step"] == number + 1
    assert len(mine._programs) == 1


def test_clipping_is_that_of_pytorch():
    count = sum(math.prod(shape) for shape in SHAPES)
    for max_norm in (0.5, 1e6):
        ours, plain = parameters(), parameters()
        mine = te_mlir.torch.optim.AdamW(ours, **OPTIONS, max_norm=max_norm)
        without = te_mlir.torch.optim.AdamW(plain, **OPTIONS)
        for number in range(3):
            give_gradients(ours, number)
            give_gradients(plain, number)
            before = [tensor.grad.clone() for tensor in ours]
            exact = math.sqrt(sum(grad.double().square().sum().item() for grad in before))
            mine.step()
            norm = mine.grad_norm
            assert norm.shape == () and norm.dtype == torch.float32
            # At most 16 + 8 + 2 + 8 + 1 roundings in each sum of squares and one for each tensor, halved by the root.
            assert abs(norm.item() - exact) <= (23 * U + U) * exact
            assert all(torch.equal(tensor.grad, grad) for tensor, grad in zip(ours, before))
            # PyTorch's sums may have any order.
            theirs = torch.nn.utils.clip_grad_norm_(plain, max_norm)
            torch.testing.assert_close(norm, theirs, rtol=count * U, atol=0.0)
            factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
            for tensor, grad in zip(plain, before):
                torch.testing.assert_close(tensor.grad, grad * factor, rtol=(count + 4) * U, atol=0.0)
                # With the factor of te, the update has the same bits as one by clipped gradients.
                tensor.grad = grad * factor
            without.step()
            assert all(torch.equal(a, b) for a, b in zip(ours, plain))


def test_gradients_that_are_not_finite():
    for value, norm in ((math.nan, math.nan), (math.inf, math.inf)):
        (tensor,) = parameters([(8,)])
        mine = te_mlir.torch.optim.AdamW([tensor], max_norm=1.0)
        give_gradients([tensor], 0)
        tensor.grad[3] = value
        mine.step()
        torch.testing.assert_close(mine.grad_norm, torch.tensor(norm), equal_nan=True)
        # As in PyTorch, infinity times the factor 0 is NaN, and NaN clips everything to NaN.
        assert tensor.isnan().sum() == (8 if math.isnan(value) else 1)


def test_lr_is_not_compiled_again():
    tensors, others = parameters([(32,)]), parameters([(32,)])
    mine = te_mlir.torch.optim.AdamW(tensors, lr=0.1, betas=(0.875, 0.96875))
    reference = torch.optim.AdamW(others, lr=0.1, betas=(0.875, 0.96875), foreach=False)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10) for optimizer in (mine, reference)]
    for number in range(6):
        give_gradients(tensors, number)
        give_gradients(others, number)
        mine.step()
        reference.step()
        for schedule in schedules:
            schedule.step()
    assert len(mine._programs) == 1 and mine.param_groups[0]["lr"] < 0.1
    # These betas and 1 - beta are exact. Two times 16 roundings in each of 6 steps, of parameters up to 4 and of updates
    # up to 2 lr, by Cauchy-Schwarz for averages with these betas; those of the moments stay for all steps.
    torch.testing.assert_close(tensors[0], others[0], rtol=0.0, atol=6 * 32 * U * (4 + 6 * 2 * 0.1))
    # A tensor as lr; other weight decay is another program.
    mine.param_groups[0]["lr"] = torch.tensor(0.0)
    before = tensors[0].detach().clone()
    mine.step()
    assert torch.equal(tensors[0], before) and len(mine._programs) == 1
    mine.param_groups[0]["weight_decay"] = 0.5
    mine.step()
    assert len(mine._programs) == 2


def test_parameters_without_gradients_and_their_steps():
    tensors, others = parameters([(8,), (9,)]), parameters([(8,), (9,)])
    mine = te_mlir.torch.optim.AdamW(tensors, betas=(0.875, 0.96875))
    reference = torch.optim.AdamW(others, betas=(0.875, 0.96875), foreach=False)
    for number in range(4):
        for optimizer, own in ((mine, tensors), (reference, others)):
            give_gradients(own, number)
            if number == 1:
                own[1].grad = None
            optimizer.step()
            optimizer.zero_grad()
            assert own[0].grad is None
    assert [mine.state[tensor]["step"].item() for tensor in tensors] == [4, 3]
    for a, b in zip(tensors, others):
        torch.testing.assert_close(a, b, rtol=0.0, atol=4 * 32 * U * (4 + 4 * 2 * 1e-3))


def test_checkpoints_copies_and_closures():
    (tensor,) = parameters([(40,)])
    mine = te_mlir.torch.optim.AdamW([tensor], lr=0.1, max_norm=1.0, moments_dtype=torch.bfloat16, seed=5)

    def closure():
        mine.zero_grad()
        loss = tensor.square().sum()
        loss.backward()
        return loss

    losses = [mine.step(closure).item() for _ in range(3)]
    assert losses[2] < losses[0]
    assert mine.state[tensor]["exp_avg"].dtype == torch.bfloat16
    other = torch.nn.Parameter(tensor.detach().clone())
    loaded = te_mlir.torch.optim.AdamW([other], lr=9.0, max_norm=1.0, moments_dtype=torch.bfloat16, seed=5)
    loaded.load_state_dict(copy.deepcopy(mine.state_dict()))
    assert torch.equal(loaded.state[other]["exp_avg"], mine.state[tensor]["exp_avg"])
    copied, pickled = copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))
    # The seed decides how moments are rounded.
    assert_same_step(mine, (loaded, copied, pickled), seed=1)
    # PyTorch's class reads the state.
    reference = torch.optim.AdamW([torch.nn.Parameter(other.detach().clone())])
    reference.load_state_dict(mine.state_dict())
    assert reference.param_groups[0]["lr"] == 0.1


def test_types():
    for dtype in (torch.bfloat16, torch.float16):
        ours, wide = parameters([(512,)], dtype), parameters([(512,)], dtype)
        wide = [torch.nn.Parameter(tensor.detach().float()) for tensor in wide]
        mine = te_mlir.torch.optim.AdamW(ours, **OPTIONS)
        reference = te_mlir.torch.optim.AdamW(wide, **OPTIONS)
        give_gradients(ours, 0)
        wide[0].grad = ours[0].grad.float()
        mine.step()
        reference.step()
        # The update is computed in float32 and rounded once; its moments are in float32.
        assert torch.equal(ours[0], wide[0].to(dtype))
        assert torch.equal(mine.state[ours[0]]["exp_avg"], reference.state[wide[0]]["exp_avg"])
        # A state in float32 stays so when it is loaded.
        mine.load_state_dict(mine.state_dict())
        assert torch.equal(mine.state[ours[0]]["exp_avg"], reference.state[wide[0]]["exp_avg"])


def test_errors():
    make = te_mlir.torch.optim.AdamW
    one = parameters([(4, 6)])
    for options, message in (
        ({"max_norm": 0.0}, "expected 'max_norm' to be above 0, but got 0.0"),
        (
            {"moments_dtype": torch.float16},
            "expected 'moments_dtype' to be float32, bfloat16 or float8_e4m3fn, but got float16",
        ),
        ({"betas": (0.9, 1.0)}, "expected 'betas' to be in \\[0, 1\\), but got 1.0"),
        ({"lr": -1.0}, "expected 'lr' to be zero or more, but got -1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            make(one, **options)
    with pytest.raises(ArgumentError, match="expected row-major parameters without gaps, but got one of shape"):
        make([torch.nn.Parameter(torch.ones(4, 6).t())])
    with pytest.raises(ArgumentError, match="expected parameters of float32, bfloat16 or float16, but got float64"):
        make([torch.nn.Parameter(torch.ones(4, dtype=torch.float64))])
    mine = make(one)
    with pytest.raises(ArgumentError, match="expected all parameters on 'cpu', but got one on 'meta'"):
        mine.add_param_group({"params": [torch.nn.Parameter(torch.ones(4, device="meta"))]})
    assert len(mine.param_groups) == 1
    with pytest.raises(ArgumentError, match="expected 'amsgrad' to be False, which is all that is implemented"):
        mine.load_state_dict(torch.optim.AdamW(one, amsgrad=True).state_dict())
    one[0].grad = torch.ones(4, 6).to_sparse()
    with pytest.raises(ArgumentError, match="expected dense gradients"):
        mine.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p, **o: te_mlir.torch.optim.AdamW(p, max_norm=1.0, **o),
        lambda p, **o: te_mlir.torch.optim.AdamW(p, moments_dtype=torch.bfloat16, **o),
        lambda p, **o: te_mlir.torch.optim.SGD(p, momentum=0.9, **o),
        lambda p, **o: te_mlir.torch.optim.Muon([t for t in p if t.ndim == 2 and t.numel()], **o),
    ],
    ids=["adamw", "bf16", "sgd", "muon"],
)
def test_capturable_steps_read_nothing_on_the_host(make, monkeypatch):
    ours, theirs = parameters(), parameters()
    rate = torch.zeros(3)[1:2]  # Not at a multiple of 16 bytes.
    mine, plain = make(ours, lr=rate, capturable=True), make(theirs, lr=0.0)

    def refuse(self):
        raise AssertionError("the host reads a tensor")

    for number, lr in enumerate((0.1, 0.05, 0.01)):
        rate.fill_(lr)
        for group in plain.param_groups:
            group["lr"] = float(torch.tensor(lr))
        for tensors in (ours, theirs):
            give_gradients(tensors, number)
            if number == 1:
                tensors[0].grad = tensors[1].grad = None
        plain.step()
        with monkeypatch.context() as patch:
            for name in ("item", "__float__", "__bool__", "__int__", "tolist"):
                patch.setattr(torch.Tensor, name, refuse)
            mine.step()
        for a, b in zip(ours, theirs):
            assert torch.equal(a, b)
            states = mine.state.get(a, {})
            assert all(torch.equal(value, plain.state[b][name]) for name, value in states.items())
    loaded = make(parameters(), lr=0.1)
    loaded.load_state_dict(mine.state_dict())
    assert all(group["capturable"] for group in loaded.param_groups)


def test_states_that_a_caller_changes_are_read():
    (tensor,), (other,) = parameters([(16,)]), parameters([(16,)])
    mine, fresh = (te_mlir.torch.optim.AdamW([each], **OPTIONS) for each in (tensor, other))
    for number in range(2):
        give_gradients([tensor], number)
        mine.step()
    other.data.copy_(tensor.data)
    mine.state[tensor]["exp_avg"] = torch.zeros(16)
    mine.state[tensor]["exp_avg_sq"] = torch.zeros(16)
    mine.state[tensor]["step"].zero_()
    for optimizer, each in ((mine, tensor), (fresh, other)):
        give_gradients([each], 5)
        optimizer.step()
    assert torch.equal(tensor, other)
    for number, reset in enumerate((lambda: mine.state.clear(), lambda: mine.state.update({tensor: {}}))):
        reset()
        fresh.state.clear()
        for optimizer, each in ((mine, tensor), (fresh, other)):
            give_gradients([each], 6 + number)
            optimizer.step()
        assert torch.equal(tensor, other) and mine.state[tensor]["step"] == 1


def test_states_that_a_caller_replaces_are_freed():
    """A caller who moves states to the host, or loads others, has the memory of the old ones back."""
    (tensor,) = parameters([(16,)])
    mine = te_mlir.torch.optim.AdamW([tensor], **OPTIONS, max_norm=1.0)
    for replace in (
        lambda: mine.state[tensor].update(exp_avg=mine.state[tensor]["exp_avg"].clone()),
        lambda: mine.load_state_dict(mine.state_dict()),
    ):
        for number in range(2):
            give_gradients([tensor], number)
            mine.step()
        old, gradient = weakref.ref(mine.state[tensor]["exp_avg"]), weakref.ref(tensor.grad)
        replace()
        tensor.grad = None
        assert old() is None and gradient() is None


def test_captured_steps_start_no_states(monkeypatch):
    """Each replay would start them again, and if the capture fails, they have no values."""
    (tensor,) = parameters([(16,)])
    mine = te_mlir.torch.optim.AdamW([tensor], **OPTIONS, capturable=True)
    start = copy.deepcopy(mine.state_dict())
    give_gradients([tensor], 0)
    mine.step()
    mine.load_state_dict(start)
    before = tensor.detach().clone()
    with monkeypatch.context() as patch:
        patch.setattr(te_mlir.torch.optim.base, "_is_captured", lambda device: True)
        with pytest.raises(ArgumentError, match="a parameter without 'step', 'exp_avg', 'exp_avg_sq'"):
            mine.step()
    assert torch.equal(tensor, before) and not mine.state.get(tensor)
    mine.step()
    with monkeypatch.context() as patch:
        patch.setattr(te_mlir.torch.optim.base, "_is_captured", lambda device: True)
        mine.step()
        mine.moments_dtype = torch.bfloat16
        with pytest.raises(ArgumentError, match="a parameter with moments of float32"):
            mine.step()
    assert mine.state[tensor]["step"] == 2


def test_gradients_at_any_address():
    """As those of DistributedDataParallel with `gradient_as_bucket_view`, which are parts of one buffer."""
    (tensor,), (other,) = parameters([(16,)]), parameters([(16,)])
    for number in range(2):
        for each in (tensor, other):
            give_gradients([each], number)
        tensor.grad = torch.cat([torch.zeros(1), tensor.grad])[1:]
        assert tensor.grad.data_ptr() % 16
        for each in (tensor, other):
            te_mlir.torch.optim.SGD([each], lr=0.1, max_norm=1.0).step()
    assert torch.equal(tensor, other)


@pytest.mark.parametrize("capturable", [False, True])
def test_learning_rates_of_one_element(capturable):
    (tensor,), (other,) = parameters([(16,)]), parameters([(16,)])
    for each, rate in ((tensor, torch.tensor([0.125])), (other, 0.125)):
        give_gradients([each], 0)
        te_mlir.torch.optim.SGD([each], lr=rate, capturable=capturable).step()
    assert torch.equal(tensor, other)


def test_parameters_that_change_their_type():
    (tensor,), (other,) = parameters([(16,)]), parameters([(16,)])
    mine, fresh = (te_mlir.torch.optim.AdamW([each], **OPTIONS) for each in (tensor, other))
    give_gradients([tensor], 0)
    mine.step()
    tensor.grad = None
    tensor.data = tensor.data.bfloat16()
    other.data = tensor.data.clone()
    fresh.load_state_dict(copy.deepcopy(mine.state_dict()))
    for optimizer, each in ((mine, tensor), (fresh, other)):
        give_gradients([each], 1)
        optimizer.step()
    assert tensor.dtype == torch.bfloat16 and torch.equal(tensor, other)


def test_a_step_that_is_refused_does_not_count():
    (tensor,) = parameters([(16,)])
    mine = te_mlir.torch.optim.AdamW([tensor], **OPTIONS)
    give_gradients([tensor], 0)
    mine.step()
    before, moment = tensor.detach().clone(), mine.state[tensor]["exp_avg"]
    mine.state[tensor]["exp_avg"] = tensor.data
    with pytest.raises(ArgumentError):
        mine.step()
    mine.state[tensor]["exp_avg"] = moment
    assert torch.equal(tensor, before) and mine.state[tensor]["step"] == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_in_main_grad(dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 16)).to(dtype)
    others = [torch.nn.Parameter(tensor.detach().float()) for tensor in model.parameters()]
    compiled = te_mlir.torch.jit(model, strict=True, main_grad=True)
    mine = te_mlir.torch.optim.AdamW(model.parameters(), **OPTIONS, max_norm=1.0, main_grad=True)
    reference = te_mlir.torch.optim.AdamW(others, **OPTIONS, max_norm=1.0)
    for step in range(3):
        for micro in range(2):
            with compiled.te.microbatch(first=micro == 0):
                compiled(torch.randn(16, 32, dtype=dtype)).float().square().sum().backward()
        if step == 2:
            # What PyTorch computed of a gradient.
            next(model.parameters()).grad = torch.ones(48, 32, dtype=dtype)
        for tensor, other in zip(model.parameters(), others):
            other.data.copy_(tensor.data)
            other.grad = tensor.main_grad + (0 if tensor.grad is None else tensor.grad)
        mine.step()
        reference.step()
        assert torch.equal(mine.grad_norm, reference.grad_norm)
        for tensor, other in zip(model.parameters(), others):
            assert torch.equal(tensor, other.to(dtype))
    before = [tensor.detach().clone() for tensor in model.parameters()]
    next(model.parameters()).requires_grad_(False)
    next(model.parameters()).grad = None
    mine.step()
    same = [torch.equal(tensor, old) for tensor, old in zip(model.parameters(), before)]
    assert same == [True, False, False, False]


def test_steps_move_where_capturable_wants_them(monkeypatch):
    (tensor,) = parameters([(16,)])
    mine = te_mlir.torch.optim.AdamW([tensor], **OPTIONS)
    give_gradients([tensor], 0)
    mine.step()
    kept, moment = mine.state[tensor]["step"], mine.state[tensor]["exp_avg"]
    mine._start_states(tensor, mine.param_groups[0], ("exp_avg",))
    assert mine.state[tensor]["step"] is kept
    monkeypatch.setattr(mine, "_step_device", lambda tensor, group: torch.device("meta"))
    mine._start_states(tensor, mine.param_groups[0], ("exp_avg",))
    assert mine.state[tensor]["step"].device.type == "meta" and mine.state[tensor]["exp_avg"] is moment


def test_checkpoints_without_capturable():
    (tensor,), (other,) = parameters([(4, 4)]), parameters([(4, 4)])
    give_gradients([tensor], 0)
    saved = torch.optim.SGD([tensor], momentum=0.9)
    saved.step()
    mine = te_mlir.torch.optim.SGD([other], momentum=0.9, capturable=True)
    mine.load_state_dict(saved.state_dict())
    assert mine.param_groups[0]["capturable"] is True


def test_example_trains():
    path = pathlib.Path(__file__).parents[2] / "examples" / "torch_capture" / "train.py"
    main = runpy.run_path(str(path))["main"]
    sizes = ["--layers=1", "--width=64", "--rows=4", "--length=32", "--steps=30", "--rate=0.01"]
    losses = main(sizes)
    assert losses[0] > 5 and losses[-1] < 4
    assert main(sizes) == losses
    assert main([*sizes, "--micro-batches=2"])[-1] < 4
