"""DETR: equal to the published model weight for weight; queries are a set; and images of every shape."""

import re
from functools import partial

import pytest
import torch
from torch import nn

from course_lib.analysis import record
from course_lib.attention import GeneralAttention
from course_lib.blocks import ConvNet, Sizes
from course_lib.models import DETR, ObjectBlock, object_block, sinusoidal_positions_2d
from course_lib.primitives import sinusoidal_points

SIZES = Sizes(d_model=24, n_heads=3, d_ff=40, n_layers=2)
N, K = 5, 4
REASON = "transformers is not installed: pip install -e '.[peers]'"


def picture(*size, seed=0):
    return torch.rand(*size, generator=torch.Generator().manual_seed(seed))


def model(**settings):
    torch.manual_seed(0)
    backbone = ConvNet(1, (7, 11), (2, 2))
    return DETR(backbone, 11, K, N, SIZES, **settings).eval()


@pytest.mark.parametrize(("H", "W"), [(16, 16), (13, 29), (1, 1), (1, 40)])
def test_pictures_of_every_shape(H, W):
    said = model()(picture(3, 1, H, W))
    assert said.logits.shape == (SIZES.n_layers, 3, N, K + 1)
    assert said.boxes.shape == (SIZES.n_layers, 3, N, 4)
    assert ((said.boxes > 0) & (said.boxes < 1)).all()


def test_queries_are_a_set():
    """In another order, each query predicts the same."""
    net, order = model(), torch.tensor([3, 0, 4, 1, 2])
    before = net(picture(2, 1, 16, 20))
    with torch.no_grad():
        net.queries.copy_(net.queries[order].clone())
    after = net(picture(2, 1, 16, 20))
    torch.testing.assert_close(after.logits, before.logits[:, :, order])
    torch.testing.assert_close(after.boxes, before.boxes[:, :, order])


def test_the_block_is_the_same_with_its_weights_passed_in():
    torch.manual_seed(0)
    block = ObjectBlock(SIZES)
    attentions = block.mixer.attention, block.cross
    for each in attentions:
        for part in "qkvo":
            nn.init.zeros_(getattr(each, f"W_{part}").bias)
    own, cross = (tuple(getattr(each, f"W_{part}").weight for part in "qkvo") for each in attentions)
    norms = tuple((norm.weight, norm.bias) for norm in (block.norm_1, block.norm_2, block.norm_3))
    x, queries, cells, positions = torch.randn(2, N, 24), torch.randn(N, 24), torch.randn(2, 7, 24), torch.randn(7, 24)
    said = object_block(x, queries, cells, positions, own, cross, tuple(block.feed_forward.parameters()), norms, 3)
    torch.testing.assert_close(said, block(x, queries, cells, positions))


def test_without_places_the_cells_are_a_set_too():
    """The negative control: with positions, the same exchange of two cells changes the predictions."""
    features = picture(2, SIZES.d_model, 3, 4)
    turned = features.flatten(2)[..., torch.tensor([11, *range(1, 11), 0])].view_as(features)
    blind = model(positions=lambda h, w, d, device: torch.zeros(h * w, d, device=device))
    torch.testing.assert_close(blind.decode(turned).boxes, blind.decode(features).boxes, atol=1e-5, rtol=0)
    assert (model().decode(turned).boxes - model().decode(features).boxes).abs().max() > 3e-4


def test_queries_that_are_alike_say_the_same():
    """x starts at 0: queries differ only in the learned vector."""
    net = model()
    with torch.no_grad():
        net.queries[1] = net.queries[3]
    said = net(picture(2, 1, 16, 16))
    torch.testing.assert_close(said.logits[:, :, 1], said.logits[:, :, 3])
    assert (said.logits[-1, :, 0] - said.logits[-1, :, 3]).abs().max() > 1e-3


def test_places_stand_row_after_row():
    places = sinusoidal_positions_2d(2, 3, 8)
    torch.testing.assert_close(places[4], sinusoidal_points(torch.tensor([1.5 / 3, 1.5 / 2]), 8))


def test_every_weight_learns():
    net = model()
    said = net(picture(2, 1, 16, 16))
    (said.logits.square().mean() + said.boxes.square().mean()).backward()
    silent = {name for name, weight in net.named_parameters() if weight.grad is None or weight.grad.eq(0).all()}
    # a bias of the keys adds the same to all scores of a query; x = 0 makes the values of the first layer's queries equal
    assert {name for name in silent if not re.search(r"W_k\.bias|decoder\.0\.mixer\.attention\.W_[qk]", name)} <= {
        "decoder.0.mixer.attention.W_v.weight"
    }


def test_each_attention_owns_its_mechanism():
    """One in each layer of the encoder, two in each of the decoder, and none of them is the one that was passed."""
    given = GeneralAttention(8, 8)
    net = model(mechanism=given)
    owned = [part for part in net.modules() if isinstance(part, GeneralAttention)]
    assert len(owned) == 3 * SIZES.n_layers
    assert given not in owned
    assert len({parameter.data_ptr() for part in owned for parameter in part.parameters()}) == len(owned)


def test_what_its_attention_sees_can_be_recorded():
    net = model()
    with record(net) as seen, torch.no_grad():
        net(picture(2, 1, 16, 20))
    shapes = {name: attended[0].weights.shape[-2:] for name, attended in seen.items()}
    assert [shape for name, shape in shapes.items() if name.endswith("cross")] == [(N, 20)] * SIZES.n_layers


def published():
    """Hugging Face's DETR, tiny, with its own small ResNet and random weights."""
    transformers = pytest.importorskip("transformers", reason=REASON)
    small = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "layer_type": "basic"}
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone_config=small,
        d_model=SIZES.d_model,
        encoder_layers=SIZES.n_layers,
        decoder_layers=SIZES.n_layers,
        encoder_attention_heads=SIZES.n_heads,
        decoder_attention_heads=SIZES.n_heads,
        encoder_ffn_dim=SIZES.d_ff,
        decoder_ffn_dim=SIZES.d_ff,
        num_queries=N,
        num_labels=K,
        attn_implementation="eager",
    )
    torch.manual_seed(1)
    theirs = transformers.DetrForObjectDetection(config).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "backbone" not in name:
                weight.copy_(0.4 * torch.randn(weight.shape))
    return theirs


class TheirBackbone(nn.Module):
    """Images → the last feature map, as in their model."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, pictures):
        everywhere = torch.ones(len(pictures), *pictures.shape[-2:], dtype=torch.long)
        return self.backbone(pictures, everywhere)[-1][0]


RENAMED = (
    (r"^model\.(?=encoder|decoder)", ""),
    (r"^model\.query_position_embeddings\.weight", "queries"),
    (r"^model\.input_projection\.", "project."),
    (r"^decoder\.layernorm\.", "closing."),
    (r"(?<=coder\.)layers\.", ""),
    (r"(?<=\d\.)self_attn\.([qkvo])_proj", r"mixer.attention.W_\1"),
    (r"(?<=\d\.)encoder_attn\.([qkvo])_proj", r"cross.W_\1"),
    (r"mlp\.fc", "feed_forward.W_"),
    (r"(?<=\d\.)self_attn_layer_norm", "norm_1"),
    (r"^(encoder\.\d\.)final_layer_norm", r"\1norm_2"),
    (r"encoder_attn_layer_norm", "norm_2"),
    (r"^(decoder\.\d\.)final_layer_norm", r"\1norm_3"),
    (r"^class_labels_classifier", "classify"),
    (r"^bbox_predictor\.layers\.0", "box.0"),
    (r"^bbox_predictor\.layers\.1", "box.2"),
    (r"^bbox_predictor\.layers\.2", "box.4"),
)


def their_places(h, w, d_model, device):
    """Cells are counted from 1, and the last one is at a full turn."""
    y, x = ((torch.arange(n, device=device) + 1) / (n + 1e-6) for n in (h, w))
    return sinusoidal_points(torch.cartesian_prod(y, x).flip(-1), d_model)


@pytest.mark.parametrize("size", [(32, 32), (24, 48)])
def test_detr_is_the_published_detr(size):
    theirs = published()
    d_backbone = theirs.model.input_projection.in_channels
    ours = DETR(TheirBackbone(theirs.model.backbone), d_backbone, K, N, SIZES, positions=their_places).eval()
    weights = {}
    for name, tensor in theirs.state_dict().items():
        if "backbone" not in name:
            for pattern, new in RENAMED:
                name = re.sub(pattern, new, name)
            weights[name] = tensor
    missing, unexpected = ours.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.startswith("backbone.") for name in missing)
    pictures = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2))
    close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)
    with torch.no_grad(), record(ours) as seen:
        said = ours(pictures)
        expected = theirs(pictures, output_attentions=True)
    close(said.logits[-1], expected.logits)
    close(said.boxes[-1], expected.pred_boxes)
    for i, weights in enumerate(expected.cross_attentions):
        close(seen[f"decoder.{i}.cross"][0].weights, weights)
