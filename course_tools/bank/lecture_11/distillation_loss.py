"""Exercise 11.5, distillation_loss: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.losses import distillation_loss
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
        "Which of student, teacher and labels enter into each of the two terms? Where does the temperature enter, and "
        "what should the loss be if student and teacher have the same logits and λ is 1?"
    ),
    (
        "KL(p ‖ q) = Σ p (log p - log q), with the teacher's probabilities p as weights. Both softmaxes take logits over τ; "
        "work with `log_softmax`, so that nothing becomes log 0. The teacher is detached."
    ),
    (
        "`F.kl_div` takes the *student's* log-probabilities first and the teacher's second; tell it that the second are "
        "logarithms as well, and to average over the batch. Multiply by λ and τ², since the gradients of softened logits "
        "shrink by τ². The rest, 1 - λ, is the usual cross-entropy without τ."
    ),
)


def _kl(p_logits, q_logits):
    """The mean over the batch of KL(p ‖ q)."""
    return F.kl_div(q_logits.log_softmax(-1), p_logits.log_softmax(-1), reduction="batchmean", log_target=True)


def _loss(student, teacher, labels, temperature, share, divergence=_kl):
    """Both terms, with another divergence of the tempered logits."""
    soft = divergence(teacher.detach() / temperature, student / temperature)
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * soft


@wrong.idea
def weighs_by_the_student(student, teacher, labels, temperature, share):
    """You weigh by the student's probabilities, KL(student ‖ teacher). Equation 2 of DeiT reads so, but Hinton and the code of
    DeiT weigh by the teacher's: where the teacher finds a class likely, the student must too."""
    return _loss(student, teacher, labels, temperature, share, lambda p, q: _kl(q, p))


@wrong.detail
def takes_no_logarithm(student, teacher, labels, temperature, share):
    """You give `F.kl_div` the student's probabilities. It expects their logarithms first, `log_softmax`."""
    return _loss(
        student,
        teacher,
        labels,
        temperature,
        share,
        lambda p, q: F.kl_div(q.softmax(-1), p.softmax(-1), reduction="batchmean"),
    )


@wrong.detail
def forgets_the_squared_temperature(student, teacher, labels, temperature, share):
    """You leave out τ². A temperature of τ makes the gradients of the KL about τ² times smaller, and without this factor
    the teacher has almost no effect when τ is large."""
    soft = _kl(teacher.detach() / temperature, student / temperature)
    return (1 - share) * F.cross_entropy(student, labels) + share * soft


@wrong.part
def tempers_only_the_teacher(student, teacher, labels, temperature, share):
    """You soften the teacher and not the student. Both are divided by τ inside the KL."""
    return _loss(student, teacher, labels, temperature, share, lambda p, q: _kl(p, q * temperature))


@wrong.part
def tempers_the_labels_too(student, teacher, labels, temperature, share):
    """You divide the student's logits by τ in the cross-entropy too. The cross-entropy with the labels is at temperature 1;
    τ belongs to the KL alone."""
    soft = _kl(teacher.detach() / temperature, student / temperature)
    return (1 - share) * F.cross_entropy(student / temperature, labels) + share * temperature**2 * soft


@wrong.idea
def multiplies_by_the_temperature(student, teacher, labels, temperature, share):
    """You multiply the logits by τ. A high temperature should make probabilities more even, and yours become sharper: divide
    by it."""
    soft = _kl(teacher.detach() * temperature, student * temperature)
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * soft


@wrong.detail
def exchanges_the_shares(student, teacher, labels, temperature, share):
    """You give λ to the labels and 1 - λ to the teacher. λ is the weight of the teacher: with λ = 0 the loss is the
    cross-entropy with the labels."""
    return _loss(student, teacher, labels, temperature, 1 - share)


@wrong.detail
def keeps_the_labels_in_full(student, teacher, labels, temperature, share):
    """You add λ times the teacher's term to the whole cross-entropy. The cross-entropy has the factor 1 - λ."""
    return _loss(student, teacher, labels, temperature, share) + share * F.cross_entropy(student, labels)


@wrong.detail
def averages_over_the_classes_too(student, teacher, labels, temperature, share):
    """You let `F.kl_div` take its mean over all B · K numbers. A divergence is a sum over the classes; only the examples are
    averaged, which is its reduction "batchmean"."""
    return _loss(student, teacher, labels, temperature, share, lambda p, q: _kl(p, q) / q.shape[-1])


@wrong.idea
def believes_only_the_decision(student, teacher, labels, temperature, share):
    """You use the teacher's most likely class as a label. That is hard distillation; the soft one uses the probabilities of
    all classes."""
    hard = F.cross_entropy(student / temperature, teacher.argmax(-1))
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * hard


@wrong.case
def teaches_the_teacher(student, teacher, labels, temperature, share):
    """You do not detach the teacher. Your loss is right, but its gradient also flows into the teacher, which should stay as
    it is."""
    soft = _kl(teacher / temperature, student / temperature)
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * soft


@wrong.detail
def leaves_out_the_entropy(student, teacher, labels, temperature, share):
    """You take the cross-entropy with the teacher's probabilities. It has the same gradient, but is larger than the KL by the
    teacher's entropy, and so it is not 0 when student and teacher agree."""
    return _loss(student, teacher, labels, temperature, share, lambda p, q: F.cross_entropy(q, p.softmax(-1)))


@wrong.case
def takes_logs_of_probabilities(student, teacher, labels, temperature, share):
    """You take the logarithm of a finished softmax. Where a probability is so small that it was rounded to 0 you get 0 · -∞,
    NaN; `log_softmax` never rounds there."""

    def divergence(p_logits, q_logits):
        p, q = p_logits.softmax(-1), q_logits.softmax(-1)
        return (p * (p.log() - q.log())).sum(-1).mean()

    return _loss(student, teacher, labels, temperature, share, divergence)


@wrong.idea
def forgets_the_temperature(student, teacher, labels, temperature, share):
    """You never use the temperature: it divides the logits of student and teacher inside the KL divergence, whose result is
    multiplied by its square."""
    return distillation_loss(student, teacher, labels, 1.0, share)


@wrong.part
def gives_kl_div_a_logarithm(student, teacher, labels, temperature, share):
    """You give `F.kl_div` the teacher's log-probabilities. As its second argument it takes probabilities, unless
    `log_target=True`; of a negative number it takes a logarithm, NaN."""

    def divergence(of_teacher, of_student):
        return F.kl_div(of_student.log_softmax(-1), of_teacher.log_softmax(-1), reduction="batchmean")

    return _loss(student, teacher, labels, temperature, share, divergence)


@right
def by_torchs_own(student, teacher, labels, temperature, share):
    """Both losses from torch, example by example, then averaged together."""
    log_q, log_p = ((z / temperature).log_softmax(-1) for z in (student, teacher.detach()))
    soft = F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    return torch.lerp(F.cross_entropy(student, labels, reduction="none"), temperature**2 * soft, share).mean()


@right
def as_cross_entropy_less_entropy(student, teacher, labels, temperature, share):
    """KL is the cross-entropy with the teacher less that with itself; the labels as one-hot probabilities."""
    wise = teacher.detach() / temperature
    p = wise.softmax(-1)
    soft = F.cross_entropy(student / temperature, p) - F.cross_entropy(wise, p)
    truth = F.one_hot(labels, student.shape[-1]).to(student.dtype)
    return (1 - share) * F.cross_entropy(student, truth) + share * soft * temperature**2


@right
def by_logsumexp(student, teacher, labels, temperature, share):
    """In float64: Σ p (z_p - z_q) / τ, and the difference of the two normalisers."""
    z_q, z_p = student.double(), teacher.detach().double()
    free_q, free_p = ((z / temperature).logsumexp(-1) for z in (z_q, z_p))
    p = (z_p / temperature - free_p[:, None]).exp()
    soft = (p * (z_p - z_q)).sum(-1) / temperature + free_q - free_p
    surprise = z_q.logsumexp(-1) - z_q[torch.arange(len(labels)), labels]
    return ((1 - share) * surprise + share * temperature**2 * soft).mean().to(student.dtype)


@stranger
def lesson_of_the_middle(student, teacher, labels, temperature, share):
    """Jensen and Shannon's divergence."""
    p, q = (teacher.detach() / temperature).softmax(-1), (student / temperature).softmax(-1)
    m = (p + q) / 2
    soft = ((p * (p.log() - m.log())).sum(-1) + (q * (q.log() - m.log())).sum(-1)).mean() / 2
    return (1 - share) * F.cross_entropy(student, labels) + share * temperature**2 * soft


@stranger
def lesson_in_squares(student, teacher, labels, temperature, share):
    return (1 - share) * F.cross_entropy(student, labels) + share * F.mse_loss(student, teacher.detach())


@stranger
def lesson_with_temperature_once(student, teacher, labels, temperature, share):
    labels_alone = distillation_loss(student, teacher, labels, temperature, 0.0)
    teacher_alone = distillation_loss(student, teacher, labels, temperature, 1.0)
    return (1 - share) * labels_alone + share * teacher_alone / temperature


@stranger(makes=[exchanges_the_shares])
def lesson_shared_the_other_way(student, teacher, labels, temperature, share):
    both = [distillation_loss(student, teacher, labels, temperature, s) for s in (0.0, 1.0)]
    return share * both[0] + (1 - share) * both[1]


@stranger(makes=[forgets_the_squared_temperature, keeps_the_labels_in_full])
def lesson_without_the_square_and_in_full(student, teacher, labels, temperature, share):
    soft = distillation_loss(student, teacher, labels, temperature, 1.0) / temperature**2
    return F.cross_entropy(student, labels) + share * soft


def _lesson(draw: Draw, temperature: float = 3.0, share: float = 0.3, B: int = 5, scale: float = 2.0) -> Call:
    K = draw.sizes(1)[0] + 2
    logits = draw.normal(B, K, scale=scale), draw.normal(B, K, scale=scale)
    return *logits, draw.integers(0, K, B), temperature, share


def _lessons(draw: Draw) -> list[Call]:
    return [_lesson(draw), _lesson(draw, 0.7, 0.8, B=1)]


def _agreeing(draw: Draw) -> list[Call]:
    student, _, *rest = _lesson(draw, share=0.6)
    return [(student, student.clone(), *rest)]


exercise = Exercise(
    id="11.5",
    title="Distillation from a teacher",
    extra=True,
    reference=distillation_loss,
    properties=(
        runs_on(_lessons),
        has_shape("One number.", _lessons),
        Property(
            "labels alone", "With λ = 0 it is the cross-entropy with the labels.", lambda draw: [_lesson(draw, share=0.0)]
        ),
        Property(
            "teacher alone",
            "With λ = 1 and τ = 1 it is the divergence of the student from the teacher.",
            lambda draw: [_lesson(draw, 1.0, 1.0)],
            points=2,
        ),
        Property(
            "agreement",
            "Where student and teacher agree, the divergence is 0.",
            _agreeing,
            needs=("teacher alone",),
        ),
        Property(
            "temperature",
            "τ divides the logits of both, and the divergence is multiplied by τ².",
            lambda draw: [_lesson(draw, share=1.0), _lesson(draw, 0.5, 1.0)],
            points=2,
            needs=("teacher alone",),
        ),
        Property(
            "weights",
            "λ is the weight of the teacher, 1 - λ that of the labels.",
            _lessons,
            needs=("labels alone", "temperature"),
        ),
        Property(
            "large", "Large logits give a finite loss.", lambda draw: [_lesson(draw, 0.5, scale=60.0)], needs=("weights",)
        ),
        has_gradient(_lessons, needs=("weights",)),
        leaves_inputs(_lessons),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Logits have two axes: the last one is axis 1.": (
            "drop sign: (teacher.detach() / temperature).log_softmax(1)",
            "drop sign: (student / temperature).log_softmax(1)",
            "drop sign: (log_p.exp() * (log_p - log_q)).sum(1)",
        ),
        "The teacher is detached already, labels carry no gradient, and what is changed in place was made here.": (
            "detach: F.cross_entropy(student, labels.detach())",
            "detach: teacher.detach().detach",
            "in place: log_p.exp() * log_p.sub_(log_q)",
            "detach: log_p.detach() - log_q",
            "detach: log_p.detach().exp",
        ),
    },
    hints=HINTS,
)
