"""Which model recalls a value from the beginning of a long sequence, and what does an update cost, as the sequence grows?

A sequence begins with 16 pairs of a key and a value, each pair at one position, in random order. Filler follows up to the middle:
other keys, without a value. In the second half each position has one of the 16 keys, and the target is the value that belongs to
it, one of 8. So with 2,048 positions, the model reads at least a thousand others between the pair and the question.

Rivals: softmax attention (the fused form) and linear attention with elu + 1, each in one Transformer block without positions,
which the task does not need. At 2,048 positions also softmax attention to the last 32 only, whose keys and values are 4,096 numbers;
the S and z of linear attention are 4,160.

Budget: 400 updates with four sequences each, of 128, 512 and 2,048 positions, three seeds. With each of the learning rates 0.002,
0.005 and 0.01, tried at 128 with one seed, both reached 1.00. Seconds are processor time, those of the fastest update; MiB are
what autograd keeps from the forward to the backward pass. At 2,048 positions an update with softmax takes 2.4 times as long as one
with elu + 1, which is therefore trained there for 2.4 times as many updates, too: for about an equal time; so is the window. About
ten minutes on one CPU thread. On a GPU: up to 32,768 positions, and ten times as many updates.
"""

import time
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import Attended, LinearAttention, scaled_dot_product_attention
from course_lib.fast import chunked_linear_attention, fused_causal_attention
from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.training import train

N_PAIRS, N_KEYS, N_VALUES = 16, 32, 8
UPDATES, N_SEQUENCES, N_TESTS = 400, 4, 32
SIZES, STD = Sizes(d_model=64, n_heads=1, d_ff=128, n_layers=1), 0.125
LR, MODELS = 5e-3, ("softmax", "linear, elu + 1")
LENGTHS, WINDOW, LONGER = (128, 512, 2_048), 32, 960
SETTINGS = {f"{model}, {length:,} positions": (model, length, UPDATES) for length in LENGTHS for model in MODELS}
SMALL = ("linear, elu + 1", "window of 32")  # what they keep has one size
SETTINGS |= {f"{model}, 2,048 positions, 2.4 times as long": (model, 2_048, LONGER) for model in SMALL}
GPU_SETTINGS = {
    f"{model}, {length:,} positions": (model, length, 10 * UPDATES) for length in (*LENGTHS, 8_192, 32_768) for model in MODELS
}
TOLERANCE = {"accuracy": 0.15, "seconds an update": 1.0, "MiB": 1.0, "curve": 0.3}


class SequenceModel(nn.Module):
    """Embed the key and the value of each position, mix the positions, read out logits of the values."""

    def __init__(self, mixer):
        super().__init__()
        self.keys, self.values = nn.Embedding(N_KEYS, SIZES.d_model), nn.Embedding(N_VALUES + 1, SIZES.d_model)
        for table in (self.keys, self.values):
            nn.init.normal_(table.weight, std=STD)
        self.mixer, self.read_out = mixer, nn.Linear(SIZES.d_model, N_VALUES)

    def forward(self, tokens):
        keys, values = tokens.unbind(-1)
        return self.read_out(self.mixer(self.keys(keys) + self.values(values)))


def draw(n, length, generator):
    """Draw n sequences of keys and values (n, length, 2), and the values that belong to the keys asked for (n, length / 2)."""
    half = length // 2
    keys = torch.rand(n, N_PAIRS, generator=generator).argsort(-1)
    fillers = torch.randint(N_PAIRS, N_KEYS, (n, half - N_PAIRS), generator=generator)
    asked = torch.randint(N_PAIRS, (n, half), generator=generator)
    values = torch.full((n, length), N_VALUES)
    values[:, :N_PAIRS] = torch.randint(N_VALUES, (n, N_PAIRS), generator=generator)
    wanted = values.gather(1, keys.argsort(-1).gather(1, asked))
    return torch.stack([torch.cat([keys, fillers, asked], dim=1), values], dim=-1), wanted


def windowed(q, k, v, mask=None):
    """Softmax attention of each position to itself and the 31 before it, in blocks of 32 queries with 64 keys."""
    k, v = (F.pad(x, (0, 0, WINDOW, 0)).unfold(-2, 2 * WINDOW, WINDOW).mT for x in (k, v))  # (…, T / 32, 64, d)
    query, key = torch.arange(WINDOW, device=q.device)[:, None], torch.arange(2 * WINDOW, device=q.device)
    near = (key > query) & (key <= query + WINDOW)
    near = near.repeat(k.shape[-3], 1, 1)
    near[0, :, :WINDOW] = False  # nothing is before the first block
    context = scaled_dot_product_attention(q.unflatten(-2, (-1, WINDOW)), k, v, near).context
    return Attended(context.flatten(-3, -2), None)


MECHANISMS = {
    "softmax": fused_causal_attention,
    "linear, elu + 1": LinearAttention(mix=chunked_linear_attention),
    "window of 32": windowed,
}


def network(name):
    """An untrained model from tokens (B, L, 2) to logits (B, L, N_VALUES)."""
    return SequenceModel(encoder_stack(SIZES, MECHANISMS[name], F.gelu, pre_norm))


def asked_logits(model, tokens):
    """Logits of the values where keys are asked for, (B, L / 2, N_VALUES)."""
    return model(tokens)[:, tokens.shape[1] // 2 :]


def kept_bytes(model, tokens):
    """What autograd keeps of one forward pass for the backward pass, without the parameters."""
    kept, own = {}, {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = asked_logits(model, tokens)  # alive, so that no storage is used twice
    del logits
    return sum(size for address, size in kept.items() if address not in own)


def run(setting, seed, device):
    """Train one model at one length; its accuracy on new sequences through the updates, and what an update costs."""
    name, length, updates = setting
    torch.manual_seed(seed)
    model, curve = network(name).to(device), {}
    tests, wanted = (x.to(device) for x in draw(N_TESTS, length, torch.Generator().manual_seed(10_000 + seed)))
    generator = torch.Generator().manual_seed(seed)
    stream = iter(partial(draw, N_SEQUENCES, length, generator), None)
    clock = time.process_time if device.type == "cpu" else time.perf_counter

    def loss(model, batch):
        tokens, values = (x.to(device) for x in batch)
        return F.cross_entropy(asked_logits(model, tokens).flatten(0, 1), values.flatten())

    seconds, start = [], clock()
    for step in train(model, stream, loss, steps=updates, lr=LR, warmup=updates // 10):
        seconds.append(clock() - start)
        if (step.index + 1) * 4 % updates == 0:
            model.eval()
            with torch.no_grad():
                found = torch.cat([asked_logits(model, part).argmax(-1) for part in tests.split(N_SEQUENCES)])
            curve[step.index + 1] = (found == wanted).float().mean().item()
            model.train()
        start = clock()
    return {
        "accuracy": curve[updates],
        "seconds an update": min(seconds),
        "MiB": kept_bytes(model, tests[:N_SEQUENCES]) / 2**20,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "curve": curve,
    }


def figure(study):
    """Accuracy and seconds of an update against the length, means and seeds; below, accuracy through training at the longest."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from course_tools.notebook import plots

    drawn, said = Figure(figsize=(6.0, 4.0), layout="constrained"), []
    axes = drawn.subplot_mosaic([["accuracy", "seconds an update"], ["updates", "updates"]])
    styles = zip((*MODELS, "window of 32"), plots.MARKERS, sns.color_palette("colorblind"), strict=False)
    styles = {name: {"color": colour, "marker": marker} for name, marker, colour in styles}
    for name in MODELS:
        settings, style = [f"{name}, {length:,} positions" for length in LENGTHS], styles[name]
        for score in ("accuracy", "seconds an update"):
            axes[score].plot(LENGTHS, [study.mean(setting, score) for setting in settings], **style)
            for length, setting in zip(LENGTHS, settings, strict=True):
                values = study.scores(setting, score)
                axes[score].plot([length] * len(values), values, ".", color=style["color"], markersize=5)
        means = (
            f"{study.mean(setting, 'accuracy'):.2f} and {study.mean(setting, 'seconds an update'):.3f} s"
            for setting in settings
        )
        said.append(f"{name} {', '.join(means)}")
    for name, style in styles.items():
        setting = f"{name}, {LENGTHS[-1]:,} positions"
        longer = f"{setting}, 2.4 times as long"
        axes["updates"].plot(*study.curve(longer if longer in study.names else setting), label=name, **style)
    for score, scale in (("accuracy", "linear"), ("seconds an update", "log")):
        axes[score].set(xscale="log", yscale=scale, xlabel="positions", ylabel=score)
        axes[score].set_xticks(LENGTHS, [f"{length:,}" for length in LENGTHS])
        axes[score].set_xticks([], minor=True)
    axes["updates"].set(xlabel=f"update, {LENGTHS[-1]:,} positions", ylabel="accuracy")
    for name in ("accuracy", "updates"):
        axes[name].set_ylim(0, 1.05)
        axes[name].axhline(1 / N_VALUES, color="0.35", linestyle="--", linewidth=1.2)
    for ax in axes.values():
        ax.grid(alpha=0.25)
        sns.despine(ax=ax)
    axes["updates"].legend(fontsize=8, edgecolor="none")
    drawn.suptitle(f"as recorded; above: {UPDATES} updates; lines: means; dots: seeds; dashed: chance", fontsize=10)
    lengths = ", ".join(f"{length:,}" for length in LENGTHS)
    ends = "; ".join(f"{line.get_label()} {line.get_ydata()[-1]:.2f}" for line in axes["updates"].lines[: len(styles)])
    return (
        drawn,
        f"Accuracy on new sequences and seconds of an update with {lengths} positions, means of the seeds: {'; '.join(said)}. "
        f"Below, accuracy through training with {LENGTHS[-1]:,} positions, at the end: {ends}.",
    )


def finding(study):
    """Accuracy by length, how the cost of an update grows, and what more updates bring at the longest."""
    settings = {name: [f"{name}, {length:,} positions" for length in LENGTHS] for name in MODELS}
    n_seeds = min(len(study.of(setting)) for each in settings.values() for setting in each)
    accuracy, growth, late = [], [], []
    for name, each in settings.items():
        means = (f"{study.mean(setting, 'accuracy'):.2f}" for setting in each)
        accuracy.append(f"{name} {', '.join(means)}")
        short, long = (study.mean(setting, "seconds an update") for setting in (each[-2], each[-1]))
        growth.append(f"{name} {long / short:.1f}")
        updates, values = study.curve(each[-1])
        late.append(f"{name} {values[-1] - values[updates.index(UPDATES // 2)]:+.2f}")
    longer = (f"{name} {study.mean(f'{name}, 2,048 positions, 2.4 times as long', 'accuracy'):.2f}" for name in SMALL)
    return (
        f"Accuracy after {UPDATES} updates at {', '.join(f'{length:,}' for length in LENGTHS)} positions ({n_seeds} seed{'s' * (n_seeds != 1)}): "
        f"{'; '.join(accuracy)}. From {LENGTHS[-2]:,} to {LENGTHS[-1]:,} positions, an update takes longer by the factor: "
        f"{', '.join(growth)}. The second half of the updates gains at {LENGTHS[-1]:,}: {', '.join(late)}. "
        f"After {LONGER} updates, in the time of softmax at {LENGTHS[-1]:,}: {', '.join(longer)}."
    )
