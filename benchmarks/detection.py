"""DETR: its matcher against the published one, which compares all queries of a batch with all objects, and a training step."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from benchmarks.timing import Row, compare, peer_from
from course_lib.blocks import Sizes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import deep_set_loss, match, matching_cost
from course_lib.models import DETR

BATCHES = (8, 32)
N_CLASSES, N_QUERIES, MOST = 91, 100, 20
SIZES = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
SMALL = {"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}


def rows(rounds: int) -> Iterator[Row]:
    """Time the matcher on DETR's own sizes, 100 queries and 91 classes, then a training step on small images."""
    if peer := peer_from("transformers.loss.loss_for_object_detection", "HungarianMatcher"):
        for B in BATCHES:
            scale = f"B {B}, {N_QUERIES} queries, {N_CLASSES} classes, 1 to {MOST} objects"
            yield compare("DETR: matcher", *_matchers(B, *peer), scale, rounds, trains=False)
    if peer := peer_from("transformers", "DetrConfig", "DetrForObjectDetection"):
        scale = f"B 16, 64 × 64 pixels, 10 queries, d {SIZES.d_model}"
        yield compare("DETR: training step", *_training(*peer), scale, rounds)


def _objects(B: int, n_classes: int, most: int) -> tuple[Tensor, Tensor]:
    """Draw classes, -1 after the last object of an image, and random boxes."""
    counts = torch.randint(1, most + 1, (B, 1))
    classes = torch.randint(n_classes, (B, most)).masked_fill(torch.arange(most) >= counts, -1)
    return classes, torch.rand(B, most, 4) * 0.4 + 0.1


def _as_lists(classes: Tensor, boxes: Tensor) -> list[dict[str, Tensor]]:
    return [{"class_labels": c[c >= 0], "boxes": b[c >= 0]} for c, b in zip(classes, boxes, strict=True)]


def _matchers(B: int, HungarianMatcher: type) -> tuple[tuple[str, Callable], tuple[str, Callable]]:
    torch.manual_seed(0)
    logits, boxes = torch.randn(B, N_QUERIES, N_CLASSES + 1), torch.rand(B, N_QUERIES, 4) * 0.4 + 0.1
    classes, targets = _objects(B, N_CLASSES, MOST)
    matcher = HungarianMatcher(class_cost=1, bbox_cost=5, giou_cost=2)
    predicted, objects = {"logits": logits, "pred_boxes": boxes}, _as_lists(classes, targets)
    return (
        ("a cost matrix for each image", lambda: match(matching_cost(logits, boxes, classes, targets), classes)),
        ("all against all (Hugging Face, as published)", lambda: matcher(predicted, objects)),
    )


class _Features(nn.Module):
    """The last map of Hugging Face's backbone, so that both models compute the same."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pictures: Tensor) -> Tensor:
        return self.backbone(pictures, torch.ones(len(pictures), *pictures.shape[-2:], dtype=torch.long))[-1][0]


def _training(DetrConfig: type, DetrForObjectDetection: type) -> tuple[tuple[str, Callable], tuple[str, Callable]]:
    torch.manual_seed(0)
    config = DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone_config=SMALL,
        d_model=SIZES.d_model,
        encoder_layers=SIZES.n_layers,
        decoder_layers=SIZES.n_layers,
        encoder_attention_heads=SIZES.n_heads,
        decoder_attention_heads=SIZES.n_heads,
        encoder_ffn_dim=SIZES.d_ff,
        decoder_ffn_dim=SIZES.d_ff,
        num_queries=10,
        num_labels=10,
        dropout=0.0,
        auxiliary_loss=True,
    )
    peer = DetrForObjectDetection(config)
    backbone = _Features(peer.model.backbone)
    ours = DETR(backbone, SMALL["hidden_sizes"][-1], 10, 10, SIZES, fused_scaled_dot_product_attention)
    pictures = torch.rand(16, 3, 64, 64)
    classes, targets = _objects(16, 10, 3)
    labels = _as_lists(classes, targets)
    return (
        ("ours", lambda: deep_set_loss(*ours(pictures), classes, targets)),
        ("Hugging Face", lambda: peer(pictures, labels=labels).loss),
    )
