"""Train SimCLR over several processes, one per device: each with its own pairs and the negatives of all processes.

torchrun --nproc-per-node 2 examples/simclr_on_several_devices.py --steps 20                   two processes on one machine
torchrun --nproc-per-node 8 examples/simclr_on_several_devices.py --data cifar10 --pairs 512   eight GPUs, joint batch 4,096

See docs/several_devices.md.
"""

import argparse
import math
import os

import torch
import torch.distributed as dist
from cifar10 import cifar10
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, mnist
from course_lib.fast import gathered_nt_xent
from course_lib.models import SimCLR
from course_lib.training import batches, train

DIGITS = Augmentation(turn=0.25, zoom=1.25, shear=0.3, shift=0.06)
COLOURS = Augmentation(zoom=1.5, shift=0.15, flip=0.5, brightness=1.6, saturation=0.8, hue=0.6)


def main() -> None:
    """Train, and let the first process report and save the encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("mnist", "cifar10"), default="mnist")
    parser.add_argument("--pairs", type=int, default=96, help="pairs of views in each process (default 96)")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--save", help="file for the encoder's weights")
    asked = parser.parse_args()
    device = start()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    images, augment = (mnist().images, DIGITS) if asked.data == "mnist" else (cifar10().train.images, COLOURS)
    model = on_all(SimCLR(nn.Sequential(ConvNet(images.shape[1]), nn.AdaptiveMaxPool2d(1), nn.Flatten()), 64), device)
    joint = batches(images, batch_size=asked.pairs * world, seed=0)
    own = (part[0][rank::world] for part in joint if len(part[0]) == asked.pairs * world)
    generator = torch.Generator().manual_seed(1 + rank)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        views = (augment(x.to(device), generator) for _ in range(2))
        return gathered_nt_xent(*model(*views), asked.temperature)

    for step in train(model, own, loss, steps=asked.steps, lr=5e-3, warmup=asked.steps // 10):
        if rank == 0 and (step.index + 1) % max(asked.steps // 10, 1) == 0:
            guess = math.log(2 * asked.pairs * world - 1)
            print(f"step {step.index + 1}: loss {step.loss:.3f}, at chance {guess:.3f}", flush=True)
    if rank == 0 and asked.save:
        torch.save(model.module.encoder.state_dict(), asked.save)
    dist.destroy_process_group()


def start() -> torch.device:
    """Connect the processes that torchrun has started, over NCCL if there are GPUs, else over gloo."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def on_all(model: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Keep the weights of all processes equal; on GPUs batch normalisation also averages over the joint batch."""
    if device.type == "cuda":
        return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device), device_ids=[device.index])
    return DistributedDataParallel(model)


if __name__ == "__main__":
    main()
