"""ViT and MLP-Mixer against Hugging Face's ViT, torch's own encoder, and the Mixer as a convolutional network.

Training rows compute the loss and its gradients, on the same sizes, with exact GELU and without dropout. "as published
code" is the Mixer in the manner of lucidrains: convolutions of size 1 over the positions.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Row, compare, peer_from
from course_lib.blocks import MixerSizes, Sizes, channel_mixing_by_convolution, token_mixing, token_mixing_by_convolution
from course_lib.fast import fused_scaled_dot_product_attention, lean_token_mixing
from course_lib.models import Mixer, ViT
from course_lib.primitives import patchify


class Scale(NamedTuple):
    """Batch; channels, height and width of the images; side of a patch; width, heads and layers."""

    B: int
    image: tuple[int, int, int]
    P: int
    d: int
    n_heads: int
    n_layers: int

    def __str__(self) -> str:
        C, H, W = self.image
        return f"B {self.B}, {C} × {H} × {W}, P {self.P}, d {self.d}, {self.n_heads} heads, {self.n_layers} layers"


N_CLASSES = 10
COURSE = Scale(32, (1, 28, 28), 4, 64, 4, 4)
CIFAR = Scale(16, (3, 32, 32), 4, 192, 3, 6)
Calls = tuple[str, Callable[[], Tensor]]


def rows(rounds: int) -> Iterator[Row]:
    """Time patches, training steps of ViT, and training steps of the Mixer."""
    for scale in (COURSE, CIFAR):
        torch.manual_seed(0)
        yield _embedding(scale, rounds)
        for name, models in (("ViT", _vits), ("MLP-Mixer", _mixers)):
            ours, *peers = models(scale)
            for peer in peers:
                yield compare(f"{name}: training step", ours, peer, str(scale), rounds)


def _images(scale: Scale) -> Tensor:
    return torch.randn(scale.B, *scale.image, generator=torch.Generator().manual_seed(0))


def _labels(scale: Scale) -> Tensor:
    return torch.arange(scale.B) % N_CLASSES


def _embedding(scale: Scale, rounds: int) -> Row:
    images, layer = _images(scale), nn.Conv2d(scale.image[0], scale.d, scale.P, scale.P)
    W, b = layer.weight, layer.bias

    def ours() -> Tensor:
        return F.linear(patchify(images, scale.P), W.flatten(1), b)

    torch.testing.assert_close(ours(), layer(images).flatten(2).mT, atol=1e-5, rtol=1e-5)
    peer = "nn.Conv2d, stride P", lambda: layer(images).flatten(2).mT
    return compare("patch embedding", ("patchify, linear", ours), peer, str(scale), rounds)


def _vits(scale: Scale) -> Iterator[Calls]:
    images, labels, (B, image, P, d, n_heads, n_layers) = _images(scale), _labels(scale), scale
    sizes = Sizes(d, n_heads, 4 * d, n_layers)
    fused, plain = (ViT(N_CLASSES, image, P, sizes, *m) for m in ((fused_scaled_dot_product_attention,), ()))
    yield "fused", lambda: F.cross_entropy(fused(images), labels)
    yield "ours, equation", lambda: F.cross_entropy(plain(images), labels)
    layer = nn.TransformerEncoderLayer(d, n_heads, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, n_layers, nn.LayerNorm(d), enable_nested_tensor=False)
    stem, head = nn.Conv2d(image[0], d, P, P), nn.Linear(d, N_CLASSES)
    learned, positions = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.randn(1, len(plain.encoder.positions), d))

    def torchs() -> Tensor:
        tokens = torch.cat([learned.expand(B, -1, -1), stem(images).flatten(2).mT], dim=1)
        return F.cross_entropy(head(stack(tokens + positions)[:, 0]), labels)

    yield "torch.nn.TransformerEncoder", torchs
    if peer := peer_from("transformers", "ViTConfig", "ViTForImageClassification"):
        ViTConfig, ViTForImageClassification = peer
        config = ViTConfig(
            image_size=list(image[1:]),
            patch_size=P,
            num_channels=image[0],
            hidden_size=d,
            num_attention_heads=n_heads,
            intermediate_size=4 * d,
            num_hidden_layers=n_layers,
            num_labels=N_CLASSES,
            attn_implementation="sdpa",
        )
        theirs = ViTForImageClassification(config).train()
        yield "transformers ViTForImageClassification", lambda: F.cross_entropy(theirs(images).logits, labels)


def _mixers(scale: Scale) -> Iterator[Calls]:
    images, labels, (_, image, P, d, _, n_layers) = _images(scale), _labels(scale), scale
    sizes = MixerSizes(d, d // 2, 4 * d, n_layers)
    lean, plain = (Mixer(N_CLASSES, image, P, sizes, mix) for mix in (lean_token_mixing, token_mixing))
    lean.load_state_dict(plain.state_dict())
    yield "lean", lambda: F.cross_entropy(lean(images), labels)
    yield "ours, equation", lambda: F.cross_entropy(plain(images), labels)
    published = _as_published(plain)
    torch.testing.assert_close(published(images), lean(images))
    yield "as published code", lambda: F.cross_entropy(published(images), labels)
    yield "1 × 1 and full-size depth-wise convolutions", lambda: F.cross_entropy(_by_convolutions(plain, images), labels)


def _as_published(model: Mixer) -> Callable[[Tensor], Tensor]:
    """Return a Mixer whose token mixing is `nn.Conv1d` of size 1 on (B, N, d), with separate weight tensors."""
    layers = []
    for block in model.stack.blocks:
        mixer = block.mixer
        pair = [nn.Conv1d(part.in_features, part.out_features, 1) for part in (mixer.W_1, mixer.W_2)]
        for convolution, part in zip(pair, (mixer.W_1, mixer.W_2), strict=True):
            convolution.load_state_dict({"weight": part.weight[..., None], "bias": part.bias})
        layers.append((block.norm_1, nn.Sequential(pair[0], nn.GELU(), pair[1]), block.norm_2, block.feed_forward))

    def call(images: Tensor) -> Tensor:
        x = model.project(patchify(images, model.P))
        for norm_1, tokens, norm_2, channels in layers:
            x = x + tokens(norm_1(x))
            x = x + channels(norm_2(x))
        return model.head(model.stack.closing(x).mean(1))

    return call


def _by_convolutions(model: Mixer, images: Tensor) -> Tensor:
    d, P = model.project.out_features, model.P
    x = F.conv2d(images, model.project.weight.view(d, -1, P, P), model.project.bias, stride=P)

    def normed(norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x.movedim(1, -1)).movedim(-1, 1)

    for block in model.stack.blocks:
        mixer, network = block.mixer, block.feed_forward
        weights = (mixer.W_1.weight, mixer.W_1.bias, mixer.W_2.weight, mixer.W_2.bias)
        x = x + token_mixing_by_convolution(normed(block.norm_1, x), *weights)
        weights = (network.W_1.weight, network.W_1.bias, network.W_2.weight, network.W_2.bias)
        x = x + channel_mixing_by_convolution(normed(block.norm_2, x), *weights)
    return model.head(normed(model.stack.closing, x).mean((-2, -1)))
