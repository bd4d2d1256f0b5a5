"""Build task 11.7, repair_vit: a run of a Vision Transformer with three planted faults; what students hand in.

The images are the maps of the lecture, and the question is the one that convolutions of as many updates do not answer: which
symbol is on the square of the pin's colour, wherever both are?
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.models import ViT
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.bank.drawn_maps import CELL, GRID, SYMBOLS, draw_maps
from course_tools.bank.image_classifiers import N_FEW
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 1_000
N_LEARN, N_UNSEEN, SIDE = 3_000, 500, GRID * CELL
LEAST = 0.6
"""Required share of right answers where pin and entry do not touch; with four symbols a map, a guess among them has 0.25."""

HINTS = (
    (
        "Do not read the code first; measure. Do the logits of a map change with the other maps of its batch? What is the sum "
        "of the outputs for one map? After one `loss.backward()`, which of `model.named_parameters()` have no gradient?"
    ),
    (
        "One fault is in the patches: put those of two maps back together and look at them. One is in the loop over the "
        "layers: what does layer 2 read, and who reads what layer 1 returns? One is at the end: what does `F.cross_entropy` "
        "take?"
    ),
    (
        "Bring the batch axis to the front before the reshape joins axes; rows and columns of patches come next, then the "
        "colours and pixels of a patch. Each layer reads what the layer before returned: `tokens = layer(tokens)`. "
        "`F.cross_entropy` takes logits: return them without a softmax."
    ),
)


def repair_vit(images: Tensor, labels: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Train a Vision Transformer on maps, and return it: the run above, repaired.

    The model maps images (B, 3, 48, 48) to logits (B, n_classes).

    Args:
        images: the maps to learn from, (N, 3, 48, 48), colours from 0 to 1, sorted by their labels.
        labels: for each map the symbol on the square of the pin's colour, (N,), integers below n_classes.
        n_classes: number of symbols.
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

    class Reader(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.embed, self.first = nn.Linear(432, d), nn.Parameter(0.5 * torch.randn(1, 1, d))
            self.positions = nn.Parameter(0.5 * torch.randn(1, 17, d))
            self.layers, self.norm = nn.ModuleList([Layer(d), Layer(d)]), nn.LayerNorm(d)
            self.head = nn.Linear(d, n_classes)

        def forward(self, images):
            squares = (4 * images - 2).unfold(2, 12, 12).unfold(3, 12, 12)
            patches = squares.permute(0, 2, 3, 1, 4, 5).reshape(len(images), 16, 432)
            tokens = torch.cat([self.first.expand(len(images), -1, -1), self.embed(patches)], dim=1)
            tokens = tokens + self.positions
            for layer in self.layers:
                tokens = layer(tokens)
            return self.head(self.norm(tokens)[:, 0])

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def _questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw maps to learn from, sorted by their labels, and the queries about others, whose drawings and crops are new."""
    learn, unseen = (draw_maps(n, int(draw.integers(0, 2**31, 1)), n == N_UNSEEN) for n in (N_LEARN, N_UNSEEN))
    order = learn.colour.argsort(stable=True)
    images, labels = learn.images[order], learn.colour[order]
    down, along = unseen.pin // GRID - unseen.entry // GRID, unseen.pin % GRID - unseen.entry % GRID
    truth = {
        "labels": unseen.colour,
        "images": images,
        "held out": unseen.images,
        "n_steps": N_STEPS,
        "frequencies": classifiers.loss_of_frequencies(labels, unseen.colour),
        "apart": torch.maximum(down.abs(), along.abs()) > 1,
    }
    queries, probed = classifiers.about_patches(unseen.images, draw)
    return ((images, labels, len(SYMBOLS), N_STEPS), queries, (), probed), truth


def _model(measured: Measured, truth: Truth) -> str | None:
    sizes = (N_UNSEEN, N_FEW, N_FEW, 17 * N_FEW, 3 * N_FEW, 1)
    return classifiers.fault_of_classes(measured.outputs, sizes, (3, SIDE, SIDE), len(SYMBOLS))


def right_apart(measured: Measured, truth: Truth) -> float:
    """The share of right answers about unseen maps on which pin and entry do not touch."""
    return (measured.outputs[0].argmax(-1) == truth["labels"])[truth["apart"]].float().mean().item()


_score = trained.at_least(
    LEAST,
    right_apart,
    "Where pin and entry do not touch, the share of right answers",
    ": a model that only knows which four symbols are on a map reaches 0.25",
)
fails_to_learn = trained.fails(trained.every(classifiers.learns, _score))


def cells(images):
    """Cut maps into sixteen patches (B, 16, 432)."""
    return F.unfold(images, CELL, stride=CELL).mT


def attention(q, k, v):
    """Mix the tokens of each map by one head."""
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def over_the_batch(*qkv):
    """Take the maps of a batch for the tokens, as `nn.MultiheadAttention` does without `batch_first`."""
    return attention(*(part.transpose(0, 1) for part in qkv)).transpose(0, 1)


def _class_token(x):
    return x[:, 0]


class Block(nn.Module):
    """Mix the tokens, then the channels, each beside a residual connection."""

    def __init__(self, d, mix):
        super().__init__()
        self.norm, self.qkv, self.mix = nn.LayerNorm(d), nn.Linear(d, 3 * d), mix
        self.feed_forward = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.mix(*self.qkv(self.norm(x)).chunk(3, dim=-1))
        return x + self.feed_forward(x)


class SmallViT(nn.Module):
    """Two blocks with one head over sixteen patches, and what a wrong submission changes.

    That is how it cuts images, how it mixes tokens, which logits it returns, its positions and its dropout.
    """

    def __init__(self, n_classes, cut=cells, mix=attention, of=_class_token, positions=1.0, dropout=0.0, d=48):
        super().__init__()
        self.embed, self.class_token = nn.Linear(3 * CELL**2, d), nn.Parameter(0.5 * torch.randn(1, 1, d))
        self.positions = nn.Parameter(0.5 * torch.randn(1, 1 + GRID**2, d))
        self.blocks = nn.ModuleList([Block(d, mix), Block(d, mix)])
        self.norm, self.logits = nn.LayerNorm(d), nn.Linear(d, n_classes)
        self.cut, self.of, self.used, self.dropout = cut, of, positions, nn.Dropout(dropout)

    def tokens(self, images):
        """Embed the patches, with the class token before them."""
        return torch.cat([self.class_token.expand(len(images), -1, -1), self.embed(self.cut(4 * images - 2))], dim=1)

    def mixed(self, x):
        """Apply the blocks one after the other."""
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, images):
        x = self.tokens(images)
        x = self.mixed(self.dropout(x + self.used * self.positions[:, : x.shape[1]]))
        return self.of(self.logits(self.norm(x)))


def patches_across_images(images):
    """Cut images into (B, 16, 432) by a reshape that takes the patches of one image for those of several."""
    squares = images.unfold(2, CELL, CELL).unfold(3, CELL, CELL)
    return squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), GRID**2, -1)


submit = classifiers.submission(SmallViT, lr=1e-3)
wrong = loops.Submissions(
    __name__,
    submit,
    example="map",
    model="model",
    results="logits",
    rates="Set it back to 0.001.",
    batch="batch",
    new="new maps",
)


takes_other_patches = trained.both(trained.reads_other_examples, classifiers.embeds_other_images)


@wrong(proof=trained.both(takes_other_patches, language_models.gives_probabilities))
def three_faults(images, labels, n_classes, n_steps):
    """The check measured these two faults. The logits of a map change with the other maps of its batch: some of its patches are
    not its own. And the outputs for a map are positive and sum to 1, while `F.cross_entropy` takes logits. The
    crosses below say what else was measured: weights that never had a gradient are a third fault. Repair all."""

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

    class Reader(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.embed, self.first = nn.Linear(432, d), nn.Parameter(0.5 * torch.randn(1, 1, d))
            self.positions = nn.Parameter(0.5 * torch.randn(1, 17, d))
            self.layers, self.norm = nn.ModuleList([Layer(d), Layer(d)]), nn.LayerNorm(d)
            self.head = nn.Linear(d, n_classes)

        def forward(self, images):
            squares = (4 * images - 2).unfold(2, 12, 12).unfold(3, 12, 12)
            patches = squares.permute(2, 3, 0, 1, 4, 5).reshape(len(images), 16, 432)
            tokens = torch.cat([self.first.expand(len(images), -1, -1), self.embed(patches)], dim=1)
            tokens = tokens + self.positions
            for layer in self.layers:
                states = layer(tokens)
            return self.head(self.norm(states)[:, 0]).softmax(-1)

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


wrong.loop_mistakes(fails_to_learn, classifiers.has_learned_nothing, loops.REPAIR)


@wrong(proof=language_models.gives_probabilities)
def probabilities_for_logits(*data):
    """The results of a map are still positive and sum to 1. `F.cross_entropy` takes a softmax itself; with two, the loss
    cannot fall below 1.27. Return the logits."""
    return submit(data, 0.5, wrap=loops.Softmaxed)


@wrong(proof=trained.both(classifiers.reads_in_order, fails_to_learn))
def without_shuffling(*data):
    """The maps are now read in the order in which they are given, sorted by their labels. The run of the task draws the
    maps of each batch at random; keep this in the loop."""
    return submit(data, 0.5, in_order=True)


@wrong(proof=takes_other_patches)
def patches_of_other_images(*data):
    """The logits of a map still change with the other maps of its batch: where the patches are embedded, the batch axis
    is not in front, and patches of several maps are taken for those of one. Bring the batch axis to the front before the
    reshape."""
    return submit(data, 0.5, cut=patches_across_images)


@wrong(proof=trained.reads_other_examples)
def attention_over_the_batch(*data):
    """The logits of a map change with the other maps of its batch. Two steps can mix maps: a reshape while the batch axis is
    not in front; and attention over the batch, since `nn.MultiheadAttention` without `batch_first=True` takes the first axis
    for the tokens."""
    return submit(data, 0.5, mix=over_the_batch, of=lambda logits: logits.mean(1))


@wrong(proof=classifiers.misses_patches)
def first_patches_only(*data):
    """The patches now belong to their own map, and some are lost: what they show can be replaced and no logit changes. A map of
    48 × 48 pixels has sixteen patches of 12 × 12."""
    return submit(data, 0.5, cut=lambda images: cells(images)[:, :4])


@wrong(proof=trained.both(trained.weights_without_gradient, classifiers.reads_no_patch))
def class_token_alone(*data):
    """The logits are the same for every map, and some weights never have a gradient: nothing of a patch reaches the logits. Is
    the attention called, and over the tokens of one map? `nn.MultiheadAttention` without `batch_first=True` takes the first
    axis for the tokens: each token then attends over the batch, in which all class tokens are alike."""
    return submit(data, 0.5, mix=over_the_batch)


@wrong.change("model", trained.both(trained.weights_without_gradient, classifiers.layers_are_side_by_side), part=0.5)
class LayersSideBySide(SmallViT):
    """Some weights never have a gradient, because nothing reads what they compute: each layer reads the same tokens, and only
    the last result is kept. So the encoder is one layer deep, and there the class token has the same query for every map,
    whatever the colour of the pin. Each layer must read what the layer before returned."""

    def mixed(self, x):
        """Apply each block to the same tokens, and keep the last result."""
        for block in self.blocks:
            y = block(x)
        return y


@wrong.change("model", trained.both(classifiers.ignores_the_order, classifiers.reads_every_patch), part=0.5)
class PositionsAfterTheEncoder(SmallViT):
    """The logits stay the same when the quarters of a map change places: the tokens attend without knowing their positions.
    This question does not need them, but positions were no fault, and every other question does. Add them to the tokens before
    the first layer."""

    def forward(self, images):
        return self.of(self.logits(self.norm(self.mixed(self.tokens(images)) + self.positions)))


@wrong.detail(proof=classifiers.patches_overlap)
def overlapping_patches(*data):
    """Your patches overlap: some pixels belong to several tokens. Keep the cut into sixteen patches of 12 × 12 pixels, each
    pixel in one of them."""
    return submit(data, cut=lambda images: F.unfold(images, CELL, dilation=2, stride=8).mT)


@wrong.detail(proof=classifiers.reads_no_squares)
def strips_for_patches(*data):
    """The attention does not mix square patches, each of its own pixels, as that of the run does. Keep the cut into patches of
    12 × 12 pixels, with the batch axis in front."""
    return submit(data, cut=lambda images: images.reshape(len(images), GRID**2, -1))


@wrong(proof=classifiers.weighs_over_the_queries)
def softmax_over_the_queries(*data):
    """The weights of your attention sum to 1 over the queries, and not over the keys: the softmax has the wrong axis. Of scores
    (…, queries, keys), take `softmax(-1)`."""
    return submit(data, 0.5, mix=lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-2) @ v)


@wrong(proof=classifiers.is_a_sum_over_patches)
def attention_removed(*data):
    """The attention was no fault, and now it is missing: the influence of a patch is the same whatever the other patches
    show."""
    return submit(data, 0.5, mix=lambda q, k, v: v, of=lambda logits: logits.mean(1))


@wrong.idea(proof=trained.has_no_attention)
def another_network(*data):
    """Your model has no attention any more: no values are multiplied by weights of a softmax over keys that depend on the
    map. Repair the Vision Transformer that is given; another network is another task."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 24), nn.GELU(), nn.Linear(24, len(SYMBOLS)))
    return submit(data, model=lambda n_classes: network)


@right
def with_torchs_encoder(images, labels, n_classes, n_steps):
    """A convolution for the patches, torch's TransformerEncoder with dropout, a DataLoader that shuffles, AdamW, a schedule."""

    class Model(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.embed, self.first = nn.Conv2d(3, d, 12, stride=12), nn.Parameter(torch.zeros(1, 1, d))
            self.positions = nn.Parameter(torch.randn(1, 17, d) * 0.3)
            layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.02, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
            self.head = nn.Linear(d, n_classes)

        def forward(self, pictures):
            tokens = self.embed(2 * pictures - 1).flatten(2).mT
            tokens = torch.cat((self.first.repeat(tokens.shape[0], 1, 1), tokens), 1)
            return self.head(self.encoder(tokens + self.positions)[:, 0, :])

    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=n_steps)
    for pictures, targets in loops.epochs((images, labels), n_steps, 48, drop_last=True):
        optimizer.zero_grad()
        criterion(model(pictures), targets).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def without_modules(images, labels, n_classes, n_steps):
    """Weights in a dict, a function, gradients from autograd, and Adam by hand; the mean of the tokens for a class token."""
    d = 64
    shapes = {"embed": (432, d), "out": (d, n_classes)}
    for layer in "ab":
        shapes |= {layer + name: (d, d) for name in "qkv"} | {layer + "up": (d, 2 * d), layer + "down": (2 * d, d)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights["positions"] = (0.3 * torch.randn(16, d)).requires_grad_()

    def model(pictures):
        B = pictures.shape[0]
        patches = pictures.reshape(B, 3, 4, 12, 4, 12).permute(0, 2, 4, 3, 5, 1).reshape(B, 16, 432)
        x = (2 * patches - 1) @ weights["embed"] + weights["positions"]
        for layer in "ab":
            normal = F.layer_norm(x, (d,))
            scores = (normal @ weights[layer + "q"]) @ (normal @ weights[layer + "k"]).mT / d**0.5
            x = x + scores.softmax(-1) @ (normal @ weights[layer + "v"])
            x = x + (F.layer_norm(x, (d,)) @ weights[layer + "up"]).relu() @ weights[layer + "down"]
        return F.layer_norm(x, (d,)).mean(1) @ weights["out"]

    def loss():
        which = torch.randint(len(labels), (48,))
        return -model(images[which]).log_softmax(-1).gather(1, labels[which][:, None]).mean()

    loops.adam_by_hand(list(weights.values()), n_steps, loss, 1e-3)
    return model


exercise = Exercise(
    id="11.7",
    title="Repair a Vision Transformer that does not train",
    reference=repair_vit,
    properties=classifiers.properties(
        SECONDS,
        MOST_PARAMETERS,
        model=("The model maps images (B, 3, 48, 48) to logits (B, n_classes).", _model),
        score=(f"Where pin and entry do not touch, at least {LEAST:g} of the answers about unseen maps are right.", _score),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        ViT: "repair the model that is given.",
        draw_maps: "learn from the maps that you are given.",
    },
    training=Training(_questions, SECONDS),
)
