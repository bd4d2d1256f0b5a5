"""Build task 11.7, train_vit: a Vision Transformer and its training loop from an empty cell; what students hand in."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.models import ViT
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 500

HINTS = (
    (
        "Build it in this order, and print shapes after each step: patches (B, N, P²), P is 4 or 2; tokens (B, N, d_model); "
        "the class token before them; positions added to all; one block with residual connections; logits of the class token. "
        "Then check by hand that the logits of one image stay the same when you ask about it alone."
    ),
    (
        "The images come sorted by their labels. Draw each batch at random: `which = torch.randint(len(labels), (32,))`, then "
        "`images[which]` and `labels[which]`. Adam with a learning rate of 0.003 is a good start; the loss should fall from "
        "2.3 to below 0.3. If it falls slowly, start the positions larger, or raise and then lower the learning rate "
        "(`torch.optim.lr_scheduler.OneCycleLR`)."
    ),
    (
        "`F.unfold(images, P, stride=P).mT` gives the patches. The loop is five lines: draw a batch, compute "
        "`F.cross_entropy(model(images[which]), labels[which])`, `optimizer.zero_grad()`, `loss.backward()`, "
        "`optimizer.step()`. The optimizer gets `model.parameters()` of the model that you return, and you return it in "
        "evaluation mode: `return model.eval()`."
    ),
)


def train_vit(images: Tensor, labels: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Build a Vision Transformer, train it on images, and return it.

    The model maps images (B, 1, 8, 8) to logits (B, n_classes). It cuts them into patches of 2 × 2 or 4 × 4 pixels.

    Args:
        images: the images to learn from, (N, 1, 8, 8), ink from 0 to 1, sorted by their labels.
        labels: their classes, (N,), integers below n_classes.
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    P, d_model, n_heads, batch_size = 4, 48, 4, 32

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
            self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
            self.feed_forward = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (h.reshape(B, T, n_heads, -1).transpose(1, 2) for h in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
            weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
            return x + self.feed_forward(self.norm_2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.class_token = nn.Linear(P * P, d_model), nn.Parameter(torch.randn(1, 1, d_model))
            self.positions = nn.Parameter(0.5 * torch.randn((8 // P) ** 2 + 1, d_model))
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.logits = nn.LayerNorm(d_model), nn.Linear(d_model, n_classes)

        def forward(self, images):
            patches = self.embed(2 * F.unfold(images, P, stride=P).mT - 1)
            x = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1) + self.positions
            return self.logits(self.norm(self.blocks(x)[:, 0]))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (batch_size,))
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


def _all_tokens(x):
    return x.mean(1)


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


def over_the_batch(q, k, v):
    """Attend along the batch axis."""
    return attention(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)).transpose(0, 1)


DROPOUT = (
    "Asked twice about the same image, your model gives different logits: it is still in training mode, or something in it is "
    "drawn at each call, such as a class token that is not an `nn.Parameter`. Return `model.eval()`."
)
submit = classifiers.submission(SmallViT)
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01", **classifiers.WORDS)
classifiers.loop_mistakes(wrong, says=loops.LOOP | {"dropout_left_on": DROPOUT})
classifiers.data_mistakes(wrong)


def patches_across_images(images):
    """Cut images into (B, 4, 16) by a reshape that takes the patches of one image for those of several."""
    squares = images.unfold(2, 4, 4).unfold(3, 4, 4)
    return squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), 4, 16)


@wrong(proof=trained.both(trained.reads_other_examples, classifiers.has_learned_nothing))
def patches_of_other_images(*data):
    """The logits of an image depend on the other images of its batch, and the model learns nothing: its tokens are patches of
    several images. A `reshape` or `view` does not know which axis is the batch: bring the batch axis to the front with
    `permute` first, or use `rearrange` or `F.unfold`."""
    return submit(data, 0.5, cut=patches_across_images)


@wrong(proof=trained.reads_other_examples)
def tokens_attend_over_the_batch(*data):
    """The logits of an image depend on the other images of its batch: attention or a normalisation runs along the batch axis.
    torch's attention needs `batch_first=True` for (B, T, d_model); normalise with LayerNorm over d_model."""
    return submit(data, mix=over_the_batch, of=_all_tokens)


@wrong(proof=classifiers.misses_all_patches)
def class_token_attends_over_the_batch(*data):
    """Your model gives the same logits for every image: the class token that you classify never receives anything from the
    patches. Either you classify it before any attention, or the attention runs along the batch axis: torch's layers expect
    (T, B, d_model) unless they get `batch_first=True`."""
    return submit(data, 0.5, mix=over_the_batch)


@wrong(proof=classifiers.misses_patches)
def reads_the_first_patch_only(*data):
    """Your model does not read some parts of an image: what is there can be replaced and no logit changes. Print how many
    patches there are, (8 / P)² of them, and put them back together to see whether they make up the whole image."""
    return submit(data, 0.5, cut=lambda images: quadrants(images)[:, :1])


def over_the_queries(q, k, v):
    """Normalise the scores over the queries instead of the keys."""
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-2) @ v


@wrong.part(proof=trained.attends_over_the_queries)
def softmax_over_the_queries(*data):
    """Your attention weights sum to 1 over the queries: the patches compete for who may read, not for who is read. Each row, of
    one query, sums to 1 over the keys: `softmax(dim=-1)` of scores (…, T_q, T_k)."""
    return submit(data, mix=over_the_queries, of=_all_tokens)


@wrong.detail(proof=classifiers.reads_no_squares)
def strips_for_patches(*data):
    """Your attention does not mix square patches, each of its own pixels. A `reshape` of the image, for example, takes pixels
    that follow each other in memory, as in a row, and layers before the attention may spread pixels over tokens. Split both
    sides, (B, 8 / P, P, 8 / P, P), and bring the two P together by `permute`, or use `F.unfold` or `rearrange`."""
    return submit(data, cut=lambda images: images.reshape(-1, 4, 16))


@wrong.idea(proof=trained.has_no_attention)
def no_attention(*data):
    """Your model has no attention: no values are multiplied by weights of a softmax over keys that depend on the image. A
    convolution, a network over all pixels or a comparison with known images is no Vision Transformer."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return submit(data, model=lambda n_classes: network)


@wrong(proof=classifiers.ignores_the_order)
def without_positions(*data):
    """Your model does not know where a patch is: with the quadrants of an image in another order, its logits stay the same.
    Attention alone sees a set of patches. Add a learned vector of the position to each token."""
    return submit(data, 0.5, positions=0.0)


@wrong(proof=classifiers.learns_a_sum_of_patches)
def patches_never_mixed(*data):
    """The influence of a patch is the same whatever the other patches show: your logits are a sum over patches, as those of a
    linear classifier are. In a Vision Transformer the tokens attend to each other before one of them is classified."""
    return submit(data, mix=lambda q, k, v: v, of=_all_tokens)


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF)
class EmbeddingsCutOff(SmallViT):
    def tokens(self, images):
        return super().tokens(images).detach()


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
    title="A Vision Transformer and its training loop",
    extra=True,
    reference=train_vit,
    properties=classifiers.properties(SECONDS, MOST_PARAMETERS),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        ViT: "write the model yourself: patches, positions, blocks, logits.",
        digits: "learn from the images that you are given.",
    },
    training=Training(partial(classifiers.questions, N_STEPS), SECONDS),
)
