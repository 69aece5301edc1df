"""The states of recipes belong to the model: they are shared by graphs, saved in state_dict, and copied."""

import copy
import io
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import te_mlir
import te_mlir.torch as te

DELAYED = te_mlir.DelayedScaling(amax_history_len=4)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 64)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


class Broken(Block):
    """A graph break separates the two layers of a block."""

    def forward(self, x):
        torch._dynamo.graph_break()
        return super().forward(x)


class Layers(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = nn.ModuleList(kind() for _ in range(3))
        with torch.no_grad():
            for index, layer in enumerate(self.layers):
                layer.up.weight.mul_(4.0**index)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class DropIn(nn.Module):
    """Two nested modules with their own recipe."""

    def __init__(self, recipe=DELAYED):
        super().__init__()
        self.recipe = recipe
        self.mlp = te.LayerNormMLP(64, 128, activation="relu", params_dtype=torch.bfloat16)
        self.head = te.Linear(64, 64, params_dtype=torch.bfloat16)

    def forward(self, x):
        with te.autocast(recipe=self.recipe):
            return self.head(self.mlp(x))


def jitted(recipe=DELAYED, **options):
    torch.manual_seed(1)
    return te.jit(Block().bfloat16(), recipe=recipe, strict=True, **options)


def drop_in(recipe=DELAYED):
    torch.manual_seed(1)
    return DropIn(recipe)


def batches(count, rows=32):
    """Batches of increasing magnitude, so that the scales depend on the history."""
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(rows, 64, generator=generator).mul_(2.0**i).bfloat16() for i in range(count)]


def train(model, inputs, optimizer=None):
    """Trains with each input. Returns outputs and gradients of each step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=2.0**-8)
    found = []
    for x in inputs:
        optimizer.zero_grad()
        y = model(x)
        y.float().square().mean().backward()
        found += [y.detach(), *[p.grad.clone() for p in model.parameters()]]
        optimizer.step()
    return found


def assert_equal(mine, theirs):
    assert len(mine) == len(theirs) and mine
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs))


def te_states(model):
    return {name: value for name, value in model.state_dict().items() if name.startswith("te.") or ".te." in name}


@pytest.mark.parametrize("make", [jitted, drop_in])
@pytest.mark.parametrize("change", ["no_grad", "eval", "requires_grad", "rows"])
def test_every_graph_of_a_model_has_its_states(make, change):
    *inputs, x = batches(5)
    model, one_graph = make(), make()
    for each in (model, one_graph):
        train(each, inputs)
    wanted = one_graph(x)
    if change == "no_grad":
        with torch.no_grad():
            y = model(x)
    elif change == "eval":
        y = model.eval()(x)
    elif change == "requires_grad":
        y = model(x.clone().requires_grad_())
    else:
        y = model(x.repeat(2, 1))[: len(x)]
    assert torch.equal(y, wanted)
    mine, theirs = ({n: s for n, s in te_states(m).items() if ".dy." not in n} for m in (model, one_graph))
    assert mine.keys() == theirs.keys() and mine
    assert_equal(list(mine.values()), list(theirs.values()))
    # Without the history, the result differs.
    assert not torch.equal(make()(x), wanted)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_calls_without_gradients_change_no_history(cuda_graph, mode):
    """Training has the same bits, also if an evaluation runs between a forward and its backward."""
    runs = []
    for evaluates in (True, False):
        torch._dynamo.reset()
        model, found = jitted(cuda_graph=cuda_graph), []
        for x in batches(4):
            model.zero_grad()
            y = model(x)
            found.append(y.detach().clone())
            if evaluates:
                with mode():
                    assert torch.equal(model(x), y)
                    model(64 * x)
            y.float().square().mean().backward()
            found += [p.grad.clone() for p in model.parameters()]
        runs.append([*found, *te_states(model).values()])
    assert_equal(*runs)


@pytest.mark.parametrize("make", [jitted, drop_in])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_forward_that_a_checkpoint_runs_again_counts_once(make, reentrant):
    runs = []
    for wrap in (lambda m: m, lambda m: lambda x: checkpoint(m, x, use_reentrant=reentrant)):
        torch._dynamo.reset()
        model, found = make(), []
        for x in batches(4):
            model.zero_grad()
            y = wrap(model)(x.requires_grad_())
            y.float().square().mean().backward()
            found += [y.detach(), x.grad, *(p.grad for p in model.parameters())]
        runs.append([*found, *te_states(model).values()])
    assert_equal(*runs)


@pytest.mark.parametrize("rows", [32, 64])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_casts_that_are_made_again_have_the_scales_of_their_forward(cuda_graph, rows):
    """Backwards run after updates by other forwards. With remat="nothing", no cast of the forward is repeated."""
    runs = []
    for options in ({}, {"remat": "everything"}, {"remat": "nothing"}):
        torch._dynamo.reset()
        model, found = jitted(cuda_graph=cuda_graph, **options), []
        train(model, batches(2))
        for first, second in zip(batches(6)[::2], batches(6, rows)[1::2]):
            # As in pipeline parallelism, the forward of a micro-batch runs before the backward of the previous one.
            a, b = model(first), model(second)
            for y in (a, b):
                model.zero_grad()
                y.float().square().mean().backward()
                found += [y.detach().clone(), *(p.grad.clone() for p in model.parameters())]
        runs.append([*found, *te_states(model).values()])
    assert_equal(runs[0], runs[2])
    assert_equal(runs[1], runs[2])


def test_casts_that_are_kept_are_no_scales_of_a_forward_that_waits():
    """Two forwards run before their backwards, as in pipeline parallelism.

    Cached casts give the same bits as casts in each call.
    """
    runs = []
    for options in ({}, {"cache_weights": True}):
        torch._dynamo.reset()
        model, found = jitted(**options), []
        a, b = map(model, batches(2))
        for y in (a, b):
            model.zero_grad()
            y.float().square().mean().backward()
            found += [y.detach().clone(), *(p.grad.clone() for p in model.parameters())]
        runs.append(found)
    assert_equal(*runs)


@pytest.mark.parametrize("options", [{}, {"cache_weights": True}])
def test_layers_that_share_a_graph_keep_their_states_apart(options):
    inputs = batches(4)
    runs, states = [], []
    for kind in (Block, Broken):
        torch.manual_seed(1)
        model = te.jit(Layers(kind).bfloat16(), recipe=DELAYED, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = train(model, inputs[:3])
            if options:
                with model.te.microbatch(first=False):
                    found.append(model(inputs[3]).detach())
        runs.append(found)
        states.append(model.te.state_dict())
    compiled = [graph for graph in model.te.graphs if graph.region]
    assert len(compiled) < 3 and len({names for _, names in compiled[-1].region._loaded}) == 2
    assert states[0].keys() == states[1].keys() and "layers.2.up.x.amax_history" in states[0]
    assert_equal(runs[0], runs[1])
    assert_equal([states[0][n] for n in states[0]], [states[1][n] for n in states[0]])


def test_the_backend_by_name_has_one_history_too():
    inputs = batches(4)
    model = jitted()
    wanted = train(model, inputs)
    torch.manual_seed(1)
    plain = Block().bfloat16()
    options = {"recipe": DELAYED, "strict": True}
    compiled = torch.compile(plain, backend="te", options=options, dynamic=False)
    assert_equal(train(compiled, inputs), wanted)
    x = batches(5)[-1]
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    # Another model with the same options has its own states.
    torch.manual_seed(1)
    other = torch.compile(Block().bfloat16(), backend="te", options=options, dynamic=False)
    assert_equal(train(other, inputs), wanted)


RESUMED = {
    "delayed": DELAYED,
    # Its state is that of a random generator.
    "nvfp4": te_mlir.NVFP4BlockScaling(),
}


@pytest.mark.parametrize("recipe", RESUMED.values(), ids=list(RESUMED))
@pytest.mark.parametrize("make", [jitted, drop_in])
def test_training_goes_on_from_a_file_bit_for_bit(make, recipe):
    inputs = batches(5)
    model = make(recipe)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-8, momentum=0.5)
    train(model, inputs[:3], optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    wanted = train(model, inputs[3:], optimizer)
    for called in (False, True):
        torch._dynamo.reset()
        other = make(recipe)
        optimizer = torch.optim.SGD(other.parameters(), lr=2.0**-8, momentum=0.5)
        if called:
            train(other, inputs[:1], optimizer)
        file.seek(0)
        saved = torch.load(file)
        assert str(other.load_state_dict(saved["model"])) == "<All keys matched successfully>"
        optimizer.load_state_dict(saved["optimizer"])
        # Loaded values that no call has used yet are saved again.
        assert other.state_dict().keys() == saved["model"].keys()
        assert_equal([other.state_dict()[n] for n in saved["model"]], list(saved["model"].values()))
        assert_equal(train(other, inputs[3:], optimizer), wanted)
    # The loaded states matter: without them, the steps differ.
    torch._dynamo.reset()
    other = make(recipe)
    weights = {name: value for name, value in saved["model"].items() if name not in te_states(model)}
    assert len(weights) < len(saved["model"])
    other.load_state_dict(weights)
    assert not all(torch.equal(a, b) for a, b in zip(train(other, inputs[3:]), wanted))


@pytest.mark.parametrize("make, head, layer", [(jitted, "te.", "up"), (drop_in, "mlp.te.", "fc1_weight")])
@pytest.mark.parametrize("called", [False, True])
def test_keys_are_strict(make, head, layer, called):
    model, other = make(), make()
    train(other, batches(2))
    if called:
        train(model, batches(1))
    saved = other.state_dict()
    before = model.state_dict()
    known = f"{head}{layer}.x.scale"
    assert known in saved
    for wrong in ("nowhere.x.scale", f"{layer}.x.scales", f"{layer}.z.scale"):
        with pytest.raises(RuntimeError, match=f'Unexpected key.*"{head}{wrong}"'):
            model.load_state_dict({**saved, head + wrong: torch.ones(())})
        found = model.load_state_dict({**before, head + wrong: torch.ones(())}, strict=False)
        assert found.unexpected_keys == [head + wrong]
    some = {name: value for name, value in saved.items() if name != known}
    if called:
        with pytest.raises(RuntimeError, match=f'Missing key.*"{known}"'):
            model.load_state_dict(some)
        with pytest.raises(RuntimeError, match=r"expected float32 \[\], but got float32 \[3\]"):
            model.load_state_dict({**saved, known: torch.ones(3)})
    else:
        # Before the first call, the names and types of the model's states are unknown.
        model.load_state_dict({**some, known: torch.ones(3)})
        with pytest.raises(te_mlir.ArgumentError, match=rf"state '{layer}.x.scale': expected float32 \[\], but got"):
            model(batches(1)[0])


class Fused(nn.Module):
    """Layers of rows of a weight, and of columns of another weight."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Linear(64, 96, bias=False)
        self.columns = nn.Parameter(torch.randn(64, 96) / 8)

    def forward(self, x):
        parts = (*self.rows(x).chunk(3, -1), *(x @ self.columns).chunk(3, -1))
        return sum(parts)


def test_parts_that_a_weight_does_not_have_are_unexpected():
    model, other = (te.jit(Fused().bfloat16(), recipe=DELAYED, strict=True) for _ in range(2))
    train(other, batches(1))
    saved = other.state_dict()
    assert {"te.rows[0:32].x.scale", "te.columns[:, 32:64].w.scale"} <= saved.keys()
    wrong = [
        "rows[64:128].x.scale",
        "rows[32:32].x.scale",
        "rows[:, 0:96].x.scale",
        "rows[0:32][0:32].x.scale",
        "[0:32]rows.x.scale",
        "columns[:, 64:97].x.scale",
        "rows[0:32].row.data",
        "rows.weight[0:32].row.data",
    ]
    found = model.load_state_dict({**saved, **{f"te.{name}": torch.ones(()) for name in wrong}}, strict=False)
    assert found.unexpected_keys == [f"te.{name}" for name in wrong]
    cast = {"te.rows[0:32].weight.row.data": torch.zeros(32, 64, dtype=torch.uint8)}
    assert str(model.load_state_dict({**saved, **cast})) == "<All keys matched successfully>"


def test_the_handle_loads_what_it_saved():
    model = jitted()
    train(model, batches(3))
    states = model.te.state_dict()
    kinds = [f"{tensor}.{kind}" for tensor in ("dy", "w", "x") for kind in ("amax_history", "scale")]
    assert sorted(states) == [f"{layer}.{kind}" for layer in ("down", "up") for kind in kinds]
    torch._dynamo.reset()
    other = jitted()
    with pytest.raises(KeyError, match="'up.x.sale'"):
        other.te.load_state_dict({**states, "up.x.sale": torch.ones(())})
    other.te.load_state_dict(states)
    other(batches(1)[0])
    with pytest.raises(KeyError, match="expected a state 'up.x.scale', but got"):
        other.te.load_state_dict({name: value for name, value in states.items() if name != "up.x.scale"})
    with pytest.warns(UserWarning, match="not those of DelayedScaling: 12 of the model start from the initial value"):
        other.te.load_state_dict({})
    other.te.load_state_dict(states)
    assert_equal(list(other.te.state_dict().values()), [states[name] for name in other.te.state_dict()])


SWITCHED = {
    "none": te_mlir.HighPrecision(),
    "current": te_mlir.Float8CurrentScaling(),
    "delayed": DELAYED,
    "longer": te_mlir.DelayedScaling(amax_history_len=8),
    "nvfp4": te_mlir.NVFP4BlockScaling(),
}


# The numbers of states that are not used, and that are new.
@pytest.mark.sampled
@pytest.mark.parametrize(
    "before, after, left, new",
    [
        ("none", "delayed", 0, 12),
        ("delayed", "none", 12, 0),
        ("delayed", "current", 12, 0),
        ("delayed", "nvfp4", 12, 1),
        ("nvfp4", "delayed", 1, 12),
        ("delayed", "longer", 0, 6),
        ("current", "none", 0, 0),
        ("delayed", "delayed", 0, 0),
    ],
)
@pytest.mark.parametrize("called", [False, True])
def test_training_goes_on_under_another_recipe(before, after, left, new, called):
    inputs = batches(4)
    model = jitted(SWITCHED[before])
    train(model, inputs[:2])
    saved = {name: value.clone() for name, value in model.state_dict().items()}
    torch._dynamo.reset()
    other = jitted(SWITCHED[after])
    if called:
        train(other, inputs[:1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert str(other.load_state_dict(saved)) == "<All keys matched successfully>"
        losses = train(other, inputs[2:])
    name = type(SWITCHED[after]).__name__
    parts = [f"{left} of them {'is' if left == 1 else 'are'} not used"] * (left > 0)
    parts += [f"{new} of the model {'starts' if new == 1 else 'start'} from the initial value"] * (new > 0)
    said = [str(each.message) for each in caught if "te: " in str(each.message)]
    assert said == [f"te: loaded states are not those of {name}: {', and '.join(parts)}"] * bool(parts)
    # As a model that starts with these weights, and with the scales of a history that has another length.
    torch._dynamo.reset()
    fresh = jitted(SWITCHED[after])
    kept = [] if new or left == 12 else te_states(model)
    if (before, after) == ("delayed", "longer"):
        kept = [key for key in te_states(model) if key.endswith(".scale")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh.load_state_dict(
            {key: value for key, value in saved.items() if key not in te_states(model) or key in kept}
        )
    assert_equal(train(fresh, inputs[2:]), losses)
    # States that were not used are not saved again.
    assert all(key.rpartition(".")[2] in SWITCHED[after].states() for key in other.te.state_dict())


def test_modules_go_on_under_another_recipe():
    inputs = batches(4)
    model = drop_in(te_mlir.HighPrecision())
    train(model, inputs[:2])
    saved = model.state_dict()
    for called in (False, True):
        other = drop_in()
        if called:
            train(other, inputs[:1])
        with pytest.warns(UserWarning, match="not those of DelayedScaling: 6 of the model start from") as caught:
            assert str(other.load_state_dict(saved)) == "<All keys matched successfully>"
            train(other, inputs[2:])
        # One of each of the two modules.
        assert len([each for each in caught if "te: " in str(each.message)]) == 2
    # The recipe of a module is that of its call, so that it keeps the states of others.
    saved = other.state_dict()
    other = drop_in(te_mlir.HighPrecision())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_state_dict(saved)
        other(inputs[0])
        other.recipe = DELAYED
        train(other, inputs[2:])
    assert te_states(other).keys() == {name for name in saved if ".te." in name}


def test_casts_of_another_recipe_are_left():
    x = batches(1)[0]
    trainer = jitted(te_mlir.MXFP8BlockScaling(), cache_weights=True)
    trainer(x).float().sum().backward()
    states = trainer.te.state_dict()
    for called in (False, True):
        torch._dynamo.reset()
        other = jitted(te_mlir.Float8CurrentScaling(), cache_weights=True)
        if called:
            other(x)
        with pytest.warns(UserWarning, match="not those of Float8CurrentScaling: .* of them are not used"):
            other.te.load_state_dict(states)
            wanted = other(x)
        torch._dynamo.reset()
        assert torch.equal(jitted(te_mlir.Float8CurrentScaling())(x), wanted)


def copied(model):
    return copy.deepcopy(model)


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copies", [copied, saved_and_loaded])
@pytest.mark.parametrize("make", [jitted, drop_in, lambda: jitted(cuda_graph=True)])
def test_copies_of_called_models_go_on_by_themselves(make, copies):
    inputs = batches(5)
    model = make()
    train(model, inputs[:3])
    other = copies(model)
    assert type(other) is type(model) and other is not model
    assert_equal([te_states(other)[n] for n in te_states(model)], list(te_states(model).values()))
    wanted = train(model, inputs[3:])
    assert_equal(train(other, inputs[3:]), wanted)
    # A change of one copy does not affect the other.
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not torch.equal(model(inputs[0]), other(inputs[0]))
    if hasattr(model, "te"):
        assert other.te is not model.te and other.te.options == model.te.options and other.te.graphs


def test_copies_of_models_with_main_grad_and_casts():
    model = jitted(te_mlir.Float8CurrentScaling(), main_grad=True, cache_weights=True)
    x = batches(1)[0]
    model(x).sum().backward()
    other = copy.deepcopy(model)
    other(x).sum().backward()
    for mine, theirs in zip(other.parameters(), model.parameters()):
        assert mine is not theirs and torch.equal(mine.main_grad, theirs.main_grad)
    third = copy.deepcopy(model)
    with third.te.microbatch(first=False):
        with pytest.raises(te_mlir.ArgumentError, match="expected True in the first call"):
            third(x)


CASTS = [te_mlir.Float8CurrentScaling(), te_mlir.MXFP8BlockScaling(), te_mlir.NVFP4BlockScaling()]


@pytest.mark.parametrize("recipe", CASTS, ids=lambda recipe: type(recipe).__name__)
def test_casts_of_weights_go_to_another_model(recipe):
    # For example, a rollout computes with the casts of the trainer.
    trainer = jitted(recipe, cache_weights=True)
    x = batches(1)[0]
    y = trainer(x)
    y.float().sum().backward()
    states = trainer.te.state_dict()
    casts = {name: value for name, value in states.items() if ".row." in name or ".col." in name}
    assert "up.weight.row.data" in casts and not any(name in key for name in casts for key in trainer.state_dict())
    for called in (False, True):
        torch._dynamo.reset()
        rollout = jitted(recipe, cache_weights=True)
        with torch.no_grad():
            for layer in (rollout.up, rollout.down):
                layer.weight.zero_()
            if called:
                rollout(x)
            rollout.te.load_state_dict(states)
            with rollout.te.microbatch(first=False):
                assert torch.equal(rollout(x), y)
        held = rollout.te.state_dict()
        assert all(torch.equal(held[n].view(torch.uint8), casts[n].view(torch.uint8)) for n in casts)


def test_casts_are_of_every_graph_and_one_recipe():
    module, x = te.Linear(64, 64, params_dtype=torch.bfloat16), batches(1)[0]
    wanted = {}
    for recipe in (te_mlir.Float8CurrentScaling(), te_mlir.MXFP8BlockScaling()):
        with te.autocast(recipe=recipe):
            wanted[recipe] = module(x, is_first_microbatch=True).detach()
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()
        for recipe, y in wanted.items():
            with te.autocast(recipe=recipe):
                # Calls with other rows and without gradients use graphs that did not compute casts.
                assert torch.equal(module(x.repeat(2, 1), is_first_microbatch=False)[:32], y)
