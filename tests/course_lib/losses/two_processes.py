"""The program of test_gathered_nt_xent.py: two processes, which save their results in a folder."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel

from course_lib.fast import gathered_nt_xent

N, n, d_in, d, TEMPERATURE = 6, 3, 5, 7, 0.3


def joint_batch() -> tuple[nn.Module, torch.Tensor]:
    """Return the same model and the same views (2, N, d_in) in every process."""
    torch.manual_seed(0)
    return nn.Linear(d_in, d).double(), torch.randn(2, N, d_in, dtype=torch.float64)


def train(rank: int, folder: str) -> None:
    """Take this process's pairs of the joint batch, and save the loss and the gradients of weights and views."""
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    model, views = joint_batch()
    own = views[:, rank * n : (rank + 1) * n].clone().requires_grad_()
    shared = DistributedDataParallel(model)
    loss = gathered_nt_xent(*shared(own.flatten(0, 1)).chunk(2), TEMPERATURE)
    loss.backward()
    result = {"loss": loss.item(), "weight": model.weight.grad, "bias": model.bias.grad, "views": own.grad}
    (first,) = torch.autograd.grad(gathered_nt_xent(*model(own.flatten(0, 1)).chunk(2), TEMPERATURE), own, create_graph=True)
    (result["penalty"],) = torch.autograd.grad(first.square().sum(), own)
    torch.save(result, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    start_processes(train, (sys.argv[1],), nprocs=2, start_method="fork")
