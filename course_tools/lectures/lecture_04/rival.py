"""Compare a rival without content-dependent weights with attention on the two questions of build task 04.7, over some seeds."""

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank.lecture_04.train_attention_rival import N_VALUES, SelfAttentionReader, examples, submit
from course_tools.checks.training_record import Recorder
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.training_curve import show_recorded_losses, trained_with_losses


def train_the_model(seed: int, n_steps: int = 300) -> int:
    """Print a text with its answers, train the model of build task 04.7, draw its losses, and count its parameters.

    Args:
        seed: of the 4,000 texts, the weights and the batches.
        n_steps: number of updates with batches of 64, by Adam with learning rate 0.005.

    Returns:
        the number of parameters, after a table of their shapes.
    """
    texts, answers = examples(4_000, seed)
    print(f"keys    {texts[0, :, 0].tolist()}")
    print(f"values  {texts[0, :, 1].tolist()}, where {N_VALUES} is the blank")
    print(f"answers {answers[0].tolist()}")
    torch.manual_seed(seed)
    model = SelfAttentionReader()
    trained_with_losses(lambda: submit((texts, answers, 0, n_steps), model=lambda: model), "the model", "cross-entropy, nats")
    for name, p in model.named_parameters():
        print(f"{name:<18}{' × '.join(map(str, p.shape)):>8}{p.numel():>8,}")
    n_parameters = sum(p.numel() for p in model.parameters())
    print(f"{'all':<18}{n_parameters:>16,}")
    print(f"{n_steps} updates with batches of 64, Adam at 0.005")
    return n_parameters


def compared(
    train_rival: Callable[[Tensor, Tensor, int, int], nn.Module], n_parameters: int, seeds: Iterable[int], n_steps: int = 300
) -> dict[str, list[float]]:
    """Train attention and the rival on 4,000 texts with each seed, draw their losses, and measure both on 500 unseen texts.

    The rival is measured as it is returned: in training mode, its dropout is active.

    Args:
        train_rival: `(texts, answers, n_parameters, n_steps)` → the trained rival.
        n_parameters: passed to `train_rival`.
        seeds: of the texts, the weights and the batches.
        n_steps: number of updates of each model.

    Returns:
        accuracies, one per seed, under "look-up: attention", "look-up: rival", "reversal: attention" and "reversal: rival".
    """
    found: dict[str, list[float]] = {f"{ask}: {name}": [] for ask in ("look-up", "reversal") for name in ("attention", "rival")}
    losses: dict[str, list[Sequence[float]]] = {"attention": [], "rival": []}
    for seed in seeds:
        known, (unseen, answers) = examples(4_000, seed), examples(500, 100 + seed)
        torch.manual_seed(seed)
        trainings = {
            "attention": lambda known=known: submit((*known, 0, n_steps), model=SelfAttentionReader),
            "rival": lambda known=known: train_rival(*known, n_parameters, n_steps),
        }
        for name, train in trainings.items():
            with Recorder() as training:
                model = train()
            losses[name].append(training.losses)
            with torch.no_grad():
                right = (model(unseen).argmax(-1) == answers).float().mean(0)
            found[f"look-up: {name}"].append(right[8:].mean().item())
            found[f"reversal: {name}"].append(right[:8].mean().item())
    show_recorded_losses(losses, "cross-entropy, nats")
    return found


def show_attention_rival(
    train_rival: Callable[[Tensor, Tensor, int, int], nn.Module], n_parameters: int, seeds: Iterable[int], n_steps: int = 300
) -> None:
    """Draw the losses and accuracies of `compared`, beside the accuracy of the most frequent value of a text at look-up."""
    guess = {"look-up: the most frequent value": most_frequent_value(seed=100)}
    show_seeds(compared(train_rival, n_parameters, seeds, n_steps), "accuracy", "unseen texts, one point per seed", guess)


def most_frequent_value(seed: int) -> float:
    """Compute the accuracy at look-up of guessing the most frequent of the eight values of a text, on 500 texts."""
    texts, _ = examples(500, seed)
    return F.one_hot(texts[:, :8, 1]).sum(1).amax(-1).float().mean().item() / 8
