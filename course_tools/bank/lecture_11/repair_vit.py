"""Build task 11.7, repair_vit: a run of a Vision Transformer with three planted faults; what students hand in."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.models import ViT
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

right = Answers()

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


def quadrants(images):
    """Cut images into four patches (B, 4, 16)."""
    return F.unfold(images, 4, stride=4).mT


def attention(q, k, v):
    """Mix the tokens of each image by one head."""
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def _class_token(x):
    return x[:, 0]


class SmallViT(nn.Module):
    """One block with one head over four patches, and what a wrong submission changes.

    That is how it cuts images, how it mixes tokens, which logits it returns, its positions and its dropout.
    """

    def __init__(self, n_classes, cut=quadrants, mix=attention, of=_class_token, positions=1.0, dropout=0.0):
        super().__init__()
        self.embed, self.class_token = nn.Linear(16, 32), nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(0.5 * torch.randn(1, 5, 32))
        self.norm_1, self.qkv, self.norm, self.logits = (
            nn.LayerNorm(32),
            nn.Linear(32, 96),
            nn.LayerNorm(32),
            nn.Linear(32, n_classes),
        )
        self.feed_forward = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
        self.cut, self.mix, self.of, self.used, self.dropout = cut, mix, of, positions, nn.Dropout(dropout)

    def tokens(self, images):
        """Embed the patches, with the class token before them and positions added."""
        x = torch.cat([self.class_token.expand(len(images), -1, -1), self.embed(self.cut(images))], dim=1)
        return self.dropout(x + self.used * self.positions[:, : x.shape[1]])

    def forward(self, images):
        x = self.tokens(images)
        x = x + self.mix(*self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        return self.of(self.logits(self.norm(x + self.feed_forward(x))))


def patches_across_images(images):
    """Cut images into (B, 4, 16) by a reshape that takes the patches of one image for those of several."""
    squares = images.unfold(2, 4, 4).unfold(3, 4, 4)
    return squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), 4, 16)


submit = classifiers.submission(SmallViT)
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


@right
def with_torchs_encoder(images, labels, n_classes, n_steps):
    """Sixteen patches by a convolution, torch's TransformerEncoder with dropout, a DataLoader that shuffles, a schedule."""

    class Model(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.first = nn.Conv2d(1, d, 2, stride=2), nn.Parameter(torch.zeros(1, 1, d))
            self.positions = nn.Parameter(torch.randn(1, 17, d) * 0.3)
            layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.02, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
            self.head = nn.Linear(d, n_classes)

        def forward(self, pictures):
            tokens = self.embed(pictures).flatten(2).mT
            tokens = torch.cat((self.first.repeat(tokens.shape[0], 1, 1), tokens), 1)
            return self.head(self.encoder(tokens + self.positions)[:, 0, :])

    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=n_steps)
    for pictures, targets in loops.epochs((images, labels), n_steps, 32, drop_last=True):
        optimizer.zero_grad()
        criterion(model(pictures), targets).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def without_modules(images, labels, n_classes, n_steps):
    """Weights in a dict, a function, gradients from autograd, and Adam by hand; the mean of the tokens for a class token."""
    d = 48
    shapes = {
        "embed": (16, d),
        "q": (d, d),
        "k": (d, d),
        "v": (d, d),
        "up": (d, 4 * d),
        "down": (4 * d, d),
        "out": (d, n_classes),
    }
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights["positions"] = torch.randn(4, d).requires_grad_()

    def model(pictures):
        B = pictures.shape[0]
        patches = pictures.reshape(B, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(B, 4, 16)
        x = (2 * patches - 1) @ weights["embed"] + weights["positions"]
        normal = F.layer_norm(x, (d,))
        scores = (normal @ weights["q"]) @ (normal @ weights["k"]).mT / d**0.5
        x = x + scores.softmax(-1) @ (normal @ weights["v"])
        x = x + (F.layer_norm(x, (d,)) @ weights["up"]).relu() @ weights["down"]
        return F.layer_norm(x, (d,)).mean(1) @ weights["out"]

    def loss():
        which = torch.randint(len(labels), (48,))
        return -model(images[which]).log_softmax(-1).gather(1, labels[which][:, None]).mean()

    loops.adam_by_hand(list(weights.values()), n_steps, loss, 4e-3)
    return model


exercise = Exercise(
    id="11.7",
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
