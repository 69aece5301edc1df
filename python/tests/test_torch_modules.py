"""Drop-in modules compared with the same layers of PyTorch."""

import copy
import gc
import inspect
import warnings

import pytest

torch = pytest.importorskip("torch")

from conftest import RECIPES
from torch.nn import functional as F

import te_mlir
import te_mlir.torch as te
from te_mlir.torch import modules


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def randomise(module):
    """Sets norms and biases to values other than 0 and 1, so that each of them affects the result."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def norm(module, x):
    gamma = module.layer_norm_weight + (1 if module.zero_centered_gamma else 0)
    if module.normalization == "RMSNorm":
        return F.rms_norm(x, gamma.shape, gamma, module.eps)
    return F.layer_norm(x, gamma.shape, gamma, module.layer_norm_bias, module.eps)


def swiglu(h):
    gate, up = h.chunk(2, -1)
    return F.silu(gate) * up


ACTIVATIONS = {
    "gelu": lambda h: F.gelu(h, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "srelu": lambda h: F.relu(h) ** 2,
    "swiglu": swiglu,
}


def mlp(module, x):
    h = F.linear(norm(module, x), module.fc1_weight, getattr(module, "fc1_bias", None))
    return F.linear(ACTIVATIONS[module.activation](h), module.fc2_weight, getattr(module, "fc2_bias", None))


def linear(module, x):
    return F.linear(x, module.weight, getattr(module, "bias", None))


CASES = [
    (lambda: te.Linear(64, 48), linear),
    (lambda: te.Linear(64, 48, bias=False), linear),
    (lambda: te.LayerNormLinear(64, 48), lambda m, x: linear(m, norm(m, x))),
    (
        lambda: te.LayerNormLinear(64, 48, normalization="RMSNorm", zero_centered_gamma=True, eps=1e-6, bias=False),
        lambda m, x: linear(m, norm(m, x)),
    ),
    *[(lambda a=a: te.LayerNormMLP(64, 96, activation=a, normalization="RMSNorm"), mlp) for a in ACTIVATIONS],
    (lambda: te.LayerNormMLP(64, 96, bias=False, zero_centered_gamma=True), mlp),
]


@pytest.mark.parametrize("make, meaning", CASES)
def test_gradients_are_autograds(make, meaning):
    module = randomise(make())
    x = torch.randn(3, 8, 64, requires_grad=True)
    dy = torch.randn(3, 8, 64 if meaning is mlp else 48)
    results = []
    for function in (module, lambda x: meaning(module, x)):
        module.zero_grad()
        x.grad = None
        y = function(x)
        y.backward(dy)
        results.append({"y": y.detach(), "x": x.grad, **{n: p.grad for n, p in module.named_parameters()}})
    mine, theirs = results
    for name, wanted in theirs.items():
        error = (mine[name] - wanted).norm() / wanted.norm()
        assert wanted.norm() > 0 and error < 1e-5, (name, error.item())


def test_grouped_linear_is_a_linear_layer_for_each_group():
    module = randomise(te.GroupedLinear(3, 64, 48, alignment=16))
    x = torch.randn(64, 64, requires_grad=True)
    splits = [32, 0, 32]
    y = module(x, splits)
    dy = torch.randn_like(y)
    y.backward(dy)
    mine = {"y": y.detach(), "x": x.grad, **{n: p.grad.clone() for n, p in module.named_parameters()}}
    module.zero_grad()
    x.grad = None
    parts = [F.linear(part, w, b) for part, w, b in zip(x.split(splits), module.weight, module.bias)]
    y = torch.cat(parts)
    y.backward(dy)
    theirs = {"y": y.detach(), "x": x.grad, **{n: p.grad for n, p in module.named_parameters()}}
    for name, wanted in theirs.items():
        assert (mine[name] - wanted).norm() <= 1e-5 * wanted.norm(), name
    # A tensor with the sizes gives the same bits.
    again = module(x, torch.tensor(splits, dtype=torch.int32))
    assert torch.equal(again, mine["y"])


@pytest.mark.parametrize("recipe", RECIPES)
def test_groups_of_any_size_have_the_bits_of_linear_layers(recipe):
    """Rows of groups are padded with zeros inside; sizes, also those of the layer, are multiples of nothing."""
    # The random bits of stochastic rounding depend on the place of a row.
    exact = {"nvfp4_block_scaling": te_mlir.NVFP4BlockScaling(disable_stochastic_rounding=True)}
    grouped = te.GroupedLinear(4, 30, 7, params_dtype=torch.bfloat16)
    alone = [te.Linear(30, 7, params_dtype=torch.bfloat16) for _ in range(4)]
    for layer, weight, bias in zip(alone, grouped.weight, grouped.bias):
        layer.load_state_dict({"weight": weight, "bias": bias}, strict=False)
    x = torch.randn(53, 30).bfloat16().requires_grad_()
    for sizes in ([20, 0, 12, 21], [53, 0, 0, 0]):
        dy = torch.randn(53, 7).bfloat16()
        with te.autocast(recipe=exact.get(recipe, RECIPES[recipe])):
            y = grouped(x, sizes)
            found = torch.autograd.grad(y, [x, *grouped.parameters()], dy)
            for layer, *parts in zip(alone, *(t.split(sizes) for t in (x, dy, y, found[0])), *found[1:]):
                part, dpart, *mine = parts
                if not len(part):
                    assert not any(t.any() for t in mine)
                    continue
                result = layer(part)
                wanted = torch.autograd.grad(result, [part, *layer.parameters()], dpart)
                assert all(torch.equal(one, two) for one, two in zip(mine, (result, *wanted), strict=True))
    assert len(grouped._regions) == 1


def test_autocast_says_the_recipe():
    module = te.Linear(64, 64, params_dtype=torch.bfloat16)
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    high = module(x)
    with te.autocast(recipe=te_mlir.Float8CurrentScaling()):
        quantised = module(x)
        with te.autocast(enabled=False):
            assert torch.equal(module(x), high)
    assert not torch.equal(quantised, high)
    assert torch.equal(module(x), high)
    error = (quantised.float() - high.float()).norm() / high.float().norm()
    # Each operand has a relative error of at most 2^-4, and the errors are not correlated.
    assert error < 2.0**-4


def test_autocast_without_a_recipe_has_transformer_engines_default():
    module, x = te.Linear(64, 64, params_dtype=torch.bfloat16), torch.randn(32, 64, dtype=torch.bfloat16)
    high = module(x)
    with te.autocast(enabled=False):
        assert torch.equal(module(x), high)
    with te.autocast():
        quantised = module(x)
    with te.autocast(recipe=te_mlir.DelayedScaling()):
        delayed = copy.deepcopy(module)(x)
    assert torch.equal(quantised, delayed) and not torch.equal(quantised, high)


@pytest.mark.parametrize(
    "capability, target, wanted",
    [
        ((9, 0), None, te_mlir.DelayedScaling()),
        ((10, 0), None, te_mlir.MXFP8BlockScaling()),
        ((12, 0), None, te_mlir.Float8CurrentScaling()),
        ((9, 0), "sm_100", te_mlir.MXFP8BlockScaling()),
        ((10, 0), "sm_90", te_mlir.DelayedScaling()),
    ],
)
def test_the_default_recipe_depends_on_the_gpu(monkeypatch, capability, target, wanted):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert modules._default_recipe(target) == wanted


def test_autocast_has_transformer_engines_arguments():
    recipe = te_mlir.Float8CurrentScaling()
    with te.autocast(True, False, recipe, None):
        assert modules._options.get().recipe is recipe
    for arguments in ([True, recipe], [True, True], [True, False, recipe, "group"]):
        with pytest.raises(ValueError, match="autocast: expected '(calibrating|amax_reduction_group)' not to be set"):
            with te.autocast(*arguments):
                pass


def test_states_of_delayed_scaling_are_there():
    module = te.Linear(64, 64, params_dtype=torch.bfloat16)
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    with te.autocast(recipe=te_mlir.DelayedScaling(amax_history_len=4)):
        module(x).sum().backward()
    states = module.state_dict()
    assert states["te.weight.x.amax_history"][-1] == x.abs().max().float()


#: The constructor arguments of TransformerEngine 2.20 in order, with defaults; its default device is "cuda".
LINEAR = """in_features out_features sequence_parallel=False fuse_wgrad_accumulation=False tp_group=None tp_size=1
    get_rng_state_tracker=None rng_tracker_name=None init_method=None bias=True return_bias=False params_dtype=None
    parallel_mode=None parameters_split=None device='cpu' ub_overlap_ag=False ub_overlap_rs=False
    ub_overlap_rs_dgrad=False ub_bulk_dgrad=False ub_bulk_wgrad=False ub_name=None delay_wgrad_compute=False
    symmetric_ar_type=None save_original_input=False name=None"""
NORM_LINEAR = """in_features out_features eps=1e-05 sequence_parallel=False fuse_wgrad_accumulation=False tp_group=None
    tp_size=1 get_rng_state_tracker=None init_method=None bias=True normalization='LayerNorm' return_bias=False
    params_dtype=None parallel_mode=None return_layernorm_output=False return_layernorm_output_gathered=False
    parameters_split=None zero_centered_gamma=False device='cpu' ub_overlap_ag=False ub_overlap_rs=False
    ub_overlap_rs_dgrad=False ub_bulk_wgrad=False ub_bulk_dgrad=False ub_name=None delay_wgrad_compute=False
    symmetric_ar_type=None name=None"""
MLP = """hidden_size ffn_hidden_size eps=1e-05 sequence_parallel=False return_bias=False get_rng_state_tracker=None
    tp_group=None tp_size=1 init_method=None bias=True normalization='LayerNorm' activation='gelu'
    activation_params=None output_layer_init_method=None fuse_wgrad_accumulation=False params_dtype=None
    return_layernorm_output=False return_layernorm_output_gathered=False seq_length=None micro_batch_size=None
    set_parallel_mode=False zero_centered_gamma=False device='cpu' ub_overlap_ag=False name=None ub_overlap_rs=False
    ub_overlap_rs_dgrad=False ub_bulk_dgrad=False ub_bulk_wgrad=False delay_wgrad_compute=False symmetric_ar_type=None
    checkpoint=False"""
GROUPED = """num_gemms in_features out_features sequence_parallel=False fuse_wgrad_accumulation=False tp_group=None
    tp_size=1 get_rng_state_tracker=None rng_tracker_name=None init_method=None bias=True return_bias=False
    params_dtype=None parallel_mode=None device='cpu' ub_overlap_rs=False ub_overlap_ag=False ub_name=None
    delay_wgrad_compute=False save_original_input=False single_grouped_weight=False single_grouped_bias=False
    name=None use_grouped_tensor=None"""


@pytest.mark.parametrize(
    "module, wanted",
    [(te.Linear, LINEAR), (te.LayerNormLinear, NORM_LINEAR), (te.LayerNormMLP, MLP), (te.GroupedLinear, GROUPED)],
)
def test_constructors_take_transformer_engines_arguments(module, wanted):
    parameters = inspect.signature(module).parameters.values()
    placed = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert [str(p.replace(annotation=p.empty)) for p in placed] == wanted.split()
    # Every argument at its default, by position and by name.
    sizes = [4 for p in placed if p.default is p.empty]
    values = [p.default for p in placed[len(sizes) :]]
    names = [p.name for p in placed[len(sizes) :]]
    by_place = module(*sizes, *values).state_dict()
    by_name = module(*sizes, **dict(zip(names, values))).state_dict()
    default = module(*sizes).state_dict()
    shapes = [{name: value.shape for name, value in found.items()} for found in (default, by_place, by_name)]
    assert shapes[0] == shapes[1] == shapes[2]


def test_positional_arguments_mean_what_they_mean_in_transformer_engine():
    assert te.Linear(4, 4, False, True).fuse_wgrad_accumulation
    assert hasattr(te.Linear(4, 4, False), "bias")
    assert te.Linear(4, 4, name="query").name == "query"
    with pytest.raises(TypeError):
        te.GroupedLinear(*[4] * 3, *[None] * 21, 16)


@pytest.mark.parametrize(
    "make, said",
    [
        (
            lambda: te.Linear(4, 4, parallel_mode="column"),
            "Linear: expected 'parallel_mode' to be None, as nothing else is implemented, but got 'column'",
        ),
        (lambda: te.Linear(4, 4, return_bias=True), "'return_bias'"),
        (
            lambda: te.Linear(4, 4, tp_size=2, tp_group="g"),
            "'tp_group' to be None, as nothing else is implemented, but got 'g'; expected 'tp_size' to be 1",
        ),
        (lambda: te.Linear(4, 4, True), "'sequence_parallel'"),
        (lambda: te.LayerNormLinear(4, 4, init_method=torch.nn.init.zeros_), "'init_method'"),
        (lambda: te.LayerNormMLP(4, 4, checkpoint=True), "'checkpoint'"),
        (lambda: te.GroupedLinear(2, 4, 4, delay_wgrad_compute=True), "'delay_wgrad_compute'"),
        (lambda: te.Linear(4, 4, params_dtype=torch.float64), "'params_dtype'"),
        (lambda: te.LayerNormLinear(4, 4, normalization="BatchNorm"), "'normalization'"),
        (lambda: te.LayerNormMLP(4, 4, activation="sine"), "'activation'"),
    ],
)
def test_what_is_not_there_is_refused(make, said):
    with pytest.raises(ValueError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize("recipe", RECIPES)
def test_any_number_of_rows_has_the_bits_of_more_rows(recipe):
    """The module gets 33 rows; the same module with 31 rows of zeros after them has the same results."""
    module = te.Linear(72, 20, bias=False, params_dtype=torch.bfloat16)
    other = copy.deepcopy(module)
    x, dy = torch.randn(33, 72, dtype=torch.bfloat16), torch.randn(33, 20, dtype=torch.bfloat16)
    results = []
    for layer, rows in ((module, 33), (other, 64)):
        wide, cotangent = x.new_zeros(rows, 72), dy.new_zeros(rows, 20)
        wide[:33], cotangent[:33] = x, dy
        wide.requires_grad_()
        with te.autocast(recipe=RECIPES[recipe]):
            y = layer(wide)
        y.backward(cotangent)
        results.append((y[:33].detach(), wide.grad[:33], layer.weight.grad))
    assert results[0][0].norm() > 0
    assert all(torch.equal(one, two) for one, two in zip(*results))


def test_misuse_names_the_argument():
    module = te.Linear(64, 48)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'x': expected a floating tensor"):
        module(torch.zeros(2, 64, dtype=torch.int64))
    with pytest.raises(te_mlir.CompileError, match="64"):
        module(torch.randn(2, 32))
    grouped = te.GroupedLinear(2, 64, 48, alignment=16)
    with pytest.raises(te_mlir.ArgumentError, match="sizes with the sum 32"):
        grouped(torch.randn(32, 64), [16, 8])


@pytest.mark.parametrize("transformed", [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())])
def test_transformations_are_told(transformed):
    module, x = te.Linear(64, 48), torch.randn(4, 64)
    with pytest.raises(te_mlir.ArgumentError, match="on tensors in memory, but got one that is transformed"):
        transformed(module)(x)

    def of_parameters(parameters):
        return torch.func.functional_call(module, parameters, (x,)).sum()

    with pytest.raises(te_mlir.ArgumentError, match="but got one that is transformed"):
        torch.func.grad(of_parameters)(dict(module.named_parameters()))
    # A compiled layer of PyTorch runs in PyTorch in this case.
    layer = torch.nn.Linear(64, 48)
    assert torch.equal(transformed(te.jit(layer))(x), transformed(layer)(x))


class Wrapped(torch.Tensor):
    """A tensor subclass that contains another tensor, such as DTensor or a quantised weight."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, *_):
        return Wrapped(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def own(x):
            return x.inner if isinstance(x, Wrapped) else x

        if function in (torch.ops.aten.detach.default, torch.ops.aten.view.default):
            return Wrapped(function(args[0].inner, *args[1:]))
        return function(*torch.utils._pytree.tree_map(own, args), **(kwargs or {}))


def test_tensors_that_hold_others_are_told():
    torch._dynamo.reset()
    layer, x = torch.nn.Linear(64, 48), torch.randn(4, 64)
    layer.weight = torch.nn.Parameter(Wrapped(torch.randn(48, 64)), requires_grad=False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert torch.equal(te.jit(layer)(x), layer(x))
    assert any("weight' is a Wrapped, not a tensor in memory" in str(w.message) for w in found)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'x': expected a tensor in memory, but got a Wrapped"):
        te.Linear(64, 48)(Wrapped(x))


def test_a_parameter_resized_after_a_call_is_told():
    module = te.Linear(64, 48)
    x = torch.randn(32, 64)
    module(x)
    module.weight.data = torch.zeros(24, 64)
    with pytest.raises(te_mlir.ArgumentError, match=r"'weight': expected shape \[48, 64\], but got \[24, 64\]"):
        module(x)
    module.weight.data = torch.zeros(48, 64)
    module.weight.untyped_storage().resize_(0)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'weight': expected a tensor with memory"):
        module(x)


def test_a_storage_that_is_too_small_is_told():
    module, x = te.Linear(64, 48), torch.randn(32, 64, requires_grad=True)
    module(x)
    module.weight.untyped_storage().resize_(64)
    wanted = "argument 'weight': expected memory of 12288 bytes, but its storage was resized to 64"
    with pytest.raises(te_mlir.ArgumentError, match=wanted):
        module(x)
    fresh = te.Linear(64, 48)
    fresh.weight.untyped_storage().resize_(64)
    with pytest.raises(te_mlir.ArgumentError, match=wanted):
        fresh(x)


@pytest.mark.parametrize("size, said", [(0, "with memory, but its storage was freed"), (64, "memory of 12288 bytes")])
def test_a_storage_that_is_resized_before_the_backward_is_told(size, said):
    module, x = te.Linear(64, 48), torch.randn(32, 64, requires_grad=True)
    y = module(x)
    module.weight.untyped_storage().resize_(size)
    with pytest.raises(te_mlir.ArgumentError, match=f"argument 'weight': expected .*{said}"):
        y.sum().backward()


def test_a_weight_that_moves_before_the_backward_is_found():
    # A sharded weight moves in this way if it is gathered again.
    module, x = te.Linear(64, 48), torch.randn(32, 64, requires_grad=True)
    module(x).sum().backward()
    wanted, x.grad = x.grad, None
    y, weight = module(x), module.weight.detach().clone()
    storage = module.weight.untyped_storage()
    storage.resize_(0)
    taken = torch.full((48, 64), float("nan"))
    storage.resize_(weight.nbytes)
    storage.copy_(weight.untyped_storage())
    y.sum().backward()
    assert torch.equal(x.grad, wanted) and taken.isnan().all()


@pytest.mark.parametrize("width", [64, 60])
def test_an_empty_batch_has_gradients_of_zeros(recipe, width):
    """Also if casts need padding, from which results and gradients are cut."""
    module = te.LayerNormMLP(width, 100, params_dtype=torch.bfloat16)
    x = torch.randn(0, width, dtype=torch.bfloat16, requires_grad=True)
    with te.autocast(recipe=recipe):
        y = module(x)
    y.sum().backward()
    assert y.shape == (0, width) and x.grad.shape == (0, width)
    assert all((p.grad == 0).all() for p in module.parameters())


def test_sums_of_two_weights_lie_apart():
    module = te.LayerNormMLP(64, 64, fuse_wgrad_accumulation=True)
    module.fc1_weight.main_grad = module.fc2_weight.main_grad = torch.zeros(64, 64)
    with pytest.raises(te_mlir.ArgumentError, match="fc[12]_weight.main_grad': expected memory of its own, but it ov"):
        module(torch.randn(32, 64))


def test_casts_of_weights_are_kept_over_microbatches():
    module = te.Linear(64, 64, bias=False, params_dtype=torch.bfloat16)
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    with te.autocast(recipe=te_mlir.Float8CurrentScaling()):
        with pytest.raises(te_mlir.ArgumentError, match="'is_first_microbatch': expected True in the first call"):
            module(x, is_first_microbatch=False)
        first = module(x, is_first_microbatch=True)
        assert torch.equal(first, module(x))
        with torch.no_grad():
            module.weight.mul_(2)
        # The earlier casts are used until the next first micro-batch.
        assert torch.equal(module(x, is_first_microbatch=False), first)
        assert torch.equal(module(x, is_first_microbatch=True), 2 * first)


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("make", [te.Linear, te.LayerNormLinear])
def test_calls_of_one_first_microbatch_are_added_up(make, second):
    """Both forwards run before the backwards.

    The sum of a Linear starts in its forward, that of other modules in a backward.
    """
    module, inputs = make(64, 48, fuse_wgrad_accumulation=True), torch.randn(2, 32, 64)
    for _ in range(2):
        losses = [module(x, is_first_microbatch=first).square().mean() for x, first in zip(inputs, (True, second))]
        sum(losses).backward()
    sums = [p.main_grad.clone() for p in module.parameters()]
    for p in module.parameters():
        p.main_grad.zero_()
    for x in inputs:
        module(x).square().mean().backward()
    assert all(torch.allclose(mine, p.main_grad, rtol=1e-5, atol=1e-7) for mine, p in zip(sums, module.parameters()))


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_a_frozen_parameter_has_no_sum(frozen):
    layer = te_mlir.torch.Linear(64, 64, params_dtype=torch.bfloat16, fuse_wgrad_accumulation=True)
    x = torch.randn(32, 64, dtype=torch.bfloat16, requires_grad=True)
    layer(x).sum().backward()
    for parameter in layer.parameters():
        del parameter.main_grad
    getattr(layer, frozen).requires_grad_(False)
    layer(x).sum().backward()
    assert {n for n, p in layer.named_parameters() if hasattr(p, "main_grad")} == {"weight", "bias"} - {frozen}
    assert all(p.grad is None for p in layer.parameters()) and x.grad is not None


def test_sizes_of_groups_may_be_a_row_of_a_table():
    layer = te_mlir.torch.GroupedLinear(6, 64, 64, params_dtype=torch.bfloat16, alignment=16)
    table = torch.tensor([[16, 16, 16, 16, 16, 16], [0, 32, 16, 0, 32, 16]], dtype=torch.int32)
    x = torch.randn(96, 64, dtype=torch.bfloat16)
    for sizes in table:
        assert torch.equal(layer(x, sizes), layer(x, sizes.tolist()))


@pytest.mark.parametrize("recipe", RECIPES)
def test_groups_of_a_tensor_follow_one_another_with_an_alignment_of_1(recipe):
    """The host does not read the sizes, which are multiples of nothing; rows behind the last group give zeros."""
    exact = {"nvfp4_block_scaling": te_mlir.NVFP4BlockScaling(disable_stochastic_rounding=True)}
    aligned, *others = [te.GroupedLinear(4, 30, 7, params_dtype=torch.bfloat16, alignment=a) for a in (128, 1, 1)]
    for layer in others:
        layer.load_state_dict(dict(aligned.named_parameters()), strict=False)
    x, dy = torch.randn(53, 30).bfloat16().requires_grad_(), torch.randn(53, 7).bfloat16()
    for sizes in ([20, 0, 12, 21], [0, 1, 0, 40]):
        used = sum(sizes)
        found = []
        for layer, rows, splits in (
            (aligned, x[:used], sizes),
            (others[0], x, torch.tensor(sizes)),
            (others[1], x[:used], sizes),
        ):
            with te.autocast(recipe=exact.get(recipe, RECIPES[recipe])):
                y = layer(rows, splits)
            found.append([y, *torch.autograd.grad(y, [x, *layer.parameters()], dy[: len(rows)])])
            assert not y[used:].any()
        for one, two, three in zip(*found):
            assert torch.equal(one, two[: len(one)]) and torch.equal(one, three)


class Around(torch.nn.Module):
    """Modules of te beside a layer of torch.nn."""

    def __init__(self):
        super().__init__()
        self.one = te.Linear(64, 64)
        self.two = te.LayerNormMLP(64, 128, normalization="RMSNorm", activation="swiglu")
        self.groups = te.GroupedLinear(2, 64, 64, alignment=16)
        self.last = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.last(self.groups(self.two(self.one(x)), [16, 16]).relu())


@pytest.mark.filterwarnings("error:(te|Dynamo)")
@pytest.mark.parametrize("recipe", [None, te_mlir.Float8CurrentScaling()])
@pytest.mark.parametrize("compiled", ["eager", "te"])
def test_modules_in_a_compiled_model_are_not_traced(compiled, recipe):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, x, handle = randomise(Around()), torch.randn(32, 64), te.Backend(te_mlir.HighPrecision(), strict=True)
    found = []
    for call in (model, torch.compile(model, backend=handle if compiled == "te" else compiled)):
        with te.autocast(enabled=recipe is not None, recipe=recipe):
            y = call(x)
        y.square().sum().backward()
        found.append([y.detach().clone(), *(p.grad for p in model.parameters())])
        model.zero_grad()
    # Only the last layer and the activation before it.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert len(handle.graphs) == (compiled == "te")
    for one, two in zip(*found):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-4 * float(one.abs().max()))


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_module_that_dynamo_traces_ends_quietly():
    layer = te_mlir.torch.Linear(64, 64, params_dtype=torch.bfloat16)
    x = torch.randn(32, 64, dtype=torch.bfloat16, requires_grad=True)
    torch.compile(lambda x: layer(x) * 2, backend="eager")(x).sum().backward()
    gc.collect()
