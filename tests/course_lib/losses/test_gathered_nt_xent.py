"""NT-Xent over two processes is that of one process with the joint batch: the loss and all gradients."""

import os
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch
import torch.distributed as dist

from course_lib.fast import gathered_nt_xent
from course_lib.losses import nt_xent
from tests.course_lib.losses.two_processes import TEMPERATURE, joint_batch, n

ROOT = Path(__file__).parents[3]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
"""As in docs/several_devices.md."""


def run(*arguments: object) -> str:
    """Run Python with these arguments, and return its output."""
    command = [sys.executable, *map(str, arguments)]
    settings = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    run(ROOT / "tests/course_lib/losses/two_processes.py", folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def one():
    """The loss of one process with the joint batch, its model after the backward pass, and the views."""
    model, views = joint_batch()
    views.requires_grad_()
    loss = nt_xent(*model(views.flatten(0, 1)).chunk(2), TEMPERATURE)
    loss.backward()
    return loss.item(), model, views


needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch was built without gloo")


@needs_gloo
def test_the_mean_of_the_losses_is_the_joint_loss(one, two):
    losses = [result["loss"] for result in two]
    assert losses[0] != losses[1]
    assert sum(losses) / 2 == pytest.approx(one[0], rel=1e-12)


@needs_gloo
def test_every_process_has_the_joint_gradients_of_the_weights(one, two):
    for result in two:
        torch.testing.assert_close(result["weight"], one[1].weight.grad, atol=1e-13, rtol=1e-11)
        torch.testing.assert_close(result["bias"], one[1].bias.grad, atol=1e-13, rtol=1e-11)


@needs_gloo
def test_gradients_cross_between_the_processes(one, two):
    """Each process sums the gradients of all for its views, so two processes give twice the gradient of the mean loss."""
    for rank, result in enumerate(two):
        joint = one[2].grad[:, rank * n : (rank + 1) * n]
        torch.testing.assert_close(result["views"] / 2, joint, atol=1e-13, rtol=1e-11)


@needs_gloo
def test_second_derivatives_cross_between_the_processes(two):
    """A process's rows of the gradient are twice the joint ones, so their squares sum to four times the joint penalty."""
    model, views = joint_batch()
    views.requires_grad_()
    loss = nt_xent(*model(views.flatten(0, 1)).chunk(2), TEMPERATURE)
    (first,) = torch.autograd.grad(loss, views, create_graph=True)
    (penalty,) = torch.autograd.grad(first.square().sum(), views)
    assert penalty.abs().max() > 1e-4
    for rank, result in enumerate(two):
        torch.testing.assert_close(result["penalty"] / 4, penalty[:, rank * n : (rank + 1) * n], atol=1e-13, rtol=1e-11)


@pytest.fixture
def alone(tmp_path):
    if not dist.is_gloo_available():
        pytest.skip("this torch was built without gloo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_one_process_alone_has_the_plain_loss(alone, normal, agree):
    agree(lambda a, b: gathered_nt_xent(a, b, 0.5), lambda a, b: nt_xent(a, b, 0.5), normal(5, 7), normal(5, 7))


def test_views_that_are_no_pairs_are_refused(alone, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="b does not fit"):
        gathered_nt_xent(torch.ones(2, 3), torch.ones(3, 3), 0.5)


def test_without_processes_it_says_so():
    with pytest.raises(ValueError, match="process group has not been initialized"):
        gathered_nt_xent(torch.ones(2, 3), torch.ones(2, 3), 0.5)


@needs_gloo
@pytest.mark.full
@pytest.mark.slow
def test_the_example_trains_on_two_processes(tmp_path):
    said = run(
        *TORCHRUN, "examples/simclr_on_several_devices.py", "--steps", 4, "--pairs", 16, "--save", tmp_path / "encoder.pt"
    )
    assert len(said.splitlines()) == 4
    assert said.startswith("step 1: loss ")
    assert "0.layers.0.weight" in torch.load(tmp_path / "encoder.pt")
