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
