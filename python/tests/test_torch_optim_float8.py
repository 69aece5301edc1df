"""te_mlir.torch.optim.AdamW with moments of 8 bits, compared with the same class with moments of float32."""

import copy
import io
import itertools

import pytest

torch = pytest.importorskip("torch")

from optimizers import SHAPES, assert_same_step, give_gradients, parameters

import te_mlir.torch.optim

FLOAT8 = torch.float8_e4m3fn
OPTIONS = {"lr": 3e-3, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.1}
#: Bits of the mantissa, and the smallest number, of the types of both moments.
TYPES = {"exp_avg": (3, 2.0**-9), "exp_avg_sq": (2, 2.0**-16)}


def scales(state, name):
    """The scale of each element of a moment."""
    row = state["moment_scales"][list(TYPES).index(name)]
    return row.repeat_interleave(128)[: state[name].numel()].view(state[name].shape)


def decoded(state, name):
    return state[name].float() * scales(state, name)


def test_a_step_is_that_of_float32_whose_moments_are_rounded():
    ours, wide = parameters(), parameters()
    mine = te_mlir.torch.optim.AdamW(ours, **OPTIONS, max_norm=0.5, moments_dtype=FLOAT8)
    reference = te_mlir.torch.optim.AdamW(wide, **OPTIONS, max_norm=0.5)
    for number in range(4):
        give_gradients(ours, number)
        give_gradients(wide, number)
        # Both start each step from the same moments, which float32 has exactly.
        if number:
            reference.load_state_dict(mine.state_dict())
        for a, b in zip(ours, wide):
            for name in TYPES if number and a.numel() else ():
                assert torch.equal(reference.state[b][name], decoded(mine.state[a], name))
        mine.step()
        reference.step()
        for a, b in zip(ours, wide):
            # The update is computed before its moments are rounded.
            assert torch.equal(a, b)
            if not a.numel():
                continue
            for name, (mantissa, smallest) in TYPES.items():
                exact, actual = reference.state[b][name], decoded(mine.state[a], name)
                spacing = torch.maximum(exact.abs() * 2.0**-mantissa, scales(mine.state[a], name) * smallest)
                assert ((actual - exact).abs() <= spacing).all()
            assert (decoded(mine.state[a], "exp_avg_sq") > 0).equal(reference.state[b]["exp_avg_sq"] > 0)
    state = mine.state[ours[-1]]
    assert state["exp_avg"].dtype == FLOAT8 and state["exp_avg_sq"].dtype == torch.float8_e5m2
    assert state["moment_scales"].shape == (2, -(-4099 // 128))
    assert len(mine._programs) == 1


def test_checkpoints_and_copies_have_the_same_bits():
    (tensor,) = parameters([(300,)])
    options = {"lr": 0.1, "moments_dtype": FLOAT8, "seed": 5}
    mine = te_mlir.torch.optim.AdamW([tensor], **options)
    for number in range(2):
        give_gradients([tensor], number)
        mine.step()
    other = torch.nn.Parameter(tensor.detach().clone())
    loaded = te_mlir.torch.optim.AdamW([other], **options)
    loaded.load_state_dict(copy.deepcopy(mine.state_dict()))
    # PyTorch's tensors of float8 cannot be pickled without torch.save.
    file = io.BytesIO()
    torch.save(mine, file)
    file.seek(0)
    copied, saved = copy.deepcopy(mine), torch.load(file, weights_only=False)
    assert_same_step(mine, (loaded, copied, saved), seed=2)


def test_states_of_pytorch_are_rounded_to_nearest():
    theirs = parameters(SHAPES[:4])
    reference = torch.optim.AdamW(theirs, lr=0.1)
    for number in range(2):
        give_gradients(theirs, number)
        reference.step()
    ours = parameters(SHAPES[:4])
    mine = te_mlir.torch.optim.AdamW(ours, moments_dtype=FLOAT8)
    mine.load_state_dict(reference.state_dict())
    for a, b in zip(ours, theirs):
        for name, (mantissa, smallest) in TYPES.items():
            exact, actual = reference.state[b][name], decoded(mine.state[a], name)
            spacing = torch.maximum(exact.abs() * 2.0**-mantissa, scales(mine.state[a], name) * smallest)
            assert ((actual - exact).abs() <= spacing / 2).all()
    # And back, exactly; the scales are not part of such a state.
    back = te_mlir.torch.optim.AdamW(parameters(SHAPES[:4]))
    back.load_state_dict(mine.state_dict())
    for a, b in zip(ours, back.param_groups[0]["params"]):
        assert back.state[b].keys() == {"step", "exp_avg", "exp_avg_sq"}
        for name in TYPES:
            assert torch.equal(back.state[b][name], decoded(mine.state[a], name))


def test_a_second_moment_never_becomes_zero():
    """Its element would be divided by eps only."""
    tensor = torch.nn.Parameter(torch.zeros(128))
    mine = te_mlir.torch.optim.AdamW([tensor], lr=1.0, weight_decay=0.0, moments_dtype=FLOAT8)
    # Beyond the range of float8_e5m2 in the block of the first element.
    tensor.grad = torch.full((128,), 1e-9)
    tensor.grad[0] = 1.0
    for _ in range(20):
        mine.step()
        assert (mine.state[tensor]["exp_avg_sq"].float() > 0).all()
    # The smallest first moment is at most 2^-16 of that of the first element, and the root of the smallest second one at least
    # 2^-16 of its own: 2^-30 of a power of two that is at least a quarter, even if it was rounded down. So no update is larger
    # than twice that of the first element, about lr.
    assert (tensor[1:].abs() <= 20 * 2).all()


def final_loss(seed, betas, moments):
    """The mean loss of the last 50 of 300 steps on a classification task, each on data of its own."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(32, 10, generator=generator)
    weights = parameters([(64, 32), (10, 64)], seed=seed)
    with torch.no_grad():
        for weight in weights:
            weight /= weight.shape[1] ** 0.5
    optimizer = te_mlir.torch.optim.AdamW(weights, lr=3e-3, betas=betas, moments_dtype=moments, seed=seed)
    losses = []
    for _ in range(300):
        x = torch.randn(64, 32, generator=generator)
        logits = torch.relu(x @ weights[0].t()) @ weights[1].t()
        loss = torch.nn.functional.cross_entropy(logits, (x @ target).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-50:]) / 50


@pytest.mark.parametrize("betas", ((0.9, 0.95), (0.9, 0.999)))
def test_training_reaches_the_loss_of_float32(betas):
    exact, rounded = ([final_loss(seed, betas, moments) for seed in range(4)] for moments in (torch.float32, FLOAT8))
    # The losses start at log(10) = 2.3 and fall below half of that.
    assert max(exact) < 1.15
    # Rounding changes a loss by less than another seed does.
    assert max(abs(a - b) for a, b in zip(exact, rounded)) < max(exact) - min(exact), (exact, rounded)


@pytest.mark.parametrize("old, new", list(itertools.permutations((torch.float32, torch.bfloat16, FLOAT8), 2)))
def test_the_type_of_moments_may_change(old, new):
    """The moments are then those that a state has which is loaded in the new type."""
    ours, theirs = parameters(), parameters()
    mine = te_mlir.torch.optim.AdamW(ours, **OPTIONS, moments_dtype=old)
    give_gradients(ours, 0)
    mine.step()
    with torch.no_grad():
        for a, b in zip(ours, theirs):
            b.copy_(a)
    reference = te_mlir.torch.optim.AdamW(theirs, **OPTIONS, moments_dtype=new)
    reference.load_state_dict(mine.state_dict())
    mine.moments_dtype = new
    for step in (1, 2):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        mine.step()
        reference.step()
    for a, b in zip(ours, theirs):
        assert torch.equal(a, b) and mine.state[a].keys() == reference.state[b].keys()
        for name, state in mine.state[a].items():
            assert state.dtype == reference.state[b][name].dtype and torch.equal(
                state.float(), reference.state[b][name].float()
            )


def test_errors_of_types_of_moments():
    (tensor,) = parameters()[:1]
    tensor.grad = torch.ones_like(tensor)
    with pytest.raises(te_mlir.ArgumentError, match="for all groups, but got a group with its own"):
        te_mlir.torch.optim.AdamW([{"params": [tensor], "moments_dtype": torch.bfloat16}])
    optimizer = te_mlir.torch.optim.AdamW([tensor])
    for _ in range(2):
        # Before the first step, and after it.
        optimizer.moments_dtype = torch.float16
        with pytest.raises(te_mlir.ArgumentError, match="float32, bfloat16 or float8_e4m3fn, but got float16"):
            optimizer.step()
        optimizer.moments_dtype = torch.float32
        optimizer.step()
        assert optimizer.state[tensor]["exp_avg"].dtype == torch.float32
    optimizer.param_groups[0]["moments_dtype"] = FLOAT8
    with pytest.raises(te_mlir.ArgumentError, match="for all groups, but got a group with its own"):
        optimizer.step()
