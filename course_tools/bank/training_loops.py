"""How submissions of build tasks train a model: the sound loop, and the mistakes that any loop can hold."""

from functools import partial

import torch
import torch.nn.functional as F


def drawn(text, ahead=1, batch_size=8, context=32):
    """Draw a batch: tokens (B, context), and the tokens so many positions after them."""
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


def drawn_images(data, batch_size=32):
    """Draw a batch of (images, labels)."""
    images, labels = data
    which = torch.randint(len(labels), (batch_size,))
    return images[which], labels[which]


def looped(model, data, n_steps, lr=1e-2, batch=drawn):
    """Train a model in the usual way, and return it."""
    return _trained(model, model, data, n_steps, lr, batch)


def without_clearing(model, data, n_steps, lr=3e-3, batch=drawn):
    """Train a model whose gradients are never cleared, and return it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(n_steps):
        inputs, targets = batch(data)
        F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten()).backward()
        optimizer.step()
    return model.eval()


def on_one_batch(model, data, n_steps, batch=drawn):
    """Train a model on the same batch in every update, and return it."""
    first = batch(data)
    return looped(model, data, n_steps, batch=lambda data: first)


def with_the_optimizer_of(other, model, data, n_steps, lr=1e-2, batch=drawn):
    """Run the loop for a model while the optimizer holds the weights of another one, and return the model."""
    return _trained(model, other, data, n_steps, lr, batch)


def _trained(model, optimized, data, n_steps, lr, batch):
    optimizer = torch.optim.Adam(optimized.parameters(), lr=lr)
    for _ in range(n_steps):
        inputs, targets = batch(data)
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
