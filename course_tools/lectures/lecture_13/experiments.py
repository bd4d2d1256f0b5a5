"""Train MLP-Mixers and their rivals on handwritten digits, in order and shuffled: accuracy with several seeds."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import Block, FeedForwardWeights, NormWeights, TokenMixingKernels
from course_lib.datasets import digits
from course_lib.models import Mixer
from course_lib.primitives import layer_norm, patchify
from course_lib.training import batches, train
from course_tools.checks.training_record import Recorder
from course_tools.notebook.device import at_scale, device
from course_tools.notebook.digit_split import DigitSplit
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.shuffled_patches import random_orders, shuffled
from course_tools.notebook.training_curve import show_recorded_losses

# Train classifiers of handwritten digits, measure and draw their accuracy on the test set.


class TrainedClassifier(NamedTuple):
    """A trained classifier, its accuracy on the test set, and the processor time of its training in seconds."""

    model: nn.Module
    accuracy: float
    seconds: float


def initialised(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Create a classifier with the initial weights that `fit` gives it, on the device of the course."""
    torch.manual_seed(seed)
    return make().to(device())


def fit(
    make: Callable[[], nn.Module],
    digits: DigitSplit,
    seed: int,
    *,
    steps: int | None = None,
    lr: float = 4e-3,
    label: str = "training",
) -> TrainedClassifier:
    """Train a new classifier on the digits of one seed, in batches of 32; the seed also determines its weights.

    Args:
        make: creates the classifier.
        digits: the images, and the training digits of each seed.
        seed: determines digits, weights and order.
        steps: number of updates; None = 260, or 400 with CUDA.
        lr: the maximum learning rate.
        label: the label of the progress bar.
    """
    steps = at_scale(cpu=260, gpu=400) if steps is None else steps
    images, labels, learn, unseen = digits
    model, start = initialised(make, seed), time.process_time()
    stream = batches(images[learn[seed]], labels[learn[seed]], batch_size=32, seed=seed)
    fitted(model, stream, classify, steps=steps, lr=lr, label=f"{label}, seed {seed}")
    seconds = time.process_time() - start
    return TrainedClassifier(model, accuracy_of(model, images[unseen[seed]], labels[unseen[seed]]), seconds)


def fit_seeds(
    make: Callable[[], nn.Module], digits: DigitSplit, seeds: Iterable[int], label: str = "training"
) -> list[TrainedClassifier]:
    """Call `fit` once for each seed."""
    return [fit(make, digits, seed, label=label) for seed in seeds]


@torch.no_grad()
def loss_on_unseen(model: nn.Module, digits: DigitSplit, seed: int, n: int = 100) -> float:
    """Compute the cross-entropy of the first n test digits of a seed, in nats."""
    rows = digits.unseen[seed][:n]
    return classify(model, (digits.images[rows], digits.labels[rows])).item()


def show_classifiers(
    trained: Mapping[str, Sequence[TrainedClassifier]], earlier: Mapping[str, Sequence[TrainedClassifier]] | None = None
) -> None:
    """Draw the training losses of classifiers, the mean of the seeds, and the accuracy of each seed.

    Args:
        trained: name -> the classifiers of one kind, which differ only in their seed.
        earlier: the same for classifiers whose losses an earlier figure shows: only their accuracies are drawn.
    """
    show_losses({name: [one.model for one in runs] for name, runs in trained.items()})
    groups = {**trained, **(earlier or {})}
    show_seeds({name: [one.accuracy for one in runs] for name, runs in groups.items()}, across={"chance": 0.1})


# Compute an MLP-Mixer by a function for its block, so that the student's block can be trained.


BlockFunction = Callable[[Tensor, FeedForwardWeights, FeedForwardWeights, tuple[NormWeights, NormWeights]], Tensor]
"""`mixer_block`, or another function of its arguments."""


class _BlockOfFunction(nn.Module):
    """The weights of a Mixer's block, under the same names, and a function that computes the block from them."""

    def __init__(self, block: Block, function: BlockFunction) -> None:
        """Use the weights of a block of a Mixer."""
        super().__init__()
        self.mixer, self.feed_forward = block.mixer, block.feed_forward
        self.norm_1, self.norm_2 = block.norm_1, block.norm_2
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Transform x (B, N, d)."""
        norms = (_norm_weights(self.norm_1), _norm_weights(self.norm_2))
        return self.function(x, _layer_weights(self.mixer), _layer_weights(self.feed_forward), norms)


def computed_by(function: BlockFunction, model: Mixer) -> Mixer:
    """Let a function, such as `mixer_block`, compute all blocks of a Mixer, in place with its weights. Return the model."""
    model.stack.blocks = nn.ModuleList(_BlockOfFunction(block, function) for block in model.stack.blocks)
    return model


def _layer_weights(network: nn.Module) -> FeedForwardWeights:
    """Return (W_1, b_1, W_2, b_2) of a network of two linear layers, in the order of `token_mixing` and `channel_mixing`."""
    return network.W_1.weight, network.W_1.bias, network.W_2.weight, network.W_2.bias


def _norm_weights(norm: nn.Module) -> NormWeights:
    """Return gain and bias of a layer norm."""
    return norm.weight, norm.bias


@torch.no_grad()
def with_permuted_inputs(model: Mixer, reorder: Callable[..., tuple[Tensor, ...]], order: Tensor, inner: Tensor) -> Mixer:
    """Copy a Mixer so that the copy computes from shuffled images what the model computes from images in order.

    Args:
        model: the Mixer.
        reorder: `reordered_token_mixing`.
        order: (N,), the permutation of the patches.
        inner: (P · P · C,), the permutation of the numbers within a patch.
    """
    copied = deepcopy(model)
    here = model.project.weight.device
    copied.project.weight.copy_(model.project.weight[:, inner.to(here)])
    for block in copied.stack.blocks:
        new = [part.clone() for part in reorder(*_layer_weights(block.mixer), order.to(here))]
        for parameter, tensor in zip(_layer_weights(block.mixer), new, strict=True):
            parameter.copy_(tensor)
    return copied


def by_convolutions(model: Mixer, images: Tensor, kernels: Callable[..., TokenMixingKernels]) -> Tensor:
    """Compute a Mixer as a CNN: convolutions, norms over the channels, and a mean over the positions.

    Args:
        model: the Mixer; its weights are used.
        images: (B, C, H, W).
        kernels: `token_mixing_kernels`.

    Returns:
        logits (B, n_classes).
    """
    patch_kernels = model.project.weight.view(-1, images.shape[1], model.P, model.P)
    x = F.conv2d(images, patch_kernels, model.project.bias, stride=model.P)
    d, H, W = x.shape[1:]
    for block in model.stack.blocks:
        first, first_bias, second, second_bias = kernels(*_layer_weights(block.mixer), d, H, W)
        hidden = F.gelu(F.conv2d(_normed(x, block.norm_1), first, first_bias, groups=d))
        x = x + F.conv2d(hidden, second, second_bias, groups=d).view(x.shape)
        W_3, b_3, W_4, b_4 = _layer_weights(block.feed_forward)
        hidden = F.gelu(F.conv2d(_normed(x, block.norm_2), W_3[..., None, None], b_3))
        x = x + F.conv2d(hidden, W_4[..., None, None], b_4)
    return model.head(_normed(x, model.stack.closing).mean((2, 3)))


def _normed(x: Tensor, norm: nn.Module) -> Tensor:
    """Normalise over the channels of (B, d, H, W)."""
    return layer_norm(x.movedim(1, -1), *_norm_weights(norm)).movedim(-1, 1)


def mixing_weights_of(kernel: Tensor, side: int) -> FeedForwardWeights:
    """Return the weights with which token mixing computes a depth-wise convolution that all channels share.

    Twice as many hidden units as positions undo the GELU, since σ(x) - σ(-x) = x.

    Args:
        kernel: (1, 1, n, n), n odd; the convolution pads with zeros.
        side: of the square grid of N = side² positions.

    Returns:
        (W_1, b_1, W_2, b_2) for `token_mixing`: (2N, N), (2N,), (N, 2N), (N,).
    """
    N = side**2
    each_position = torch.eye(N).view(N, 1, side, side)
    T = F.conv2d(each_position, kernel, padding=kernel.shape[-1] // 2).view(N, N).T
    signs = torch.cat([torch.eye(N), -torch.eye(N)])
    return signs @ T, torch.zeros(2 * N), signs.T, torch.zeros(N)


def gap_to_a_shared_convolution(mixing: Callable[..., Tensor], side: int = 7) -> float:
    """Compute the largest difference between token mixing and a depth-wise 3 × 3 convolution that all channels share.

    Args:
        mixing: `token_mixing`; its weights are those of `mixing_weights_of`.
        side: of the square grid of positions.
    """
    x = torch.randn(2, 5, side, side, generator=torch.Generator().manual_seed(0))
    kernel = torch.linspace(-1, 1, 9).view(1, 1, 3, 3)
    convolved = F.conv2d(x, kernel.expand(5, 1, 3, 3), padding=1, groups=5)
    mixed = mixing(x.flatten(2).mT, *mixing_weights_of(kernel, side)).mT.view_as(x)
    return (convolved - mixed).abs().max().item()


# Train on images in order and on shuffled ones: the first losses of a model, and a student's Mixer on small digits.


def first_losses(model: nn.Module, images: Tensor, labels: Tensor, seed: int, steps: int = 40) -> list[float]:
    """Train a classifier in place, in float64, with batches of 32, and return the loss of each update."""
    stream = batches(images.double(), labels, batch_size=32, seed=seed)
    return [step.loss for step in train(model.double(), stream, classify, steps=steps, lr=4e-3, warmup=steps // 10)]


def show_both_orders(
    train_mixer: Callable[[Tensor, Tensor, int, int], nn.Module], seeds: Iterable[int], title: str, n_steps: int = 500
) -> None:
    """Train a classifier on scikit-learn's digits in order and shuffled; draw losses, and accuracies on held-out digits.

    Args:
        train_mixer: `(images, labels, n_classes, n_steps)` → the trained classifier.
        seeds: of the split and of the weights; the patches, of 2 × 2 pixels, are always shuffled in the same way.
        title: above the figure of the accuracies, such as "your Mixer".
        n_steps: number of updates.
    """
    images, labels = digits()
    images = images[:, None]
    order, inner = random_orders(16, 4, seed=0)
    sets = {"in order": images, "shuffled": shuffled(images, 2, order, inner)}
    losses: dict[str, list[list[float]]] = {name: [] for name in sets}
    accuracies: dict[str, list[float]] = {name: [] for name in sets}
    for seed in seeds:
        rows = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        known, unseen = rows[:1_297], rows[1_297:]
        for name, inputs in sets.items():
            torch.manual_seed(seed)
            with Recorder() as training:
                model = train_mixer(inputs[known], labels[known], 10, n_steps)
            losses[name].append(training.losses)
            accuracies[name].append(accuracy_of(model, inputs[unseen], labels[unseen]))
    show_recorded_losses(losses, "cross-entropy, nats")
    show_seeds(accuracies, "accuracy on held-out digits", title, across={"chance": 0.1})


# Classify images by counts of typical patches: the rival of a network that sees a bag of patches.


class PatchWords:
    """Typical patches, the words of images: the centres of k-means on patches with ink, and one word for an empty patch."""

    def __init__(self, images: Tensor, P: int, n_words: int = 128, seed: int = 0) -> None:
        """Find the words of images (n, C, H, W).

        Args:
            images: an empty patch is 0 everywhere, and no number is negative.
            P: side of a patch.
            n_words: number of centres; images with fewer patches with ink are refused by scikit-learn.
            seed: of k-means.
        """
        from sklearn.cluster import MiniBatchKMeans

        self.P, self.n_words = P, n_words
        patches = patchify(images.cpu(), P).flatten(0, 1)
        with_ink = patches[patches.sum(-1) > 0].numpy()
        self.kinds = MiniBatchKMeans(n_words, random_state=seed, n_init=1, batch_size=2_048).fit(with_ink)

    def counts(self, images: Tensor) -> Tensor:
        """Count how often each word occurs in images (n, C, H, W): (n, n_words + 1) integers, the empty patch last."""
        patches = patchify(images.cpu(), self.P)
        words = torch.from_numpy(self.kinds.predict(patches.flatten(0, 1).numpy())).long().view(patches.shape[:2])
        words = words.masked_fill(patches.sum(-1) == 0, self.n_words)
        return F.one_hot(words, self.n_words + 1).sum(1)


def accuracy_by_counts(
    known: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor], P: int, n_words: int = 128, seed: int = 0
) -> float:
    """Train a linear classifier (logistic regression) on the counts of typical patches; return its accuracy on new images.

    Args:
        known: images (n, C, H, W) and labels (n,) to learn from, words included.
        new: images and labels of the test.
        P: side of a patch.
        n_words: typical patches, besides the empty one.
        seed: of k-means.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # more threads only wait for each other on problems of this size
        words = PatchWords(known[0], P, n_words, seed)
        classifier = LogisticRegression(solver="newton-cholesky").fit(words.counts(known[0]).numpy(), known[1].cpu().numpy())
        return float(classifier.score(words.counts(new[0]).numpy(), new[1].cpu().numpy()))
