"""Training loops of submissions to build tasks: the sound loop, and the mistakes that any loop can contain."""

from functools import partial

import torch
import torch.nn.functional as F


def drawn(text, ahead=1, batch_size=8, context=32):
    """Draw a batch: tokens (B, context), and the tokens `ahead` positions after them."""
    windows = text[torch.randint(len(text) - context - ahead, (batch_size, 1)) + torch.arange(context + ahead)]
    return windows[:, :context], windows[:, ahead:]


next_but_one = partial(drawn, ahead=2)
"""Draw a batch whose targets are shifted twice."""


def not_shifted(text):
    """Draw a batch whose targets are its inputs."""
    tokens, _ = drawn(text)
    return tokens, tokens


def shifted_back(text):
    """Draw a batch whose targets are the tokens before its inputs."""
    tokens, following = drawn(text)
    return following, tokens


def drawn_examples(data, batch_size=32):
    """Draw a batch of examples and their labels."""
    examples, labels = data
    which = torch.randint(len(labels), (batch_size,))
    return examples[which], labels[which]


def in_given_order(data, batch_size=32):
    """Yield batches of examples and their labels in the given order, repeatedly."""
    while True:
        yield from zip(*(part.split(batch_size) for part in data), strict=True)


def updates(weights, n_updates, loss, lr=1e-2, clears=True, schedule=None):
    """Update weights by Adam, each time with the gradient of the scalar that `loss()` returns for a new batch.

    Args:
        weights: an iterable of parameters.
        n_updates: the number of updates.
        loss: a function without arguments that draws a batch and returns its loss, ().
        lr: the learning rate.
        clears: False is the mistake of never clearing the gradients.
        schedule: makes a learning-rate scheduler for the optimizer; it steps after each update.
    """
    optimizer = torch.optim.Adam(weights, lr=lr)
    scheduler = schedule and schedule(optimizer)
    for _ in range(n_updates):
        value = loss()
        if clears:
            optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def cross_entropy(logits, targets):
    """The mean cross-entropy of logits (..., n) with targets (...), over all positions."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def looped(model, data, n_steps, lr=1e-2, batch=drawn, loss_of=cross_entropy, optimized=None, **how):
    """Train a model in the usual way, or with one mistake, and return it.

    Args:
        model: the module to train, which is called with the inputs of a batch.
        data: the data from which batches are drawn.
        n_steps: the number of updates.
        lr: the learning rate of Adam.
        batch: draws inputs and targets from the data.
        loss_of: the loss of the model's results and the targets.
        optimized: the module whose weights the optimizer holds; None = the model.
        how: `clears` and `schedule` of `updates`.
    """

    def loss():
        inputs, targets = batch(data)
        return loss_of(model(inputs), targets)

    updates((optimized or model).parameters(), n_steps, loss, lr, **how)
    return model.eval()


def without_clearing(model, data, n_steps, lr=3e-3, batch=drawn):
    """Train a model without ever clearing its gradients, and return it."""
    return looped(model, data, n_steps, lr, batch, clears=False)


def on_one_batch(model, data, n_steps, batch=drawn):
    """Train a model on the same batch in every update, and return it."""
    first = batch(data)
    return looped(model, data, n_steps, batch=lambda data: first)


def with_the_optimizer_of(other, model, data, n_steps, batch=drawn):
    """Run the loop for a model while the optimizer holds the weights of another model, and return the former."""
    return looped(model, data, n_steps, batch=batch, optimized=other)
