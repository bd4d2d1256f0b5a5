"""The heads on BERT: which states they read, and answers worked by hand."""

import torch

from course_lib.models import SentenceHead, SpanHead, TagHead, classification_head
from course_lib.models.bert_heads import MaskedWordHead

B, T, D, C = 3, 7, 5, 11


def test_a_class_by_hand():
    """tanh(½ ln 3) = ½; the weights 4 and -2 give 2 and -1."""
    states = torch.tensor([[[0.5493061], [9.0]]])
    logits = classification_head(
        states, torch.ones(1, 1), torch.zeros(1), torch.tensor([[4.0], [-2.0]]), torch.tensor([0.0, 3.0])
    )
    torch.testing.assert_close(logits, torch.tensor([[2.0, 2.0]]))


def test_a_sequence_is_classified_by_its_first_token_alone(normal):
    states = normal(B, T, D)
    SentenceHead(D, C).double()(states).sum().backward()
    assert states.grad[:, 0].all()
    assert not states.grad[:, 1:].any()


def test_the_module_is_the_function_and_the_function_is_torchs_layers(normal, agree):
    head = SentenceHead(D, C).double()
    weights = (head.pool.weight, head.pool.bias, head.classify.weight, head.classify.bias)
    agree(head, lambda states: head.classify(torch.tanh(head.pool(states[:, 0]))), normal(B, T, D))
    agree(
        classification_head,
        lambda states, W_p, b_p, W, b: (
            torch.einsum("cp,bp->bc", W, torch.tanh(torch.einsum("pd,bd->bp", W_p, states[:, 0]) + b_p)) + b
        ),
        normal(B, T, D),
        *(w.detach().requires_grad_() for w in weights),
    )


def test_gradients_against_differences(normal):
    inputs = normal(2, 3, 5), normal(7, 5), normal(7), normal(3, 7), normal(3)
    assert torch.autograd.gradcheck(classification_head, inputs)


def test_each_token_is_tagged_by_itself(normal):
    head, states = TagHead(D, C).double(), normal(B, T, D)
    logits = head(states)
    assert logits.shape == (B, T, C)
    torch.testing.assert_close(head(states[:, 2:3])[:, 0], logits[:, 2])


def test_an_answer_cannot_stand_in_padding(normal):
    head, lengths = SpanHead(D).double(), torch.tensor([7, 3, 1])
    start, end = head(normal(B, T, D), lengths)
    real = torch.arange(T) < lengths[:, None]
    assert torch.equal(start > -torch.inf, real)
    assert torch.equal(end > -torch.inf, real)
    torch.testing.assert_close(start.softmax(-1).sum(-1), torch.ones(B, dtype=torch.float64))


def test_a_place_is_scored_by_a_dot_product(normal):
    head, states = SpanHead(D).double(), normal(B, T, D)
    start, end = head(states)
    S, E = head.place.weight
    torch.testing.assert_close(start[1, 2], S @ states[1, 2] + head.place.bias[0])
    torch.testing.assert_close(end[2, 5], E @ states[2, 5] + head.place.bias[1])


def test_masked_places_alone_are_scored_as_all_are(normal):
    head, embedding, states = MaskedWordHead(D, C).double(), normal(C, D), normal(B, T, D)
    chosen = torch.rand(B, T, generator=torch.Generator().manual_seed(0)) < 0.4
    torch.testing.assert_close(head(states[chosen], embedding), head(states, embedding)[chosen])
