"""Peak memory of a call, counted by torch's allocator, so that the same call yields the same number."""

import os
from collections.abc import Callable

import torch


def peak_memory(call: Callable[[], object]) -> int:
    """Run a call and return the peak memory of tensors in bytes, beyond that before the call.

    Every tensor counts, including those inside torch's kernels and in a backward pass; memory that other libraries allocate
    does not. Memory on the CPU and on CUDA devices is added up.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler writes a line to stderr at each start and stop
    from torch.autograd import DeviceType
    from torch.autograd.profiler import profile

    on_gpu = torch.cuda.is_available()
    if on_gpu:
        allocate_workspaces("cuda")
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with profile(use_cpu=True, profile_memory=True) as watched:
        kept = call()
    events = [event for event in watched.kineto_results.events() if event.name() == "[memory]"]
    on_cpu = [event for event in events if event.device_type() == DeviceType.CPU]
    held = highest = 0
    for event in sorted(on_cpu, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    del kept
    return highest + (torch.cuda.max_memory_allocated() - before if on_gpu else 0)


def allocate_workspaces(device: str) -> None:
    """Multiply and differentiate once: the first product of each thread, here and in autograd, allocates a lasting workspace.

    Gradients are enabled for it, so that it also works where the caller has disabled them.
    """
    with torch.inference_mode(False), torch.enable_grad():
        one = torch.ones(1, 1, device=device, requires_grad=True)
        (one @ one).backward()
