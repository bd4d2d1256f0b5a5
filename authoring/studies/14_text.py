"""What does a language model lose by a state of fixed size: linear or softmax attention, on the characters of a reference?

The text of the lecture, Python's language reference in pieces of 128 characters. One block of width 64 with four heads, with
linear attention (elu + 1) or with softmax attention; all else is equal, with 57,000 weights each. Two controls say which characters
softmax attention gains by: a window of the last eight, and a short convolution, which mixes the last four before the block.

Budget: 2,500 updates with 16 pieces each, three seeds, learning rate 0.005. Recorded are bits for a character of 200 pieces that
were held out, through training and at the end. About twelve minutes on one CPU thread.
On a GPU: the same settings.
"""

import torch

from course_lib.blocks import Sizes
from course_lib.models import LinearTransformer
from course_lib.training import batches, train
from course_tools.lectures.lecture_14 import character_text

STEPS, LR, SIZES = 2_500, 5e-3, Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=1)
SETTINGS = {
    "linear": LinearTransformer,
    "softmax": character_text.softmax_twin,
    "softmax, the last 8": character_text.window_twin,
    "linear, convolution": lambda *sizes: character_text.convolved(LinearTransformer(*sizes)),
    "softmax, convolution": lambda *sizes: character_text.convolved(character_text.softmax_twin(*sizes)),
}
TOLERANCE = {"bits": 0.06, "curve": 0.1}


def run(make, seed, device):
    """Train one model; its bits for a held-out character through training and at the end."""
    text = character_text.character_text(128)
    torch.manual_seed(seed)
    model, curve = make(len(text.letters), SIZES).to(device), {}
    stream = batches(text.learn.to(device), batch_size=16, seed=seed)
    for step in train(model, stream, character_text.next_character_loss, steps=STEPS, lr=LR, warmup=50):
        if (step.index + 1) % 250 == 0:
            with torch.no_grad():
                curve[step.index + 1] = character_text.next_character_loss(model, (text.held_out.to(device),)).item()
    return {"bits": curve[STEPS], "parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


def figure(study):
    """Bits through training, means of the seeds."""
    from course_tools.notebook.plots import curves

    lines = {name: study.curve(name) for name in study.names}
    n_seeds = len(study.of(study.names[0]))
    ends = "; ".join(f"{name} from {bits[0]:.2f} to {bits[-1]:.2f}" for name, (_, bits) in lines.items())
    drawn = curves(lines, "update", "bits for a new character", f"as recorded: mean of {n_seeds} seeds")
    return drawn, f"Bits for a character of new text over the updates, mean of {n_seeds} seeds: {ends}."


def finding(study):
    """Name the bits of both, by seed, and what the last 250 updates gained."""
    told = []
    for name in study.names:
        _, bits = study.curve(name)
        by_seed = ", ".join(f"{value:.2f}" for value in study.scores(name, "bits"))
        told.append(f"{name} {by_seed} (the last 250 updates gain {bits[-2] - bits[-1]:.2f})")
    return f"Bits for a held-out character, by seed: {'; '.join(told)}."
