"""Build task 07.7, train_gpt: a GPT and its training loop from an empty cell; what students hand in, wrong and right."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.models import GPT
from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Severity, Training

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS, MARGIN = 60.0, 200_000, 800, 0.3

HINTS = (
    (
        "Build it in this order, and print shapes after each step: embedding plus positions, (B, T, d_model); attention with "
        "a causal mask; one block with residual connections; logits. Then check by hand that the logits at position 3 stay the "
        "same when token 4 changes, before you train anything."
    ),
    (
        "A batch is `text[starts[:, None] + torch.arange(T + 1)]` for random `starts`: the model reads all but the last column "
        "and predicts all but the first. Adam with a learning rate of 0.003 and 16 windows a batch is enough; the loss "
        "should fall from 3.3 to about 1.7."
    ),
    (
        "The loop is five lines: draw a batch, compute `F.cross_entropy(logits.flatten(0, 1), targets.flatten())`, "
        "`optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. The optimizer gets `model.parameters()` of the model "
        "that you return, and you return it in evaluation mode: `return model.eval()`."
    ),
)


def train_gpt(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build a GPT, train it on a text, and return it.

    The model maps tokens (B, T) with T ≤ 32 to logits (B, T, n_tokens); those at t predict the token at t + 1.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    d_model, n_heads, context, batch_size = 64, 4, 32, 16

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
            self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
            self.feed_forward = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = (h.reshape(B, T, n_heads, -1).transpose(1, 2) for h in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            causal = torch.ones(T, T, dtype=torch.bool).tril()
            weights = scores.masked_fill(~causal, -torch.inf).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
            return x + self.feed_forward(self.norm_2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(n_tokens, d_model), nn.Embedding(context, d_model)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.logits = nn.LayerNorm(d_model), nn.Linear(d_model, n_tokens)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            return self.logits(self.norm(self.blocks(x)))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(n_steps):
        starts = torch.randint(len(text) - context, (batch_size, 1))
        windows = text[starts + torch.arange(context + 1)]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


class SmallGPT(nn.Module):
    """One block with one head, and what a wrong submission changes: its mask, its positions, its dropout."""

    def __init__(self, n_tokens, allowed=torch.tril, positions=1.0, dropout=0.0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, 32), nn.Embedding(32, 32)
        self.qkv, self.norm, self.logits = nn.Linear(32, 96), nn.LayerNorm(32), nn.Linear(32, n_tokens)
        self.feed_forward = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
        self.allowed, self.used, self.dropout = allowed, positions, nn.Dropout(dropout)

    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.dropout(self.tokens(tokens) + self.used * self.positions.weight[:T])
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.mT / 32**0.5).masked_fill(~self.allowed(torch.ones(T, T, dtype=torch.bool)), -torch.inf)
        x = x + scores.softmax(-1) @ v
        return self.logits(self.norm(x + self.feed_forward(x)))


submit = language_models.submission(SmallGPT)
wrong = loops.Submissions(
    __name__, submit, results="predictions", rates="0.001 to 0.01", learned="these few lines", new="new windows"
)
language_models.loop_mistakes(wrong, part=0.5, short=1 / 6)
language_models.shifted_targets(wrong)


@wrong(proof=language_models.reads_the_future)
def without_a_mask(*data):
    """Your model reads the future: its logits at a position change when later tokens change. In training it can copy the next
    token and the loss falls far too low; on new text it has nothing to copy. Mask the scores with a lower triangular mask, and
    take the softmax over the keys."""
    return submit(data, allowed=lambda ones: ones)


@wrong(proof=language_models.ignores_the_order)
def without_positions(*data):
    """Your model does not know the order of the tokens: with those before the last one in another order, it predicts the same.
    Attention alone sees a set. Add a vector of the position to each token's vector."""
    return submit(data, positions=0.0)


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF)
class EmbeddingsCutOff(SmallGPT):
    def forward(self, tokens):
        x = (self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]).data
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.mT / 32**0.5).masked_fill(~torch.ones(len(x[0]), len(x[0]), dtype=torch.bool).tril(), -torch.inf)
        x = x + scores.softmax(-1) @ v
        return self.logits(self.norm(x + self.feed_forward(x)))


@wrong.change("model", language_models.is_attention_alone, part=0.5, severity=Severity.PART)
class AttentionAlone(nn.Module):
    """Your model attends and adds, and that is all: there is no feed-forward network, and no norm. Attention only averages
    vectors of tokens. What a combination of letters means is computed by a network with a nonlinearity, after each attention:
    x = x + network(norm(x))."""

    def __init__(self, n_tokens):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, 32), nn.Embedding(32, 32)
        self.qkv, self.logits = nn.Linear(32, 96), nn.Linear(32, n_tokens)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.logits(x + F.scaled_dot_product_attention(q, k, v, is_causal=True))


language_models.without_attention(wrong)
language_models.with_a_recurrence(wrong)


@right
def with_torchs_encoder(text, n_tokens, n_steps):
    """torch's TransformerEncoder with a causal mask, dropout and a schedule; the windows of the text shuffled once, as by a
    DataLoader."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(n_tokens, 64), nn.Parameter(torch.randn(32, 64) * 0.02)
            layer = nn.TransformerEncoderLayer(64, 2, 128, dropout=0.02, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(64, n_tokens)

        def forward(self, tokens):
            T = tokens.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(T)
            return self.head(self.encoder(self.embed(tokens) + self.position[:T], mask=mask, is_causal=True))

    windows = text[: len(text) // 33 * 33].view(-1, 33)
    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=n_steps)
    for batch in loops.epochs(windows, n_steps, 16):
        optimizer.zero_grad()
        criterion(model(batch[:, :-1]).transpose(1, 2), batch[:, 1:]).backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


@right
def without_modules(text, n_tokens, n_steps):
    """Weights in a dict, a function, gradients from autograd, and Adam by hand; one head, sinusoidal positions."""
    d = 48
    shapes = {"embed": (n_tokens, d), "q": (d, d), "k": (d, d), "v": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights["out"] = (torch.randn(d, n_tokens) * 0.02).requires_grad_()
    angles = torch.arange(32)[:, None] / 10_000 ** (torch.arange(d // 2) / (d // 2))
    positions = torch.cat([angles.sin(), angles.cos()], dim=1)

    def model(tokens):
        T = tokens.shape[1]
        x = weights["embed"][tokens] + positions[:T]
        scores = (x @ weights["q"]) @ (x @ weights["k"]).mT / d**0.5
        x = x + (scores + torch.full((T, T), -torch.inf).triu(1)).softmax(-1) @ (x @ weights["v"])
        x = F.layer_norm(x, (d,))
        return F.layer_norm(x + (x @ weights["up"]).relu() @ weights["down"], (d,)) @ weights["out"]

    names = list(weights)
    first, second = ({name: torch.zeros_like(weights[name]) for name in names} for _ in range(2))
    for step in range(1, n_steps + 1):
        at = torch.randint(len(text) - 32, (24,))
        tokens, targets = (torch.stack([text[i + shift : i + shift + 32] for i in at.tolist()]) for shift in (0, 1))
        loss = -model(tokens).log_softmax(-1).gather(2, targets[..., None]).mean()
        for name, gradient in zip(names, torch.autograd.grad(loss, [weights[name] for name in names]), strict=True):
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.99 * second[name] + 0.01 * gradient**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.99**step)
            weights[name].data -= 8e-3 * mean / (square.sqrt() + 1e-8)
    return model


exercise = Exercise(
    id="07.7",
    title="GPT and its training loop",
    reference=train_gpt,
    properties=language_models.properties(SECONDS, MOST_PARAMETERS, margin=MARGIN),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={GPT: "write the model yourself: embeddings, blocks, logits."},
    training=Training(partial(language_models.questions, N_STEPS), SECONDS),
)
