"""BERT's laws: bidirectional, no attention to padding, order and sentence only from embeddings, one shared matrix."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.analysis import record
from course_lib.attention import scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import mlm_loss
from course_lib.models import BERT, PretrainingBERT

B, T, N, T_MAX = 3, 7, 13, 11
SIZES = Sizes(d_model=6, n_heads=3, d_ff=17, n_layers=2)
TOKENS = torch.randint(N, (B, T), generator=torch.Generator().manual_seed(0))
SEGMENTS = (torch.arange(T) > 3).long().expand(B, T)
LENGTHS = torch.tensor([7, 4, 1])
REAL = torch.arange(T) < LENGTHS[:, None]


def model(mechanism=scaled_dot_product_attention):
    """With weights far wider than at the start, so that positions and segments count."""
    torch.manual_seed(0)
    bert = PretrainingBERT(BERT(N, T_MAX, SIZES, mechanism)).double()
    with torch.no_grad():
        for parameter in bert.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return bert


def test_every_place_sees_every_real_token_and_no_padding():
    bert, kept = model().bert, []
    bert.tokens.register_forward_hook(lambda _m, _i, out: kept.append(out))
    states = bert(TOKENS, SEGMENTS, LENGTHS)
    for t in range(T):
        (gradient,) = torch.autograd.grad(states[:, t][REAL[:, t]].square().sum(), kept[0], retain_graph=True)
        seen = (gradient != 0).any(-1)
        assert torch.equal(seen, REAL & REAL[:, t : t + 1])


def test_a_sequence_alone_is_read_as_in_a_padded_batch():
    bert = model()
    words, follows = bert(TOKENS, SEGMENTS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = bert(TOKENS[row : row + 1, :length], SEGMENTS[row : row + 1, :length])
        torch.testing.assert_close(alone.words[0], words[row, :length])
        torch.testing.assert_close(alone.follows[0], follows[row])


def test_without_positions_it_is_equivariant_and_with_them_it_is_not():
    bert, order = model().bert, torch.tensor([3, 0, 5, 1, 6, 4, 2])
    assert (bert(TOKENS[:, order]) - bert(TOKENS)[:, order]).abs().max() > 1e-3
    bert.positions.vectors.data.zero_()
    torch.testing.assert_close(bert(TOKENS[:, order]), bert(TOKENS)[:, order])


def test_only_its_embedding_tells_one_segment_from_another():
    bert = model().bert
    assert (bert(TOKENS, SEGMENTS) - bert(TOKENS)).abs().max() > 1e-3
    bert.segments.weight.data[1] = bert.segments.weight.data[0]
    torch.testing.assert_close(bert(TOKENS, SEGMENTS), bert(TOKENS))


def test_the_three_embeddings_add_up_and_are_normalised():
    """By hand, before the first block."""
    bert, kept = model().bert, []
    bert.norm.register_forward_hook(lambda _m, _i, out: kept.append(out))
    bert(TOKENS, SEGMENTS)
    total = bert.tokens.weight[TOKENS[1, 5]] + bert.segments.weight[1] + bert.positions.vectors[5]
    centred = total - total.mean()
    expected = centred / centred.square().mean().sqrt() * bert.norm.weight + bert.norm.bias
    torch.testing.assert_close(kept[0][1, 5], expected)


def test_the_fused_form_has_the_outputs_and_gradients_of_the_equations():
    results = []
    for mechanism in (scaled_dot_product_attention, fused_scaled_dot_product_attention):
        bert = model(mechanism)
        words, follows = bert(TOKENS, SEGMENTS, LENGTHS)
        loss = mlm_loss(words, TOKENS, REAL) + follows.square().sum()
        results.append((words[REAL], follows, *torch.autograd.grad(loss, list(bert.parameters()))))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_head_for_words_uses_the_embedding_itself():
    bert = model()
    assert sum(p.shape == (N, SIZES.d_model) for p in bert.parameters()) == 1
    unread = next(n for n in range(N) if n not in TOKENS)
    bert(TOKENS).words[..., unread].sum().backward()
    assert bert.bert.tokens.weight.grad[unread].any()


def test_words_at_the_chosen_positions_alone_have_the_loss_and_gradients_of_all():
    bert, chosen = model(), REAL & (TOKENS % 3 == 0)
    assert 0 < chosen.sum() < chosen.numel()
    words, follows = bert(TOKENS, SEGMENTS, LENGTHS, chosen)
    at_all = bert(TOKENS, SEGMENTS, LENGTHS)
    torch.testing.assert_close(words, at_all.words[chosen])
    torch.testing.assert_close(follows, at_all.follows)
    losses = F.cross_entropy(words, TOKENS[chosen]), mlm_loss(at_all.words, TOKENS, chosen)
    parts = [*bert.bert.parameters(), *bert.words.parameters()]
    for alone, exact in zip(*(torch.autograd.grad(loss, parts) for loss in losses), strict=True):
        torch.testing.assert_close(alone, exact)


def test_every_attention_can_be_recorded():
    bert = model()
    with record(bert) as seen:
        bert(TOKENS, SEGMENTS, LENGTHS)
    weights = [attended[0].weights for attended in seen.values()]
    assert [w.shape for w in weights] == [(B, 3, T, T)] * 2
    assert (weights[0][2, :, :, 1:] == 0).all()


@pytest.mark.parametrize(("d_model", "std"), [(768, 0.02), (192, 0.04)])
def test_weights_start_as_published_at_the_width_of_the_paper(d_model, std):
    """Four times narrower, twice as large."""
    torch.manual_seed(0)
    bert = PretrainingBERT(BERT(1000, 64, Sizes(d_model, 4, 256, 1)))
    for name, weights in bert.named_parameters():
        if weights.dim() == 2 and len(weights) > 2:
            assert weights.std().item() == pytest.approx(std, rel=0.07), name
        elif name.endswith("bias"):
            assert not weights.any(), name


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    tiny = PretrainingBERT(BERT(5, 4, Sizes(4, 2, 3, 1))).double()
    names, parameters = zip(*tiny.named_parameters(), strict=True)
    scaled = [torch.nn.Parameter(p.detach() * 10) for p in parameters]

    def outputs(*given):
        inputs = (TOKENS[:2, :3] % 5, SEGMENTS[:2, 3:6], torch.tensor([3, 3]))
        return tuple(torch.func.functional_call(tiny, dict(zip(names, given, strict=True)), inputs))

    assert torch.autograd.gradcheck(outputs, scaled, fast_mode=True)


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="12 positions were requested, but only 11"):
        model().bert(torch.zeros(1, 12, dtype=torch.long))
