"""Threads that compile, run and free steps of one context beside each other, and a child of fork that goes on with them."""

import os
import threading
import time

import numpy as np
import pytest

import te_mlir

THREADS, ROUNDS = 16, 20

TEXT = """
func.func @step(%x: tensor<8x16xf32> {te.name = "x"}, %w: tensor<16x16xf32> {te.name = "w"})
    -> (tensor<8x16xf32> {te.name = "y"}) {
  %y = te.linear %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
"""
WEIGHT = np.eye(16, dtype=np.float32)


def in_threads(body):
    """Calls body(number) in threads that begin together, and raises what one of them raised."""
    start, errors = threading.Barrier(THREADS), []

    def run(number):
        try:
            start.wait()
            body(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def call_often(step, number):
    for i in range(ROUNDS):
        value = float(number * ROUNDS + i)
        x = te_mlir.context().full((8, 16), "float32", value)
        y = np.asarray(step(x=x.numpy(), w=WEIGHT)["y"])
        np.testing.assert_array_equal(y, np.full((8, 16), value, np.float32))


@pytest.mark.parametrize("recorded", [False, True])
def test_threads_have_steps_of_their_own(recorded):
    def body(number):
        step = te_mlir.compile(TEXT, "step", cuda_graph=recorded)
        call_often(step, number)

    in_threads(body)


def test_collectives_of_a_context_follow_each_other():
    text = """
    module attributes {te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = 2>]} {
      func.func @step(%x: tensor<4xf32> {te.name = "x"}) -> (tensor<4xf32> {te.name = "y"}) {
        %y = te.all_reduce %x group 0 : tensor<4xf32>
        return %y : tensor<4xf32>
      }
    }
    """
    inside, most = [], []

    def exchange(send, receive, seconds):
        """The other rank has what this one has. Other threads run while this one sleeps."""
        inside.append(None)
        time.sleep(0.001)
        most.append(len(inside))
        inside.pop()
        for rank, (sent, received) in enumerate(zip(send, receive)):
            received[:] = sent
            if len(received) == 64:  # What ranks compare; the rank is at byte 24.
                received[24] = rank

    context = te_mlir.Context("reference")
    context.bind_exchange(0, exchange, 2, 0)

    def body(number):
        step = te_mlir.compile(text, "step", context=context)
        for _ in range(5):
            y = step(x=np.full(4, number, np.float32))["y"]
            np.testing.assert_array_equal(np.asarray(y), np.full(4, 2 * number, np.float32))

    in_threads(body)
    assert max(most) == 1


def test_threads_share_a_step():
    step = te_mlir.compile(TEXT, "step")
    in_threads(lambda number: call_often(step, number))


def test_errors_are_those_of_the_thread():
    step = te_mlir.compile(TEXT, "step")

    def body(number):
        for _ in range(ROUNDS):
            if number % 2:
                with pytest.raises(te_mlir.ArgumentError, match="argument 'x'"):
                    step(x=np.zeros((8, number), np.float32), w=WEIGHT)
            else:
                call_often(step, number)

    in_threads(body)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("recorded", [False, True])
def test_a_child_of_fork_goes_on(recorded):
    # Large enough for the reference backend to start threads.
    size = 256
    text = TEXT.replace("8x16x", f"{size}x{size}x").replace("16x16x", f"{size}x{size}x")
    step = te_mlir.compile(text, "step", cuda_graph=recorded, context=te_mlir.Context("reference"))
    draw = np.random.default_rng(0)
    w = draw.standard_normal((size, size), np.float32)
    inputs = [draw.standard_normal((size, size), np.float32) for _ in range(3)]

    def run():
        return b"".join(np.asarray(step(x=x, w=w)["y"]).tobytes() for x in inputs)

    expected = run()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(writing, "wb") as pipe:
                pipe.write(run())
        finally:
            os._exit(0)
    os.close(writing)
    beside = run()
    with open(reading, "rb") as pipe:
        assert pipe.read() == expected
    assert os.waitpid(child, 0) == (child, 0)
    assert beside == run() == expected
