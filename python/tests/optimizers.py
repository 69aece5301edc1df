"""Parameters, gradients and comparisons for the tests of te_mlir.torch.optim."""

import torch

U = 2.0**-24
SHAPES = [(64, 48), (48,), (), (3, 5, 7), (0, 4), (4099,)]


def parameters(shapes=SHAPES, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def give_gradients(tensors, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    for tensor in tensors:
        tensor.grad = (scale * torch.randn(tensor.shape, generator=generator)).to(tensor.dtype)


def assert_near(actual, expected, bound):
    difference = (actual.detach().double() - expected.detach().double()).abs()
    assert (difference <= bound).all(), (difference - bound).max()


def assert_same_step(mine, others, seed):
    """Optimizers with the state of `mine`, of one parameter, make its next step bit for bit."""
    (tensor,) = mine.param_groups[0]["params"]
    give_gradients([tensor], seed)
    gradient = tensor.grad.clone()
    mine.step()
    for optimizer in others:
        (each,) = optimizer.param_groups[0]["params"]
        each.grad = gradient.clone()
        optimizer.step()
        assert torch.equal(each, tensor)
        assert mine.grad_norm is None or torch.equal(optimizer.grad_norm, mine.grad_norm)
        for name, value in mine.state[tensor].items():
            assert torch.equal(optimizer.state[each][name].float(), value.float()), name
