"""Exercise 11.2, embed_patches: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from einops import repeat

from course_lib.primitives import embed_patches
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Two images of four patches and one class token: how many tokens has each, and how many positions are there? Which of "
        "the tokens are the same for both images, before the positions and after?"
    ),
    (
        "Project the patches, with their bias, and only then put the learned tokens before them: these have d_model "
        "features already. They lack the batch axis, which `expand` adds."
    ),
    (
        "Three steps: project the patches; put the learned tokens, expanded to the batch, *before* them; add the "
        "positions to all. Added earlier, the positions would miss the learned tokens."
    ),
)


def _projected(patches, E, b):
    return patches @ E.mT + b


def _with(learned, tokens):
    return torch.cat([learned.expand(len(tokens), -1, -1), tokens], dim=1)


@wrong.detail
def puts_the_learned_last(patches, E, b, learned, positions):
    """You put the learned tokens after the patches. The class token is token 0, with the first position."""
    tokens = _projected(patches, E, b)
    return torch.cat([tokens, learned.expand(len(tokens), -1, -1)], dim=1) + positions


@wrong.detail
def forgets_the_bias(patches, E, b, learned, positions):
    """You project without the bias b. It is part of the linear layer that reads a patch."""
    return _with(learned, patches @ E.mT) + positions


@wrong.detail
def adds_the_bias_to_all(patches, E, b, learned, positions):
    """You add b after the concatenation, to the learned tokens too. The bias belongs to the projection of patches, and the
    learned tokens are not projected."""
    return _with(learned, patches @ E.mT) + b + positions


@wrong.part
def places_the_patches_only(patches, E, b, learned, positions):
    """You give no position to the learned tokens. There is one for every token, the learned ones included: the first rows of
    `positions` are theirs."""
    return _with(learned, _projected(patches, E, b) + positions[len(learned) :])


@wrong.detail
def gives_the_patches_the_first_positions(patches, E, b, learned, positions):
    """You give the patches the first positions and the learned tokens the last. Positions are in the order of the tokens,
    those of the learned ones first; yours are all shifted."""
    N = patches.shape[1]
    return _with(learned + positions[N:], _projected(patches, E, b) + positions[:N])


@wrong.idea
def forgets_the_positions(patches, E, b, learned, positions):
    """You add no positions. Attention is independent of the order, so for your model every permutation of the patches is
    the same image."""
    return _with(learned, _projected(patches, E, b))


@wrong.part
def multiplies_by_the_positions(patches, E, b, learned, positions):
    """You multiply the tokens by the positions. They are added."""
    return _with(learned, _projected(patches, E, b)) * positions


@wrong.part
def sets_the_positions_beside(patches, E, b, learned, positions):
    """You concatenate the positions to the tokens, as more features. Your tokens are twice as wide as the model; positions
    are added to the d_model features."""
    tokens = _with(learned, _projected(patches, E, b))
    return torch.cat([tokens, positions.expand(len(tokens), -1, -1)], dim=-1)


@wrong.case
def takes_one_learned_token(patches, E, b, learned, positions):
    """You count on exactly one learned token and take the first. DeiT has two, and a model that averages its patches has
    none: take all that are passed in."""
    return _with(learned[:1], _projected(patches, E, b)) + positions


@wrong.idea
def adds_the_learned_to_the_patches(patches, E, b, learned, positions):
    """You add the learned tokens to every patch. They are separate tokens before the patches, and make the sequence longer."""
    return _projected(patches, E, b) + learned.sum(0) + positions[len(learned) :]


@wrong.idea
def overwrites_the_first_patches(patches, E, b, learned, positions):
    """You overwrite the first patches by the learned tokens. The learned tokens come in addition, before the patches."""
    return _with(learned, _projected(patches, E, b)[:, len(learned) :]) + positions[: patches.shape[1]]


@wrong.detail
def scales_by_the_width(patches, E, b, learned, positions):
    """You multiply the projected patches by √d_model, as the original Transformer does with its embeddings. Equation 1 has
    no such factor."""
    return _with(learned, _projected(patches, E, b) * len(E) ** 0.5) + positions


@wrong.detail
def adds_the_positions_too_early(patches, E, b, learned, positions):
    """You add the positions to the patches alone. There are T = n_learned + N of them: put the learned tokens in front first,
    then add."""
    tokens = patches @ E.mT + b + positions
    return torch.cat([learned.expand(len(patches), -1, -1), tokens], dim=1)


@wrong.part
def places_the_patches_from_the_second_position(patches, E, b, learned, positions):
    """You add `positions[1:]` to the patches, and nothing to the learned token. There is a position for every token, the
    learned ones included, of which there may be none or two: put them in front first, then add."""
    return _with(learned, _projected(patches, E, b) + positions[1:])


@wrong.detail
def puts_one_learned_token_before_a_batch(patches, E, b, learned, positions):
    """You concatenate learned tokens (1, n_learned, d_model) with a batch of B images. cat does not broadcast: expand them to
    (B, n_learned, d_model)."""
    return torch.cat([learned[None], patches @ E.mT + b], dim=1) + positions


@wrong.detail
def multiplies_by_the_stored_matrix(patches, E, b, learned, positions):
    """You write patches @ E, as the paper does. E is stored with a row for each feature of the model, (d_model, d_patch):
    patches @ E.mT."""
    return torch.cat([learned.expand(len(patches), -1, -1), patches @ E + b], dim=1) + positions


@wrong.detail
def looks_up_the_first_learned_token(patches, E, b, learned, positions):
    """You take the first learned token alone, as for a single [class]. There may be none or several: put them all in front."""
    first = learned[0].expand(len(patches), 1, -1)
    return torch.cat([first, _projected(patches, E, b)], 1) + positions


@wrong.detail
def puts_learned_tokens_without_a_batch(patches, E, b, learned, positions):
    """You concatenate learned tokens (n_learned, d_model), which have no axis for the images, with patches of B images. Each
    image gets them: expand them to (B, n_learned, d_model)."""
    return torch.cat([learned, patches @ E.mT + b], dim=1) + positions


@right
def into_an_empty_sequence(patches, E, b, learned, positions):
    """A copy of the positions for each image, to whose ends the two kinds of tokens are added."""
    tokens = repeat(positions, "T d -> B T d", B=len(patches)).clone()
    tokens[:, : len(learned)] += learned
    tokens[:, len(learned) :] += torch.einsum("bnp,dp->bnd", patches, E) + b
    return tokens


@right
def by_padding(patches, E, b, learned, positions):
    """Both kinds padded with zeros to the whole sequence, and all three added."""
    before = F.pad(F.linear(patches, E, b), (0, 0, len(learned), 0))
    return before + F.pad(learned, (0, 0, 0, patches.shape[1])) + positions


@right
def image_by_image(patches, E, b, learned, positions):
    """A loop over the images, each a list of rows."""
    images = []
    for image in patches:
        rows = [*learned, *(E @ patch + b for patch in image)]
        images.append(torch.stack([row + place for row, place in zip(rows, positions, strict=True)]))
    return torch.stack(images)


@right
def as_one_projection(patches, E, b, learned, positions):
    """Each patch gets a one-hot vector of its position beside it, and each learned token only that: one matrix makes all of
    it."""
    B, N, d_patch = patches.shape
    n = len(learned)
    places = torch.eye(n + N, dtype=patches.dtype).expand(B, -1, -1)
    seen = torch.cat([patches.new_zeros(B, n, d_patch), patches], dim=1)
    of_places = positions + torch.cat([learned, b.expand(N, -1)])
    return torch.cat([seen, places], dim=-1) @ torch.cat([E.mT, of_places])


@stranger
def tokens_of_the_reversed_patches(patches, E, b, learned, positions):
    return embed_patches(patches.flip(1), E, b, learned, positions)


@stranger
def tokens_less_their_places(patches, E, b, learned, positions):
    return embed_patches(patches, E, b, learned, -positions)


@stranger
def tokens_normed(patches, E, b, learned, positions):
    tokens = embed_patches(patches, E, b, learned, positions)
    return F.layer_norm(tokens, tokens.shape[-1:])


@stranger
def tokens_without_learned_gradient(patches, E, b, learned, positions):
    return embed_patches(patches, E, b, learned.detach(), positions)


@stranger(makes=[forgets_the_bias])
def tokens_by_a_zero_bias(patches, E, b, learned, positions):
    return embed_patches(patches, E, 0 * b, learned, positions)


@stranger(makes=[forgets_the_bias, forgets_the_positions])
def tokens_nowhere_and_without_bias(patches, E, b, learned, positions):
    return torch.cat([learned.expand(len(patches), -1, -1), patches @ E.mT], dim=1)


def _tokens(draw: Draw, B: int, n_learned: int, bias: float = 1.0, place: float = 1.0) -> Call:
    N, d_patch, d_model = draw.sizes(3)
    N += 2
    learned, positions = draw.normal(n_learned, d_model), draw.normal(n_learned + N, d_model, scale=place)
    return draw.normal(B, N, d_patch), draw.normal(d_model, d_patch), draw.normal(d_model, scale=bias), learned, positions


def _images(draw: Draw) -> list[Call]:
    return [_tokens(draw, 3, 1), _tokens(draw, 1, 1)]


exercise = Exercise(
    id="11.2",
    title="The class token and the positions",
    reference=embed_patches,
    properties=(
        runs_on(_images),
        has_shape("A token for each patch, and the learned ones: (B, n_learned + N, d_model).", _images),
        Property(
            "projection",
            "Without learned tokens, and with a bias and positions of 0: each patch is projected.",
            lambda draw: [_tokens(draw, 2, 0, bias=0.0, place=0.0)],
        ),
        Property(
            "bias",
            "Without learned tokens, and with positions of 0: each patch is projected and gets the bias.",
            lambda draw: [_tokens(draw, 2, 0, place=0.0)],
            needs=("projection",),
        ),
        Property(
            "in front",
            "The learned token comes first, unchanged, in every image.",
            lambda draw: [_tokens(draw, 3, 1, place=0.0)],
            points=2,
            needs=("bias",),
        ),
        Property("positions", "Every token gets its own position.", _images, points=2, needs=("in front",)),
        Property(
            "several",
            "There may be two learned tokens, or none.",
            lambda draw: [_tokens(draw, 2, 2), _tokens(draw, 2, 0)],
            needs=("positions",),
        ),
        has_gradient(lambda draw: [_tokens(draw, 2, 2)], needs=("positions",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The tokens were made here, so that no caller sees them change.": ("in place: return tokens.add_(positions)",),
        "Only the shape is read.": ("detach: patches.detach().shape",),
    },
    hints=HINTS,
)
