"""Exercise 11.6, fine_tuned_head: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.metrics import LinearProbe, fine_tuned_head
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "With W and b at 0, what is the softmax of every example? The gradient of the cross-entropy with respect to the "
        "logits is that, less a 1 at the right class: which way does the first step go?"
    ),
    (
        "Keep four tensors: W, b and a velocity for each, all 0. In each step compute both gradients from the same W and b, "
        "then both velocities, v = μ v + g, and only then move by -η v. The mean is over the n examples."
    ),
    (
        "The gradient of the mean cross-entropy with respect to the logits is softmax minus one-hot, divided by n. "
        "Multiply it, transposed, with the features for W, and sum it over the examples for b. Or let autograd and "
        "`torch.optim.SGD` do it."
    ),
)


def _trained(features, labels, n_classes, n_steps, move, W=None, likely=lambda logits: logits.softmax(-1)):
    """Train by `move(w, v, g)`, which gives the new weights and the new velocity; `likely` makes probabilities of logits."""
    W, b = features.new_zeros(n_classes, features.shape[1]) if W is None else W, features.new_zeros(n_classes)
    v_W, v_b = torch.zeros_like(W), torch.zeros_like(b)
    for _ in range(n_steps):
        error = (likely(features @ W.mT + b) - F.one_hot(labels, n_classes).to(W.dtype)) / len(features)
        (W, v_W), (b, v_b) = move(W, v_W, error.mT @ features), move(b, v_b, error.sum(0))
    return LinearProbe(W, b)


def _sgd(learning_rate, momentum):
    return lambda w, v, g: (w - learning_rate * (momentum * v + g), momentum * v + g)


@wrong.detail
def starts_at_random(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You start with random weights, as `nn.Linear` does. The new head starts at 0: all classes are equally likely, and the
    result is deterministic."""
    W = torch.randn(n_classes, features.shape[1], dtype=features.dtype) / features.shape[1] ** 0.5
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate, momentum), W)


@wrong.part
def forgets_the_momentum(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You step along the gradient alone. The velocity keeps μ times its previous value."""
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate, 0.0))


@wrong.detail
def dampens_the_gradient(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You multiply the gradient by 1 - μ in the velocity, a running mean as in Adam. Here it is added in full: a steady
    gradient makes steps up to 1 / (1 - μ) times as long."""
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate * (1 - momentum), momentum))


@wrong.detail
def looks_ahead(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You move along g + μ v, which is Nesterov's momentum. Polyak's, asked for here, moves along the velocity itself."""

    def move(w, v, g):
        v = momentum * v + g
        return w - learning_rate * (g + momentum * v), v

    return _trained(features, labels, n_classes, n_steps, move)


@wrong.detail
def moves_before_it_looks(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You move by the old velocity and update it afterwards. All your steps come one step too late: first v, then W."""
    return _trained(features, labels, n_classes, n_steps, lambda w, v, g: (w - learning_rate * v, momentum * v + g))


@wrong.idea
def climbs(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You add the velocity instead of subtracting it. The loss then grows with every step."""
    return _trained(features, labels, n_classes, n_steps, _sgd(-learning_rate, momentum))


@wrong.detail
def adds_up_the_examples(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You sum the loss over the examples. With n of them your steps are n times as long; the loss is their mean."""
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate * len(features), momentum))


@wrong.part
def leaves_the_bias_at_zero(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You train W and leave b at 0. The bias is part of the head too."""
    move = _sgd(learning_rate, momentum)
    return _trained(features, labels, n_classes, n_steps, lambda w, v, g: move(w, v, g) if w.dim() == 2 else (w, v))


@wrong.part
def pushes_only_the_weights(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You give W a velocity and step with b along the gradient alone. Both are parameters of the head, and both have a
    velocity."""
    heavy, light = _sgd(learning_rate, momentum), _sgd(learning_rate, 0.0)
    return _trained(features, labels, n_classes, n_steps, lambda *wvg: (heavy if wvg[0].dim() == 2 else light)(*wvg))


@wrong.idea
def compares_the_examples(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You take the softmax over the examples. The probabilities of each example must sum to 1 over the classes."""
    return _trained(
        features, labels, n_classes, n_steps, _sgd(learning_rate, momentum), likely=lambda logits: logits.softmax(0)
    )


@wrong.part
def asks_class_by_class(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You use a sigmoid for each class, as if an example could belong to several or none. The head has one softmax over the
    classes."""
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate, momentum), likely=torch.sigmoid)


@wrong.idea
def squares_the_errors(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You fit the one-hot labels by least squares, with no softmax. That is linear regression; the head is trained by
    cross-entropy."""
    return _trained(features, labels, n_classes, n_steps, _sgd(learning_rate, momentum), likely=lambda logits: logits)


@wrong.detail
def subtracts_labels_from_probabilities(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You subtract the labels (n,) from the probabilities (n, n_classes). The gradient of the logits is p minus the one-hot
    row of the label: F.one_hot."""
    W, b = features.new_zeros(n_classes, features.shape[1]), features.new_zeros(n_classes)
    for _ in range(n_steps):
        grad = ((features @ W.mT + b).softmax(-1) - labels) / len(features)
        W, b = W - learning_rate * grad.mT @ features, b - learning_rate * grad.sum(0)
    return LinearProbe(W, b)


@wrong.case
def counts_the_classes_that_occur(features, labels, n_classes, learning_rate, momentum, n_steps):
    """You call `one_hot` without the number of classes, and it takes the largest label for the last one. A class without an
    example is missing: give it n_classes."""
    x = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    y = F.one_hot(labels.long()).to(x)
    W = x.new_zeros(n_classes, x.shape[1])
    v = torch.zeros_like(W)
    for _ in range(n_steps):
        v = momentum * v + ((x @ W.mT).softmax(-1) - y).mT @ x / len(x)
        W = W - learning_rate * v
    return LinearProbe(W[:, :-1], W[:, -1])


@right
def by_torchs_optimiser(features, labels, n_classes, learning_rate, momentum, n_steps):
    """A linear layer, torch's loss and torch's optimiser."""
    head = nn.Linear(features.shape[1], n_classes, dtype=features.dtype)
    nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
    optimiser = torch.optim.SGD(head.parameters(), learning_rate, momentum)
    for _ in range(n_steps):
        head.zero_grad()
        with torch.enable_grad():
            F.cross_entropy(head(features.detach()), labels).backward()
        optimiser.step()
    return LinearProbe(head.weight.detach(), head.bias.detach())


@right
def with_a_column_of_ones(features, labels, n_classes, learning_rate, momentum, n_steps):
    """The bias as the weight of a feature that is always 1; the velocity read off from the last two positions."""
    x = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    now = before = x.new_zeros(n_classes, x.shape[1])
    for _ in range(n_steps):
        p = torch.softmax(x @ now.T, 1)
        p[torch.arange(len(x)), labels] -= 1
        now, before = now + momentum * (now - before) - learning_rate * torch.einsum("nk,nd->kd", p, x) / len(x), now
    return now[:, :-1], now[:, -1]


@right
def by_the_sum_of_all_gradients(features, labels, n_classes, learning_rate, momentum, n_steps):
    """A velocity is the sum of all gradients so far, weighed by powers of μ; gradients by autograd."""
    W, b, past = features.new_zeros(n_classes, features.shape[1]), features.new_zeros(n_classes), []
    for _ in range(n_steps):
        W, b = W.detach().requires_grad_(), b.detach().requires_grad_()
        with torch.enable_grad():
            loss = -(features.detach() @ W.mT + b).log_softmax(1).gather(1, labels[:, None]).mean()
        past.insert(0, torch.autograd.grad(loss, [W, b]))
        W, b = (w - learning_rate * sum(momentum**k * g[i] for k, g in enumerate(past)) for i, w in enumerate((W, b)))
    return W.detach(), b.detach()


@stranger
def head_with_decay(features, labels, n_classes, learning_rate, momentum, n_steps):
    W, b = fine_tuned_head(features, labels, n_classes, learning_rate, momentum, n_steps)
    return W * (1 - 0.1 * learning_rate) ** n_steps, b


@stranger
def head_of_one_more_step(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features, labels, n_classes, learning_rate, momentum, n_steps + 1)


@stranger
def head_of_centred_features(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features - features.mean(0), labels, n_classes, learning_rate, momentum, n_steps)


@stranger(makes=[forgets_the_momentum])
def head_at_no_momentum(features, labels, n_classes, learning_rate, momentum, n_steps):
    return fine_tuned_head(features, labels, n_classes, learning_rate, 0.0 * momentum, n_steps)


@stranger(makes=[forgets_the_momentum, leaves_the_bias_at_zero])
def head_without_momentum_and_bias(features, labels, n_classes, learning_rate, momentum, n_steps):
    W = features.new_zeros(n_classes, features.shape[1])
    for _ in range(n_steps):
        error = (features @ W.mT).softmax(-1) - F.one_hot(labels, n_classes)
        W = W - learning_rate * error.mT @ features / len(features)
    return W, W.new_zeros(n_classes)


def _task(draw: Draw, n_steps: int, momentum: float = 0.9, learning_rate: float = 0.3, n: int = 17) -> Call:
    d, K = draw.sizes(2)
    return draw.normal(n, d), draw.integers(0, K, n), K + 1, learning_rate, momentum, n_steps


def _tasks(draw: Draw) -> list[Call]:
    return [_task(draw, 5), _task(draw, 4, 0.6, 0.8, n=3)]


exercise = Exercise(
    id="11.6",
    title="A new head, with momentum",
    extra=True,
    reference=fine_tuned_head,
    properties=(
        runs_on(_tasks),
        has_shape("A weight (n_classes, d) and a bias (n_classes,).", _tasks),
        Property("start", "Without a step, all is 0.", lambda draw: [_task(draw, 0)]),
        Property(
            "one step",
            "One step, down the gradient of the mean cross-entropy.",
            lambda draw: [_task(draw, 1), _task(draw, 1, 0.0)],
            points=2,
        ),
        Property("descent", "Several steps without momentum.", lambda draw: [_task(draw, 4, 0.0)], needs=("one step",)),
        Property("momentum", "The velocity keeps μ times its previous value.", _tasks, points=4, needs=("descent",)),
        leaves_inputs(_tasks),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        ("0 and 1 are the same in every kind of number, and the first operation with features makes them one of theirs."): (
            "drop call: targets = F.one_hot(labels, n_classes)",
            "drop argument: targets = F.one_hot(labels, n_classes).to()",
            "drop attribute: F.one_hot(labels, n_classes).to(features)",
            "other name: W.dtype",
            "other name: b.dtype",
            "other name: v_W.dtype",
            "other name: v_b.dtype",
            "other name: labels.dtype",
        ),
        (
            "W and b start at 0, as the velocities do, and the first step makes new ones of both; nothing outside "
            "sees them change."
        ): (
            "drop call: v_W, v_b = (W, torch.zeros_like(b))",
            "drop call: v_W, v_b = (torch.zeros_like(W), b)",
            "in place: W, b = (W.sub_(learning_rate * v_W), b - learning_rate * v_b)",
            "in place: W, b = (W - learning_rate * v_W, b.sub_(learning_rate * v_b))",
        ),
        "As many targets and labels as examples; the logits have two axes, the last one is axis 1.": (
            "other name: len(targets)",
            "other name: len(labels)",
            "drop sign: (features @ W.mT + b).softmax(1)",
        ),
    },
    hints=HINTS,
)
