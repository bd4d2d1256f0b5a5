"""Exercise 08.6, classification_head: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.models import classification_head
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "The model gives one state for each token, and one set of logits is needed for the whole sequence. Which token is "
        "there for this purpose, and at which position?"
    ),
    (
        "Take the states of the first tokens, (B, d_model). A layer of W_p and b_p with tanh gives (B, d_p); a second "
        "layer, without a nonlinearity, gives the logits."
    ),
    (
        "The state of [CLS] is the one at position 0. It goes through two linear layers, stored with the output features "
        r"first, with $\tanh$ after the first one only."
    ),
)


def _head(pooled, W_p, b_p, W, b, f=torch.tanh):
    """Both layers on whatever was pooled."""
    return F.linear(f(F.linear(pooled, W_p, b_p)), W, b)


@wrong.idea
def averages_the_tokens(states, W_p, b_p, W, b):
    """You average the states of all tokens. BERT uses the state of [CLS], which attends to every token and is trained for
    this."""
    return _head(states.mean(1), W_p, b_p, W, b)


@wrong.idea
def takes_the_last_token(states, W_p, b_p, W, b):
    """You take the state of the last token. That is right for a model that reads from left to right; here [CLS] comes first,
    and at the end there may be padding."""
    return _head(states[:, -1], W_p, b_p, W, b)


@wrong.idea
def takes_the_largest_of_each_feature(states, W_p, b_p, W, b):
    """You take the maximum of each feature over the tokens. BERT uses the state of [CLS] alone."""
    return _head(states.amax(1), W_p, b_p, W, b)


@wrong.part
def averages_the_answers(states, W_p, b_p, W, b):
    """You average over all tokens, after the tanh or in the logits, which is the same. The whole sequence is classified from
    the state of [CLS] alone."""
    return _head(states, W_p, b_p, W, b).mean(1)


@wrong.idea
def answers_for_every_token(states, W_p, b_p, W, b):
    """You give logits for every token, (B, T, n_classes). That is a head for token classification; a sequence has one set
    of logits, from its [CLS]."""
    return _head(states, W_p, b_p, W, b)


@wrong.idea
def takes_the_first_example(states, W_p, b_p, W, b):
    """You take the first example of the batch with all its tokens, states[0]. The first axis counts sequences; the first
    token of each is `states[:, 0]`."""
    return _head(states[0], W_p, b_p, W, b)


@wrong.part
def forgets_the_tanh(states, W_p, b_p, W, b):
    """You apply the two layers with no nonlinearity between them. Together they are then a single linear layer, and the
    pooler adds nothing; it needs its tanh."""
    return _head(states[:, 0], W_p, b_p, W, b, f=lambda x: x)


@wrong.detail
def takes_a_relu(states, W_p, b_p, W, b):
    """You apply a ReLU after the pooler, as is usual between layers. BERT's pooler has a tanh, and its weights were trained
    with it: negative features count too, and none grows beyond 1."""
    return _head(states[:, 0], W_p, b_p, W, b, f=F.relu)


@wrong.detail
def squashes_the_logits_too(states, W_p, b_p, W, b):
    """You apply a second tanh to the logits. They then lie between -1 and 1, and no class can get a probability near 1;
    logits are not bounded."""
    return torch.tanh(_head(states[:, 0], W_p, b_p, W, b))


@wrong.detail
def gives_probabilities(states, W_p, b_p, W, b):
    """You finish with a softmax. Asked for are logits: the cross-entropy takes the softmax itself, and a second one makes
    the probabilities too even."""
    return _head(states[:, 0], W_p, b_p, W, b).softmax(-1)


@wrong.detail
def gives_log_probabilities(states, W_p, b_p, W, b):
    """You finish with a log-softmax. Asked for are logits: the cross-entropy takes the logarithm of the softmax itself. There a
    second one changes nothing, but code that reads logits gets other numbers."""
    return _head(states[:, 0], W_p, b_p, W, b).log_softmax(-1)


@wrong.detail
def takes_a_gelu(states, W_p, b_p, W, b):
    """You apply a GELU after the pooler, as in BERT's feed-forward networks. Its pooler has a tanh, and its weights were
    trained with it: none of its features grows beyond 1."""
    return _head(states[:, 0], W_p, b_p, W, b, f=F.gelu)


@wrong.detail
def adds_the_bias_after_the_tanh(states, W_p, b_p, W, b):
    """You add b_p after the tanh. The bias belongs to the linear layer, inside the tanh; yours only shifts the result."""
    return F.linear(torch.tanh(F.linear(states[:, 0], W_p)) + b_p, W, b)


@wrong.detail
def forgets_the_biases(states, W_p, b_p, W, b):
    """You multiply by both matrices and never use b_p and b. With a state of 0 your logits are 0 for every class; the biases
    are part of the two layers."""
    return torch.tanh(states[:, 0] @ W_p.mT) @ W.mT


@wrong.detail
def squashes_with_the_sigmoid(states, W_p, b_p, W, b):
    """Your pooler uses the sigmoid. BERT's pooler has tanh."""
    return torch.sigmoid(states[:, 0] @ W_p.mT + b_p) @ W.mT + b


@wrong.detail
def multiplies_by_the_stored_matrix(states, W_p, b_p, W, b):
    """You write @ W_p. The matrices are stored with a row for each feature that they make, (d_p, d_model): use W_p.mT."""
    return torch.tanh(states[:, 0] @ W_p + b_p) @ W + b


@right
def by_einsum(states, W_p, b_p, W, b):
    """The two layers as einsums, the first token split off by unbind."""
    cls = states.unbind(dim=1)[0]
    pooled = (torch.einsum("bi,pi->bp", cls, W_p) + b_p).tanh()
    return torch.einsum("bp,cp->bc", pooled, W) + b


@right
def with_modules(states, W_p, b_p, W, b):
    """Two modules built by torch and called with the given weights, on all tokens; the first is taken last."""
    head = torch.nn.Sequential(torch.nn.Linear(*W_p.T.shape), torch.nn.Tanh(), torch.nn.Linear(*W.T.shape))
    weights = {"0.weight": W_p, "0.bias": b_p, "2.weight": W, "2.bias": b}
    return torch.func.functional_call(head, weights, (states,)).select(1, 0)


@right
def with_biases_in_the_matrices(states, W_p, b_p, W, b):
    """Biases as one more column of each matrix, met by a feature that is always 1; in float64, with columns of examples."""

    def with_one(columns):
        return torch.cat([columns, torch.ones_like(columns[:1])])

    columns = states[:, 0, :].double().T
    pooled = torch.tanh(torch.hstack([W_p, b_p[:, None]]).double() @ with_one(columns))
    return (torch.hstack([W, b[:, None]]).double() @ with_one(pooled)).T.to(states.dtype)


@right
def example_by_example(states, W_p, b_p, W, b):
    """A loop over the batch; tanh from a sigmoid."""
    logits = []
    for sequence in states:
        pooled = 2 * torch.sigmoid(2 * (W_p @ sequence[0] + b_p)) - 1
        logits.append(torch.mv(W, pooled) + b)
    return torch.stack(logits)


@stranger
def head_of_the_second_token(states, W_p, b_p, W, b):
    return classification_head(states.roll(-1, 1), W_p, b_p, W, b)


@stranger
def head_with_a_sigmoid(states, W_p, b_p, W, b):
    return (states[:, 0] @ W_p.mT + b_p).sigmoid() @ W.mT + b


@stranger
def head_of_a_sum(states, W_p, b_p, W, b):
    return classification_head(states.sum(1, keepdim=True), W_p, b_p, W, b)


@stranger(makes=[forgets_the_biases])
def head_without_biases_by_zeros(states, W_p, b_p, W, b):
    return classification_head(states, W_p, 0 * b_p, W, 0 * b)


@stranger(makes=[averages_the_tokens, forgets_the_tanh])
def head_averaged_without_tanh(states, W_p, b_p, W, b):
    return (states.mean(1) @ W_p.mT + b_p) @ W.mT + b


def _call(draw: Draw, B: int, T: int, d_model: int, d_p: int, n_classes: int, scale: float = 1.0) -> Call:
    """States, and the weights of the two layers as torch.nn.Linear stores them."""
    pool = draw.normal(d_p, d_model, scale=scale / d_model**0.5), draw.normal(d_p, scale=0.5)
    return draw.normal(B, T, d_model), *pool, draw.normal(n_classes, d_p), draw.normal(n_classes)


def _batches(draw: Draw) -> list[Call]:
    B, T, d_model, d_p, n_classes = draw.sizes(5)
    return [_call(draw, B, T, d_model, d_p, n_classes), _call(draw, 3, 5, 7, 2, 11)]


def _silent_pool(draw: Draw) -> list[Call]:
    """A pooler that gives tanh(b_p), whatever it reads."""
    states, W_p, b_p, W, b = _call(draw, 1, 2, 3, 5, 2)
    return [(states, 0 * W_p, b_p, W, b)]


def _without_biases(draw: Draw) -> list[Call]:
    states, W_p, b_p, W, b = _call(draw, 1, 1, 3, 5, 2)
    return [(states, W_p, 0 * b_p, W, 0 * b)]


exercise = Exercise(
    id="08.6",
    title="A classification head for sequences",
    reference=classification_head,
    properties=(
        runs_on(_batches),
        has_shape("One logit for each class, for each sequence.", _batches),
        Property("pooler", "A token alone, no biases: W tanh(W_p h).", _without_biases, points=2),
        Property("biases", "b_p comes before the tanh, b at the end.", _silent_pool),
        Property(
            "[CLS]",
            "Only the state of the first token is used.",
            lambda draw: [_call(draw, 1, 3, 2, 5, 3), _call(draw, 1, 7, 5, 3, 2)],
            points=2,
            needs=("pooler", "biases"),
        ),
        Property("batch", "Each sequence is classified independently.", _batches, needs=("[CLS]",)),
        Property(
            "bounded",
            "However large a state is, the pooler's features stay within -1…1.",
            lambda draw: [_call(draw, 2, 3, 5, 7, 3, scale=60.0)],
            needs=("batch",),
        ),
        has_gradient(_batches, needs=("batch",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
