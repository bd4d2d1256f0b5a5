"""Every loss, every metric of tensors, and the preparation of batches: pairs, masks, matching."""

import pytest
import torch

from course_lib import fast, metrics
from course_lib import losses as L
from course_lib.training import batches, train
from tests.pretend_gpu.ran import never_ran
from tests.public_names import public_names

B, T, N, M, C, d = 3, 5, 7, 2, 4, 6
GENERATOR = torch.Generator().manual_seed(0)
WORDS = torch.randint(3, N, (B, T), generator=GENERATOR)
CHOSEN = torch.rand(B, T, generator=GENERATOR) < 0.6
LABELS = torch.randint(C, (B,), generator=GENERATOR)
CLASSES = torch.tensor([[0, 1], [2, -1], [-1, -1]])
BOXES = 0.2 + 0.3 * torch.rand(B, M, 4, generator=GENERATOR)


def real(*shape):
    return torch.randn(*shape, generator=GENERATOR).requires_grad_()


def predicted(*shape):
    return (0.2 + 0.3 * torch.rand(*shape, 4, generator=GENERATOR)).requires_grad_()


LOSSES = {
    "NT-Xent": (lambda a, b: L.nt_xent(a, b, 0.5), real(B, d), real(B, d)),
    "lean NT-Xent": (lambda a, b: fast.lean_nt_xent(a, b, 0.5), real(B, d), real(B, d)),
    "CLIP": (lambda a, b: L.clip_loss(a, b, 0.5), real(B, d), real(B, d)),
    "BYOL": (L.byol_loss, real(B, d), real(B, d).detach()),
    "teacher forcing": (lambda x, y: L.teacher_forced_loss(x, y, 0), real(B, T, N), WORDS),
    "smoothed labels": (lambda x, y: L.label_smoothed_loss(x, y, 0), real(B, T, N), WORDS),
    "next token": (L.next_token_loss, real(B, T, N), WORDS),
    "next token, some": (L.next_token_loss, real(B, T, N), WORDS, CHOSEN),
    "masked words": (L.mlm_loss, real(B, T, N), WORDS, CHOSEN),
    "distillation": (lambda s, t, y: L.distillation_loss(s, t, y, 2.0, 0.5), real(B, C), real(B, C).detach(), LABELS),
    "hard attention": (
        lambda p, w, y: L.hard_attention_loss(p, w.softmax(-1), y, 0.5, 0.1),
        real(B),
        real(B, T, N),
        WORDS,
    ),
    "set": (
        lambda x, b, c, t: L.set_loss(x, b, c, t, L.match_in_order(x.new_zeros(B, N, M), c)),
        real(B, N, C),
        predicted(B, N),
        CLASSES,
        BOXES,
    ),
    "deep set": (L.deep_set_loss, real(2, B, N, C), predicted(2, B, N), CLASSES, BOXES),
    "deep set, greedy": (
        lambda *x: L.deep_set_loss(*x, matching=L.match_greedily),
        real(2, B, N, C),
        predicted(2, B, N),
        CLASSES,
        BOXES,
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss(name, same_there):
    form, *inputs = LOSSES[name]
    same_there(form, *inputs)


def test_masked_words_are_the_same_on_every_device(same_there):
    """They are drawn on the CPU, regardless of the device of the words."""
    same_there(lambda x, may: L.mask_tokens(x, may, 1, N, torch.Generator().manual_seed(2)), WORDS, CHOSEN)


def test_inputs_of_bert(same_there):
    same_there(lambda a, b: L.segment_input(a, b, 1, 2), WORDS[0], WORDS[1])
    document = torch.tensor([0, 0, 0, 1, 1])
    same_there(L.nsp_pairs, document, torch.tensor([0.2, 0.8, 0.4]), torch.tensor([0.1, 0.5, 0.9]))


def test_a_model_is_trained_from_batches(device):
    """With the fused Adam, clipping and a shuffled stream of the device's tensors."""
    torch.manual_seed(0)
    model = torch.nn.Linear(d, C).to(device)
    x, y = real(20, d).detach().to(device), torch.arange(20, device=device) % C

    def loss(model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1]), {"rows": len(batch[0])}

    before = loss(model, (x, y))[0].item()
    steps = list(train(model, batches(x, y, batch_size=8, seed=0), loss, steps=6, lr=0.1, warmup=2))
    assert len(steps) == 6
    assert loss(model, (x, y))[0].item() < before
    assert model.weight.device.type == device.type


OF_OBJECTS = torch.rand(B, N, C, generator=GENERATOR), predicted(B, N).detach(), CLASSES, BOXES
METRICS = {
    "IoU of each class": (lambda a, b: metrics.class_ious(a, b, N), WORDS, WORDS.flip(0)),
    "mean IoU": (lambda a, b: metrics.mean_iou(a, b, N), WORDS, WORDS.flip(0)),
    "average precision": (
        lambda s, hits: metrics.average_precision(s, hits, 4),
        torch.rand(5),
        torch.tensor([True, False] * 2 + [True]),
    ),
    "mean average precision": (metrics.mean_average_precision, *OF_OBJECTS),
    "spectrum": (metrics.spectrum, real(20, d).detach()),
    "linear probe": (
        lambda x, y: metrics.linear_probe(x, y, C, 0.1),
        real(20, d).detach(),
        torch.arange(20) % C,
    ),
    "fine-tuned head": (
        lambda x, y: metrics.fine_tuned_head(x, y, C, 0.1, 0.9, 3),
        real(20, d).detach(),
        torch.arange(20) % C,
    ),
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric(name, same_there):
    form, *inputs = METRICS[name]
    same_there(form, *inputs)


def test_every_public_loss_ran_here():
    """Processes exchange tensors by NCCL on CUDA, and there is no such backend for this device."""
    assert never_ran(L) == set()
    assert never_ran(fast.nt_xent) == {"gathered_nt_xent"}


def test_every_public_metric_of_tensors_ran_here():
    """The others count parameters, operations and bytes from sizes, or compare words."""
    counts = {name for name in public_names(metrics) if name.endswith(("_parameters", "_cost", "_operations", "_bytes"))}
    assert never_ran(metrics) - counts == {"bleu"}
