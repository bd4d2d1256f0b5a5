"""Exercise 01.3, clip_gradients: hints, and what students answer to the clipping of gradients by their joint norm."""

import torch

from course_lib.primitives import clip_gradients
from course_tools.checks.exercise import Answers, Draw, Exercise, Property, gives_new_tensors, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    "Imagine all gradients laid end to end in one long vector. Clipping may shorten that vector, but must not change "
    "its direction: what follows for the factors of the single tensors?",
    "First one number: the Euclidean norm of **all** entries together, so squares are added across the tensors before"
    " any root is taken. Then one factor, which depends on whether this norm exceeds `max_norm`. What should the factor"
    " be for a short gradient, and for one that is zero?",
    "The norm is the root of the sum, over the tensors, of their sums of squares. The factor is `max_norm` divided by"
    " the norm, but at most 1. Return a list in which each gradient is multiplied by this factor, out of place.",
)


@wrong.case
def fails_without_gradients(gradients, max_norm):
    """Your values are right, but without a gradient your function fails: torch joins no empty list of tensors. Return an empty
    list first."""
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * torch.clamp(max_norm / norm, max=1.0) for g in gradients]


@wrong.part
def clips_each_tensor_alone(gradients, max_norm):
    """You clip each tensor by its own norm. The joint norm can still exceed max_norm, and the direction of the step changes,
    since the tensors shrink by different factors."""
    return [g * torch.clamp(max_norm / torch.linalg.vector_norm(g), max=1.0) for g in gradients]


@wrong.idea
def clips_each_entry(gradients, max_norm):
    """You cut each entry off at ±max_norm. This is clipping by value: it changes the direction of the gradient, and many
    entries together can still be far longer than max_norm."""
    return [g.clamp(-max_norm, max_norm) for g in gradients]


@wrong.part
def always_rescales(gradients, max_norm):
    """You bring every gradient to the length max_norm, short ones too: near a minimum your steps never get smaller, and a
    gradient of zero becomes NaN."""
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    return [g * (max_norm / norm) for g in gradients]


@wrong.part
def always_rescales_all_but_zeros(gradients, max_norm):
    """You bring every gradient to the length max_norm, short ones too; the small number in your divisor spares only a gradient
    of zero. Near a minimum your steps never get smaller: scale down what is longer than max_norm, and nothing else."""
    norm = torch.cat([torch.zeros(1), *(g.flatten() for g in gradients)]).norm()
    return [g * (max_norm / (norm + 1e-6)) for g in gradients]


@wrong.case
def hands_the_short_ones_back(gradients, max_norm):
    """Where nothing is to be clipped, you return the caller's own tensors. A change of the result in place then changes the
    gradients, too: return new tensors."""
    norm = torch.cat([torch.zeros(1), *(g.flatten() for g in gradients)]).norm()
    return [g * (max_norm / norm) for g in gradients] if norm > max_norm else list(gradients)


@wrong.idea
def stretches_the_short(gradients, max_norm):
    """You bound the factor on the wrong side: long gradients stay as they are, and short ones are stretched to
    max_norm."""
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    return [g * torch.clamp(max_norm / norm, min=1.0) for g in gradients]


@wrong.detail
def scales_to_length_one(gradients, max_norm):
    """You detect correctly which gradients are too long, but then scale them to the norm 1 instead of max_norm."""
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    scale = torch.where(norm > max_norm, 1 / norm, torch.ones_like(norm))
    return [g * scale for g in gradients]


@wrong.detail
def forgets_the_root(gradients, max_norm):
    """You compare max_norm with the sum of squares, which is the norm squared: you clip at another threshold, and what
    you clip gets the wrong length."""
    norm = sum((g**2).sum() for g in gradients)
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g * scale for g in gradients]


@wrong.detail
def adds_the_norms(gradients, max_norm):
    """You add the norms of the tensors. Norms do not add up, only their squares do: your sum is too large, so you clip
    too often and too much."""
    norm = sum(torch.linalg.vector_norm(g) for g in gradients)
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g * scale for g in gradients]


@wrong.part
def looks_at_the_longest_tensor_only(gradients, max_norm):
    """You use one factor for all, which is right, but take it from the longest tensor alone. All of them together can
    then still be longer than max_norm."""
    norm = torch.stack([torch.linalg.vector_norm(g) for g in gradients]).max()
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g * scale for g in gradients]


@wrong.detail
def adds_absolute_values(gradients, max_norm):
    """You measure length by the sum of absolute values. The threshold is on the Euclidean norm, which is smaller, so you clip
    too much."""
    norm = sum(g.abs().sum() for g in gradients)
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g * scale for g in gradients]


@wrong.case
def overwrites_the_gradients(gradients, max_norm):
    """Your numbers are right, but you write them over the gradients you were given (`mul_`, `*=`, `gradients[i] = …`).
    You were asked for new ones: the caller's gradients must survive."""
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g.mul_(scale) for g in gradients]


@wrong.part
def takes_the_largest_entry(gradients, max_norm):
    """You take the largest absolute entry for the norm. The threshold is on the Euclidean norm, which is never smaller, so
    your gradients can stay longer than max_norm."""
    largest = max(g.abs().max() for g in gradients)
    scale = torch.clamp(max_norm / largest, max=1.0)
    return [g * scale for g in gradients]


@wrong.detail
def takes_the_root_mean_square(gradients, max_norm):
    """You take the root of the mean of the squares. The norm is the root of their sum; yours is smaller by √(number of
    entries), so you clip too rarely and too little."""
    n = sum(g.numel() for g in gradients)
    norm = torch.sqrt(sum((g**2).sum() for g in gradients) / n)
    scale = torch.clamp(max_norm / norm, max=1.0)
    return [g * scale for g in gradients]


@stranger(makes=[always_rescales])
def clip_always_and_nothing_of_nothing(gradients, max_norm):
    if not gradients:
        return []
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    return [g * max_norm / norm for g in gradients]


@wrong.case
def loops_over_the_rows(gradients, max_norm):
    """You loop over the rows of each tensor. A parameter may be a single number, such as a temperature; its gradient
    has no axis to loop over."""
    squares = [row.square().sum() for g in gradients for row in g]
    return [g * torch.clamp(max_norm / torch.stack(squares).sum().sqrt(), max=1.0) for g in gradients]


@wrong.detail
def compares_the_norm_with_one(gradients, max_norm):
    """You clip where the norm is above 1. The threshold is max_norm: with one above 1 you also stretch gradients that are
    shorter than it, and with one below 1 you leave some that are longer."""
    norm = sum((g**2).sum() for g in gradients) ** 0.5
    return [g * (max_norm / norm) if norm > 1 else g.clone() for g in gradients]


@wrong.detail
def asks_each_tensor_whether_it_is_long(gradients, max_norm):
    """You scale by the joint norm, but only those tensors that are too long by themselves. The direction of the step
    changes, and the joint norm can still exceed max_norm: whether to clip is one question for all of them."""
    norm = sum((g**2).sum().item() for g in gradients) ** 0.5
    return [g * max_norm / norm if g.norm() > max_norm else g for g in gradients]


@wrong.case
def divides_by_a_norm_of_zero(gradients, max_norm):
    """You divide by the norm whatever it is. Where all gradients are 0 this is 0/0, and NaN: leave them as they are."""
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt() if len(gradients) else torch.tensor(1.0)
    return [g / norm * norm.clamp(max=max_norm) for g in gradients]


@right
def flattens_into_one_vector(gradients, max_norm):
    """All gradients as one long vector: clip that, then cut it up again."""
    if not gradients:
        return []
    vector = torch.cat([g.reshape(-1) for g in gradients])
    vector = vector * torch.clamp(max_norm / torch.linalg.vector_norm(vector), max=1.0)
    pieces = vector.split([g.numel() for g in gradients])
    return [piece.reshape(g.shape) for piece, g in zip(pieces, gradients, strict=True)]


@right
def takes_the_norm_of_the_norms(gradients, max_norm):
    """The joint norm as the norm of the vector of norms, which is computed in float64."""
    if not gradients:
        return []
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g.double()) for g in gradients]))
    return [g * (max_norm / norm).clamp(max=1.0) for g in gradients]


@right
def asks_before_scaling(gradients, max_norm):
    """The case distinction of the paper's algorithm, with copies where nothing is to be clipped."""
    if not gradients:
        return []
    squares = [torch.einsum("i,i->", g.flatten(), g.flatten()) for g in gradients]
    norm = torch.stack(squares).sum().sqrt()
    if norm > max_norm:
        return [max_norm * g / norm for g in gradients]
    return [g.clone() for g in gradients]


@right
def divides_by_the_excess(gradients, max_norm):
    """Divides by norm / max_norm where this exceeds 1, and by 1 elsewhere; the squares are added in a loop."""
    total = torch.zeros(())
    for g in gradients:
        total = total + g.pow(2).sum()
    excess = torch.clamp(total.sqrt() / max_norm, min=1.0)
    return [g / excess for g in gradients]


@stranger
def clip_leaves_the_last_tensor_out_of_the_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients[:-1] or gradients]).norm()
    return [g * min(1.0, max_norm / float(norm + 1e-12)) for g in gradients]


@stranger
def clip_by_the_root_mean_square(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).square().mean().sqrt()
    return [g * torch.clamp(max_norm / norm, max=1.0) for g in gradients]


@stranger
def clip_scales_only_the_long_tensors(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * max_norm / norm if g.norm() > max_norm else g.clone() for g in gradients]


@stranger
def clip_puts_the_results_into_the_list(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for i, g in enumerate(gradients):
        gradients[i] = g * torch.clamp(max_norm / norm, max=1.0)
    return gradients


@stranger
def clip_empties_the_list(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [gradients.pop(0) * torch.clamp(max_norm / norm, max=1.0) for _ in range(len(gradients))]


@stranger(makes=[clips_each_tensor_alone])
def clip_one_by_one_in_a_loop(gradients, max_norm):
    clipped = []
    for g in gradients:
        norm = g.pow(2).sum().sqrt()
        clipped.append(g * max_norm / norm if norm > max_norm else g)
    return clipped


@stranger(makes=[forgets_the_root])
def clip_by_the_sum_of_squares(gradients, max_norm):
    total = torch.cat([g.flatten() for g in gradients]).pow(2).sum()
    return [g if total <= max_norm else g * (max_norm / total) for g in gradients]


@stranger(makes=[clips_each_tensor_alone, always_rescales])
def clip_with_two_mistakes(gradients, max_norm):
    return [g * (max_norm / g.norm()) for g in gradients]


def _gradients(draw: Draw, n: int, norm: float) -> list[torch.Tensor]:
    """Draw n gradients of different shapes and different lengths whose joint norm is `norm`."""
    sizes = draw.sizes(3)
    shapes = [(sizes[0],), (sizes[1], sizes[2]), (2, 1, sizes[2]), ()][:n]
    tensors = [draw.normal(1, *shape, scale=float(3**i))[0] for i, shape in enumerate(shapes)]
    joint = torch.cat([t.flatten() for t in tensors]).norm()
    return [t * (norm / joint) for t in tensors]


def _zeros(draw: Draw) -> list[torch.Tensor]:
    return [torch.zeros(size) for size in draw.sizes(2)]


exercise = Exercise(
    id="01.3",
    title="Clip gradients by their joint norm",
    reference=clip_gradients,
    properties=(
        runs_on(lambda draw: [(_gradients(draw, 2, 3.0), 1.0)]),
        has_shape("As many gradients as before, each with its shape.", lambda draw: [(_gradients(draw, 3, 3.0), 1.0)]),
        Property("one", "One long gradient is scaled to the norm max_norm.", lambda draw: [(_gradients(draw, 1, 7.0), 2.0)]),
        Property(
            "short",
            "Gradients shorter than max_norm stay as they are.",
            lambda draw: [(_gradients(draw, 1, 0.5), 2.0), (_gradients(draw, 3, 0.2), 2.0)],
        ),
        Property(
            "joint",
            "All gradients are scaled by one factor, from the norm of all entries together.",
            lambda draw: [(_gradients(draw, 3, 9.0), 1.5), (_gradients(draw, 4, 2.1), 2.0), (_gradients(draw, 4, 0.9), 0.5)],
            points=2,
            needs=("one",),
        ),
        Property("zero", "Gradients that are all 0 stay 0.", lambda draw: [(_zeros(draw), 1.0)]),
        Property("none", "Of no gradients, none are left.", lambda draw: [([], 1.0)]),
        gives_new_tensors(lambda draw: [(_gradients(draw, 3, 9.0), 1.5), (_gradients(draw, 3, 0.2), 2.0)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "No gradient that is drawn is empty: without entries, there are no gradients.": (
            "other name: if not gradients:",
            "drop call: [g for g in gradients]",
            "drop attribute: g() (2)",
            "other name: [g.clone() for g in wide]",
            "negate: (~g).clone",
            "other name: largest.clone",
            "other name: norm.clone",
            "other name: scale.clone",
            "other name: wide.clone",
            "other name: gradients.clone",
            "other name: max_norm.clone",
        ),
        (
            "The inputs of the exercise are float32 and not empty: the tensors of `wide` are the gradients, and no "
            "kind changes."
        ): (
            "drop call: [g for g in gradients if g.numel()]",
            "drop argument: [g.to() for g in gradients if g.numel()]",
            "drop call: g.to(g.dtype)",
            "drop call: g.to(torch.float32)",
            "swap arguments: g.to(torch.promote_types(torch.float32, g.dtype))",
            "drop call: g * scale",
            "drop argument: g * scale.to()",
            "other name: [g * scale.to(g.dtype) for g in wide]",
            "drop attribute: scale.to(g)",
            "other name: largest.dtype (2)",
            "other name: norm.dtype (2)",
            "other name: scale.dtype (2)",
            "other name: [g.abs().max() for g in gradients]",
            "other name: [(g / largest).square().sum() for g in gradients]",
        ),
        (
            "The norm is divided by any positive number and multiplied by it again, 0 times any factor is 0, and the "
            "sum is not used elsewhere."
        ): (
            "in place: norm = largest.mul_(torch.stack([(g / largest).square().sum() for g in wide]).sum().sqrt())",
            "cousin: torch.stack([g.abs().max() for g in wide]).min()",
            "constant: torch.where(largest > 0, torch.clamp(max_norm / norm, max=1.0), 2.0)",
            "constant: torch.where(largest > 0, torch.clamp(max_norm / norm, max=1.0), 0.0)",
            "other name: norm > 0",
            "cousin: g.abs().min()",
        ),
    },
    missed_mutants={
        "Seen only where no entry of any gradient is positive, which not every seed draws.": ("drop call: g.max",),
    },
    hints=HINTS,
    forbids={
        torch.nn.utils.clip_grad_norm_: "compute the joint norm and the factor yourself.",
        torch.nn.utils.get_total_norm: "compute the joint norm yourself: the root of the sum of all squares.",
        torch.nn.utils.clip_grads_with_norm_: "compute the factor yourself.",
    },
)
