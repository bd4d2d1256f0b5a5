"""Build task 01.6, train_lstm: an LSTM language model and its training loop; what students hand in, wrong and right."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank import language_models
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 200_000, 400

HINTS = (
    (
        "Three layers are enough: an embedding, an LSTM over time and a linear layer that gives logits at each position. Print "
        "the shapes: tokens (B, T), vectors (B, T, d), states (B, T, d_hidden), logits (B, T, n_tokens)."
    ),
    (
        "`nn.LSTM` expects time on its first axis unless you say `batch_first=True`. It returns the states of all steps and, "
        "beside them, the last state. A batch is `text[starts[:, None] + torch.arange(T + 1)]` for random `starts`: the model "
        "reads all but the last column and predicts all but the first."
    ),
    (
        "The loop is five lines: draw a batch, compute `F.cross_entropy(logits.flatten(0, 1), targets.flatten())`, "
        "`optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`. Adam with a learning rate of 0.01, 128 units and 16 "
        "windows a batch is enough. Return `model.eval()`."
    ),
)


def train_lstm(text: Tensor, n_tokens: int, n_steps: int) -> nn.Module:
    """Build an LSTM language model, train it on a text, and return it.

    The model maps tokens (B, T) to logits (B, T, n_tokens); those at t predict the token at t + 1.

    Args:
        text: the tokens to learn from, (N,), integers below n_tokens.
        n_tokens: size of the vocabulary.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    window, batch_size = 32, 16

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm = nn.Embedding(n_tokens, 32), nn.LSTM(32, 128, batch_first=True)
            self.logits = nn.Linear(128, n_tokens)

        def forward(self, tokens):
            states, _ = self.lstm(self.embed(tokens))
            return self.logits(states)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        starts = torch.randint(len(text) - window, (batch_size, 1))
        windows = text[starts + torch.arange(window + 1)]
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


class _Small(nn.Module):
    """Embedding, LSTM, logits; a wrong submission gives another LSTM."""

    def __init__(self, n_tokens, lstm=None, dropout=0.0):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(n_tokens, 16), nn.Dropout(dropout)
        self.lstm = lstm or nn.LSTM(16, 32, batch_first=True)
        self.logits = nn.Linear(self.lstm.hidden_size * (2 if self.lstm.bidirectional else 1), n_tokens)

    def forward(self, tokens):
        return self.logits(self.lstm(self.dropout(self.embed(tokens)))[0])


submit = language_models.submission(_Small)
wrong = loops.Submissions(
    __name__, submit, results="predictions", rates="0.001 to 0.02", learned="these few lines", new="new windows"
)
language_models.loop_mistakes(wrong, dropout=0.2)
language_models.shifted_targets(wrong)


@wrong.idea(proof=language_models.reads_the_future)
def in_both_directions(*data):
    """Your model reads the future: its logits at a position change when later tokens change. In training it can copy the next
    token; on new text it has nothing to copy. A language model reads in one direction: no `bidirectional=True`."""
    return submit(data, lstm=nn.LSTM(16, 16, batch_first=True, bidirectional=True))


@wrong(proof=trained.reads_other_examples)
def time_on_the_wrong_axis(*data):
    """Your recurrence runs over the batch, not over time: the logits of a window depend on the windows before it in the batch.
    `nn.LSTM` expects time on its first axis; give it `batch_first=True`."""
    return submit(data, 0.5, lstm=nn.LSTM(16, 32))


@wrong.change("model", language_models.ignores_the_order, part=0.5)
class StateNotCarried(_Small):
    """Your state starts from zero at every token: with the tokens before the last one in another order, the model predicts the
    same. Carry the state from each step to the next."""

    def forward(self, tokens):
        x = self.embed(tokens).flatten(0, 1)[:, None]
        return self.logits(self.lstm(x)[0]).reshape(*tokens.shape, -1)


@wrong.change("model", trained.weights_without_gradient, says=loops.CUT_OFF, part=0.5)
class StatesCutOff(_Small):
    def forward(self, tokens):
        return self.logits(self.lstm(self.embed(tokens))[0].detach())


class _OfTwoTokens(nn.Module):
    """Logits of the last two tokens."""

    def __init__(self, n_tokens):
        super().__init__()
        self.pairs = nn.Embedding(n_tokens**2, n_tokens)
        self.n_tokens = n_tokens

    def forward(self, tokens):
        before = F.pad(tokens[:, :-1], (1, 0))
        return self.pairs(before * self.n_tokens + tokens)


@wrong.idea(proof=language_models.forgets_distant_tokens)
def table_of_the_last_tokens(*data):
    """Your model forgets: the prediction stays the same if all tokens but the last three are replaced. A table, or a
    convolution over a few tokens, has no state. An LSTM carries one from token to token."""
    return submit(data, model=_OfTwoTokens, lr=0.3)


class _Attending(nn.Module):
    """One head of causal attention."""

    def __init__(self, n_tokens):
        super().__init__()
        self.embed, self.positions = nn.Embedding(n_tokens, 32), nn.Embedding(32, 32)
        self.qkv, self.logits = nn.Linear(32, 96), nn.Linear(32, n_tokens)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.logits(x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, dim=-1), is_causal=True))


@wrong.idea(proof=language_models.reads_all_at_once)
def all_tokens_at_once(*data):
    """Your model takes no step for each token, as attention, convolutions and windows of one length do not: its number of
    operations does not grow with theirs. An LSTM computes its state from the one before, from the first token to the last."""
    return submit(data, model=_Attending)


class _AttendingInALoop(_Attending):
    """The same, once for each position."""

    def forward(self, tokens):
        if self.training:
            return super().forward(tokens)
        return torch.stack(
            [super(_AttendingInALoop, self).forward(tokens[:, : t + 1])[:, -1] for t in range(len(tokens[0]))], 1
        )


@wrong.idea(proof=trained.both(language_models.attends_to_tokens, trained.fails(language_models.carries_a_state)))
def attention_in_a_loop(*data):
    """Your model attends: values of earlier tokens are multiplied by weights that sum to 1 and depend on the tokens. An LSTM
    has no such weights. What it knows of earlier tokens is its state, computed from the state before."""
    return submit(data, model=_AttendingInALoop)


class _Tables(nn.Module):
    """Logits from a table of counts and from a decaying sum of the tokens, with one trained scale each."""

    def __init__(self, n_tokens):
        super().__init__()
        self.pairs, self.scales = nn.Embedding(n_tokens, n_tokens), nn.Parameter(torch.tensor([1.0, 0.01]))

    def forward(self, tokens):
        kept, logits = 0.0, []
        for token in tokens.unbind(1):
            kept = 0.9 * kept + F.one_hot(token, self.pairs.num_embeddings)
            logits.append(self.scales[0] * self.pairs(token) + self.scales[1] * kept)
        return torch.stack(logits, 1)


@wrong.idea(proof=language_models.learns_few_weights)
def counted_tables(text, n_tokens, n_steps):
    """Your updates reach fewer than 1,000 weights, and an LSTM of 16 units has more than twice as many. Either your model is
    too small, or what it knows was counted or fixed before the training. The embedding, the gates and the readout of an LSTM
    are parameters, and all of them learn from the loss."""
    counts = torch.bincount(text[:-1] * n_tokens + text[1:], minlength=n_tokens**2).reshape(n_tokens, n_tokens)

    class Model(_Tables):
        def __init__(self, n_tokens):
            super().__init__(n_tokens)
            self.pairs.requires_grad_(False).weight.copy_((counts + 0.1).log())

    return submit((text, n_tokens, n_steps), model=Model, optimized=lambda model: nn.ParameterList([model.scales]))


class _DecayingSum(nn.Module):
    """Logits from the last two tokens and from a sum of the embeddings of all, in which each step halves those before."""

    def __init__(self, n_tokens):
        super().__init__()
        self.embed, self.pairs, self.logits = nn.Embedding(n_tokens, 32), _OfTwoTokens(n_tokens), nn.Linear(32, n_tokens)

    def forward(self, tokens):
        state, states = torch.zeros(len(tokens), 32), []
        for x in self.embed(tokens).unbind(1):
            state = state / 2 + x
            states.append(state)
        return self.logits(torch.stack(states, 1)) + self.pairs(tokens)


@wrong.idea(proof=trained.both(language_models.carries_no_learned_state, trained.fails(language_models.carries_a_state)))
def decaying_sum(*data):
    """Your model takes a step for each token, but no state goes through a nonlinear function on its way to the next one: it is
    a sum, or a list of what was read. The gates of an LSTM are computed from the state before, by `sigmoid` and `tanh`."""
    return submit(data, model=_DecayingSum)


@wrong.part(proof=language_models.has_no_gates)
def a_plain_rnn(*data):
    """Your model is a plain RNN: no sigmoid is computed, so no gate decides what is kept. The task is an LSTM, with an input, a
    forget and an output gate, and a cell beside the state."""
    return submit(data, lstm=nn.RNN(16, 64, batch_first=True), lr=5e-3)


@wrong.detail(proof=language_models.has_the_gates_of_a_gru)
def a_gru(*data):
    """Your model is a GRU: two gates and one state. The task is an LSTM, with an input, a forget and an output gate, and a
    cell beside the state."""
    return submit(data, lstm=nn.GRU(16, 32, batch_first=True))


@right
def by_hand(text, n_tokens, n_steps):
    """The equations of the LSTM step by step, one weight matrix for all gates, a forget bias of one, RMSprop."""
    d = 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.gates, self.logits = nn.Embedding(n_tokens, d), nn.Linear(2 * d, 4 * d), nn.Linear(d, n_tokens)
            nn.init.constant_(self.gates.bias[d : 2 * d].detach(), 1.0)

        def forward(self, tokens):
            h = c = torch.zeros(len(tokens), d)
            states = []
            for x in self.embed(tokens).unbind(1):
                i, f, g, o = self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                states.append(h)
            return self.logits(torch.stack(states, dim=1))

    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=4e-3)
    for _ in range(n_steps):
        tokens, targets = loops.drawn(text, context=20)
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(tokens).mT, targets).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
    return model


@right
def as_one_stream(text, n_tokens, n_steps):
    """Truncated back-propagation: 32 streams are read in the order of the text, and the detached state is carried along."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.out = nn.Embedding(n_tokens, 64), nn.LSTM(64, 96), nn.Linear(96, n_tokens)

        def forward(self, tokens, state=None):
            states, last = self.lstm(self.embed(tokens.T), state)
            logits = self.out(states).transpose(0, 1)
            return logits if state is None else (logits, last)

    model, streams = Model(), text[: len(text) // 32 * 32].view(32, -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    state, at = (torch.zeros(1, 32, 96), torch.zeros(1, 32, 96)), 0
    for _ in range(n_steps):
        logits, state = model(streams[:, at : at + 16], tuple(part.detach() for part in state))
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), streams[:, at + 1 : at + 17].flatten()).backward()
        optimizer.step()
        at = (at + 16) % (streams.shape[1] - 17)
    return model.eval()


exercise = Exercise(
    id="01.6",
    title="An LSTM language model and its training loop",
    reference=train_lstm,
    properties=language_models.properties(SECONDS, MOST_PARAMETERS, language_models.RECURRENT),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(partial(language_models.questions, N_STEPS), SECONDS),
)
