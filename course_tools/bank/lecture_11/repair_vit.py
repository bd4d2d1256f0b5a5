"""Build task 11.8, repair_vit: a run of a Vision Transformer with three planted faults; what students hand in."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.models import ViT
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.bank.lecture_11.train_vit import (
    SmallViT,
    patches_across_images,
    quadrants,
    submit,
    with_torchs_encoder,
    without_modules,
)
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

wrong = loops.Submissions(
    __name__,
    submit,
    example="image",
    model="model",
    results="logits",
    rates="Set it back to 0.003.",
    batch="batch",
    new="new images",
)
right = Answers([with_torchs_encoder, without_modules])

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 500

HINTS = (
    (
        "Do not read the code first; measure. Do the logits of an image change with the other images of its batch? Do they "
        "change when its quadrants change places? What is the sum of the outputs for one image?"
    ),
    (
        "One fault is in the patches: put those of two images back together and look at them. One is in the order of the "
        "encoder's steps: what do the tokens know of their positions when they attend? One is at the end: what does "
        "`F.cross_entropy` take?"
    ),
    (
        "Bring the batch axis to the front before the reshape joins axes; rows and columns of patches come next, then "
        "the pixels of a patch. Add the positions to the tokens before the first layer. `F.cross_entropy` takes "
        "logits: return them without a softmax."
    ),
)


def repair_vit(images: Tensor, labels: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Train a Vision Transformer on images, and return it: the run above, repaired.

    The model maps images (B, 1, 8, 8) to logits (B, n_classes).

    Args:
        images: the images to learn from, (N, 1, 8, 8), ink from 0 to 1, sorted by their labels.
        labels: their classes, (N,), integers below n_classes.
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """

    class Layer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
            self.feed_forward = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
            self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, x):
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.feed_forward(self.norm_2(x))

    class Classifier(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.first = nn.Linear(16, d), nn.Parameter(torch.randn(1, 1, d))
            self.positions = nn.Parameter(0.5 * torch.randn(1, 5, d))
            self.layers, self.head = nn.Sequential(Layer(d), Layer(d), nn.LayerNorm(d)), nn.Linear(d, n_classes)

        def forward(self, images):
            squares = images.unfold(2, 4, 4).unfold(3, 4, 4)
            patches = squares.permute(0, 2, 3, 1, 4, 5).reshape(len(images), 4, 16)
            tokens = torch.cat([self.first.expand(len(images), -1, -1), self.embed(2 * patches - 1)], dim=1)
            states = self.layers(tokens + self.positions)
            return self.head(states[:, 0])

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@wrong(proof=trained.both(trained.reads_other_examples, language_models.gives_probabilities))
def three_faults(images, labels, n_classes, n_steps):
    """The check measured two faults. The logits of an image change with the other images of its batch: some of its patches are
    not its own. And the outputs for an image are positive and sum to 1, while `F.cross_entropy` takes logits. These two may
    hide a third: repair them, and run the check again."""

    class Layer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
            self.feed_forward = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
            self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, x):
            y = self.norm_1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.feed_forward(self.norm_2(x))

    class Classifier(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.first = nn.Linear(16, d), nn.Parameter(torch.randn(1, 1, d))
            self.positions = nn.Parameter(0.5 * torch.randn(1, 5, d))
            self.layers, self.head = nn.Sequential(Layer(d), Layer(d), nn.LayerNorm(d)), nn.Linear(d, n_classes)

        def forward(self, images):
            squares = images.unfold(2, 4, 4).unfold(3, 4, 4)
            patches = squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), 4, 16)
            tokens = torch.cat([self.first.expand(len(images), -1, -1), self.embed(2 * patches - 1)], dim=1)
            states = self.layers(tokens) + self.positions
            return self.head(states[:, 0]).softmax(-1)

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


wrong.loop_mistakes(classifiers.fails_to_learn, classifiers.has_learned_nothing, loops.REPAIR)


@wrong(proof=language_models.gives_probabilities)
def probabilities_for_logits(*data):
    """The results of an image are still positive and sum to 1. `F.cross_entropy` takes a softmax itself; with two, the loss
    cannot fall below 1.46. Return the logits."""
    return submit(data, 0.5, wrap=loops.Softmaxed)


@wrong(proof=trained.both(classifiers.reads_in_order, classifiers.fails_to_learn))
def without_shuffling(*data):
    """The images are now read in the order in which they are given, sorted by their labels. The run of the task draws the
    images of each batch at random; keep this in the loop."""
    return submit(data, 0.5, in_order=True)


@wrong(proof=trained.reads_other_examples)
def patches_of_other_images(*data):
    """The logits of an image still change with the other images of its batch: its patches are taken from several images. Bring
    the batch axis to the front before the reshape."""
    return submit(data, 0.5, cut=patches_across_images)


@wrong(proof=classifiers.misses_patches)
def first_patch_only(*data):
    """The patches now belong to their own image, and some are lost: what they show can be replaced and no logit changes. An
    image of 8 × 8 pixels has four patches of 4 × 4."""
    return submit(data, 0.5, cut=lambda images: quadrants(images)[:, :1])


@wrong.change("model", classifiers.ignores_the_order, part=0.5)
class PositionsAfterTheEncoder(SmallViT):
    """The logits stay the same when the quadrants of an image change places: the tokens attend without knowing their positions.
    Positions that are added after the encoder come too late. Add them to the tokens before the first layer."""

    def forward(self, images):
        x = torch.cat([self.class_token.expand(len(images), -1, -1), self.embed(self.cut(images))], dim=1)
        x = x + self.mix(*self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        return self.of(self.logits(self.norm(x + self.feed_forward(x)) + self.positions))


@wrong.detail(proof=classifiers.reads_no_squares)
def strips_for_patches(*data):
    """The attention does not mix square patches, each of its own pixels, as that of the run does. Keep the cut into patches of
    4 × 4 pixels, with the batch axis in front."""
    return submit(data, cut=lambda images: images.reshape(-1, 4, 16))


@wrong(proof=classifiers.learns_a_sum_of_patches)
def attention_removed(*data):
    """The attention was no fault, and now it is missing: the influence of a patch is the same whatever the other patches
    show."""
    return submit(data, 0.5, mix=lambda q, k, v: v, of=lambda logits: logits.mean(1))


@wrong.idea(proof=trained.has_no_attention)
def another_network(*data):
    """Your model has no attention any more: no values are multiplied by weights of a softmax over keys that depend on the
    image. Repair the Vision Transformer that is given; another network is another task."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return submit(data, model=lambda n_classes: network)


exercise = Exercise(
    id="11.8",
    title="Repair a Vision Transformer that does not train",
    reference=repair_vit,
    properties=classifiers.properties(SECONDS, MOST_PARAMETERS),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        ViT: "repair the model that is given.",
        digits: "learn from the images that you are given.",
    },
    training=Training(partial(classifiers.questions, N_STEPS), SECONDS),
)
