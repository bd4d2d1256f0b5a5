"""Captions of two digits, and of pages of four: is attention worth more than one vector, or than looks in a fixed order?

Rivals, all with the same decoder: it reads a weighted mean of the regions before each word (attention); for two digits their
plain mean; one vector made by hand for the task, the means of feature and position for two digits, the largest value of each
feature in each sixth for a page; for a page also its quarters, one before each word, in a fixed order. The decoder is the
library's *Show, Attend and Tell*, a relative of the lecture's. Each seed has images, encoder and batches of its own.

Budget: 1,200 updates with 32 images each; the lecture has 900 for two digits and 600 for pages; three seeds. About 3 minutes on
one CPU thread. On a GPU: the same settings.
"""

from functools import cache

import torch
from torch import nn

from course_lib.datasets import BEGIN, PADDING
from course_lib.losses import teacher_forced_loss
from course_lib.models import ShowAttendAndTell
from course_lib.training import batches, train
from course_tools.lectures.lecture_03 import captions

UPDATES, LOOKS, WORDS = 1_200, (150, 300, 600, 900, 1_200), 6
SETTINGS = {
    "two digits: attention": ("two", None),
    "two digits: mean of the regions": ("two", lambda regions: regions.mean(1, keepdim=True)),
    "two digits: vector made by hand": ("two", captions.position_weighted_means),
    "pages: attention": ("page", None),
    "pages: largest of each sixth": ("page", captions.largest_by_sixth),
    "pages: quarters in a fixed order": ("page", captions.quarters),
}
TOLERANCE = {"exact match": 0.1, "names both": 0.1, "classifier names both": 0.05, "two and two": 0.15, "curve": 0.2}


@cache
def task_of(kind, seed):
    task = captions.caption_task(seed=seed)
    return task if kind == "two" else captions.page_task(task, seed=seed)


def run(setting, seed, device):
    """Train one captioner; exact match on new images, through training and at the end."""
    kind, made = setting
    task, ordered = task_of(kind, seed), made is captions.quarters
    seen, new = task.regions, task.new_regions
    if made is not None:
        seen, new = made(seen), made(new)
        if seen.ndim == 2:  # one vector for each image
            seen, new = (vectors[:, None] for vectors in captions.standardised(seen, new))
    torch.manual_seed(seed)
    model = ShowAttendAndTell(len(task.words), seen.shape[-1], 24, 64, 32).to(device)
    nn.init.normal_(model.attention.v, std=32**-0.5)  # as the lecture's

    def step(model, seen, t, words, state):
        return model(seen[:, min(t, 3) : min(t, 3) + 1] if ordered else seen, words[:, None], state)

    def loss(model, batch):
        (seen, words), logits = batch, []
        state = model.initial_state(seen)
        for t, word in enumerate(words.unbind(1)):
            said, _, state = step(model, seen, t, word, state)
            logits.append(said)
        return teacher_forced_loss(torch.cat(logits, 1), words, PADDING)

    @torch.no_grad()
    def written():
        model.eval()
        state, word, words = model.initial_state(new.to(device)), torch.full((len(new),), BEGIN, device=device), []
        for t in range(WORDS):
            said, _, state = step(model, new.to(device), t, word, state)
            word = said[:, 0].argmax(-1)
            words.append(word)
        model.train()
        return [task.words.decode(row) for row in torch.stack(words, 1).tolist()]

    stream, curve = batches(seen.to(device), task.captions.to(device), batch_size=32, seed=seed), {}
    for done in train(model, stream, loss, steps=UPDATES, lr=6e-3):
        if done.index + 1 in LOOKS:
            texts = written()
            curve[done.index + 1] = task.exact_match(texts)
    if kind == "two":
        scores = {"names both": task.names_both(texts), "classifier names both": captions.classifier_names_both(task)}
    else:
        scores = {"two and two": captions.two_and_two(task, texts)}
    return {"exact match": curve[UPDATES], **scores, "curve": curve}


def figure(study):
    """Exact match by seed: a column for each model that reads pages."""
    from course_tools.notebook import plots

    pages = {name.removeprefix("pages: "): study.scores(name, "exact match") for name in study.names if name[:5] == "pages"}
    drawn = plots.seeds(pages, "exact match", f"pages of four digits, {UPDATES:,} updates, one point per training")
    drawn.axes[0].set_ylim(0, 1)
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in pages.items())
    return drawn, f"Exact match of the captions of new pages after {UPDATES:,} updates, by seed: {each}."


def finding(study):
    """Exact match at the end, by seed."""
    each = (f"{name} {', '.join(f'{x:.2f}' for x in study.scores(name, 'exact match'))}" for name in study.names)
    return f"Exact match after {UPDATES:,} updates, by seed: {'; '.join(each)}."
