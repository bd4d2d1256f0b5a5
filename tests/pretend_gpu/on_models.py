"""Every model, forwards and backwards, and everything that generates."""

import pytest
import torch
from torch import nn

from course_lib import fast, generation, models
from course_lib.blocks import Sizes
from course_lib.fast import CachedGPT, fused_bidirectional_gru, fused_gru, fused_lstm, hoisted_rnn, stacked_bidirectional_gru
from course_lib.generation import beam_search, generate, greedy, greedy_probabilities, greedy_translation, sample, speculative
from course_lib.generation.known_language import (
    certain_draft,
    known_draft,
    known_law,
    known_model,
    mistaken_draft,
    uniform_draft,
)
from course_lib.models import (
    GPT,
    BahdanauDecoder,
    Encoder,
    GatedDeltaNet,
    LinearTransformer,
    Llama,
    PlainDecoder,
    Seq2Seq,
    ShowAndTell,
    ShowAttendAndTell,
    Transformer,
    TransformerXL,
    bidirectional_gru,
)
from course_lib.models.byol import ema_update_
from course_lib.primitives import GRU, LSTM, RNN
from tests.course_lib.models.compiled import LENGTHS, MODELS, SIZES, VARIANTS, WORDS, B, N
from tests.pretend_gpu.ran import never_ran, watching

LONG = 9


@pytest.mark.parametrize("name", [*MODELS, *VARIANTS])
def test_forwards_and_backwards(name, same_there):
    make, inputs = (MODELS | VARIANTS)[name]
    torch.manual_seed(0)
    model = make().eval()

    def outputs_and_gradients(model: nn.Module, *inputs: object) -> list[torch.Tensor]:
        outputs = flat(model(*inputs))
        parameters = [p for p in model.parameters() if p.requires_grad]
        total = sum(each.square().sum() for each in outputs if each.requires_grad)
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        return [x.detach() for x in (*outputs, *(g for g in gradients if g is not None))]

    same_there(outputs_and_gradients, model, *inputs)


def flat(x: object) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x]
    return [each for part in x for each in flat(part)] if isinstance(x, tuple) else []


GENERATES = {
    "GPT": lambda: GPT(N, LONG, SIZES),
    "cached GPT": lambda: GPT(N, LONG, SIZES),
    "linear transformer": lambda: LinearTransformer(N, SIZES),
    "Llama": lambda: Llama(N, Sizes(12, 2, 11, 1), 1),
    "GatedDeltaNet": lambda: GatedDeltaNet(N, SIZES),
    "Transformer-XL": lambda: TransformerXL(N, SIZES, 3),
}


@pytest.mark.parametrize("name", GENERATES)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_continues_a_prompt(name, lengths, same_there):
    if name in ("linear transformer", "GatedDeltaNet", "Transformer-XL") and lengths is not None:
        pytest.skip("its prompts all have one length")
    torch.manual_seed(0)

    def write(model: nn.Module, prompt: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        writer = CachedGPT(model) if name == "cached GPT" else model
        return generate(writer, prompt, 4, lambda logits: logits.argmax(-1), lengths)

    same_there(write, GENERATES[name](), WORDS, lengths)


def test_writes_from_a_cache_that_does_not_grow(same_there):
    torch.manual_seed(0)

    def write(model: Llama, tokens: torch.Tensor) -> torch.Tensor:
        state, logits = model.start(tokens[:, :0]), []
        for each in tokens.unbind(1):
            row, state = model.step(each, model.windowed(state, 2, 1))
            logits.append(row)
        return torch.stack(logits, dim=1)

    same_there(write, GENERATES["Llama"](), WORDS)


def test_samples_with_a_generator_of_the_device(device):
    logits = torch.randn(B, N, generator=torch.Generator().manual_seed(0)).to(device)
    with watching():
        drawn = [sample(logits, k=5, p=0.9, generator=torch.Generator(device).manual_seed(1)) for _ in range(2)]
    assert torch.equal(drawn[0].cpu(), drawn[1].cpu())
    assert drawn[0].device.type == device.type


def test_a_draft_proposes_and_the_model_judges(same_there):
    torch.manual_seed(0)

    def write(model: nn.Module, prompt: torch.Tensor) -> torch.Tensor:
        one_hot = torch.eye(N, dtype=torch.float64, device=prompt.device)

        def sharp(logits: torch.Tensor) -> torch.Tensor:
            return one_hot[logits.argmax(-1)]

        return speculative(model, lambda tokens: one_hot[tokens[0, -1]], prompt, 4, 2, sharp).tokens

    same_there(write, GENERATES["GPT"]().eval(), WORDS[:1])


@pytest.mark.parametrize("draft", [certain_draft, known_draft, mistaken_draft, uniform_draft])
def test_a_known_model_and_its_drafts(draft, same_there):
    tokens = torch.tensor([[0, 3, 5]])
    same_there(lambda x: [known_model(x), known_law(x.device), draft(x), greedy_probabilities(known_model(x))], tokens)


def test_fills_the_surest_gap(same_there):
    mask = N - 1
    tokens = torch.tensor([[mask, 2, mask, 0], [1, mask, 3, mask]])
    same_there(generation.fill_surest, real(*tokens.shape, N).detach(), tokens, mask)


@pytest.mark.parametrize("width", [1, 3])
def test_beams(width, same_there):
    torch.manual_seed(0)
    model = Transformer(N, N, SIZES)

    def translate(model: Transformer, source: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state, first = model.start(source, lengths), torch.full_like(lengths, 1)
        beam = beam_search(model.step, state, first, end=2, padding=0, max_length=4, width=width, penalty=0.6)
        return (*beam, greedy(model.step, state, first, 2, 0, 4))

    same_there(translate, model, WORDS, LENGTHS)


@pytest.mark.parametrize("decoder", [lambda: PlainDecoder(N, 3, 7, 10), lambda: BahdanauDecoder(N, 3, 7, 10, 11)])
@pytest.mark.parametrize("run", [bidirectional_gru, stacked_bidirectional_gru, fused_bidirectional_gru])
def test_translates(decoder, run, same_there):
    torch.manual_seed(0)
    model = Seq2Seq(Encoder(N, 3, 5, run), decoder())
    same_there(lambda model, x, n: [t for t in greedy_translation(model, x, n, 4) if t is not None], model, WORDS, LENGTHS)


@pytest.mark.parametrize(
    ("make", "picture"), [(lambda: ShowAndTell(N, 7, 2, 3), (B, 7)), (lambda: ShowAttendAndTell(N, 7, 2, 3, 11), (B, 4, 7))]
)
def test_captions(make, picture, same_there):
    torch.manual_seed(0)

    def describe(model: nn.Module, picture: torch.Tensor) -> torch.Tensor:
        first = torch.ones(len(picture), dtype=torch.long, device=picture.device)
        return greedy(model.step, model.start(picture), first, 2, 0, 4)

    same_there(describe, make(), torch.randn(picture))


@pytest.mark.parametrize(
    "make",
    [
        lambda: RNN(3, 5),
        lambda: RNN(3, 5, hoisted_rnn),
        lambda: LSTM(3, 5),
        lambda: LSTM(3, 5, fused_lstm),
        lambda: GRU(3, 5),
        lambda: GRU(3, 5, fused_gru),
    ],
)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_recurrent_layers(make, lengths, same_there):
    torch.manual_seed(0)
    same_there(lambda cell, x, n: cell(x, lengths=n), make(), torch.randn(*WORDS.shape, 3, requires_grad=True), lengths)


def real(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


def state_of(*size):
    return [real(*size), real(*size)]


PARTS = {
    "sentence head": (lambda: models.SentenceHead(6, 7), real(B, 4, 6)),
    "span head": (lambda: models.SpanHead(6), real(B, 4, 6), LENGTHS),
    "tag head": (lambda: models.TagHead(6, 7), real(B, 4, 6)),
    "document": (
        lambda: lambda x, mask, *w: models.compose_document(x, mask, w[:3], w[3:]),
        real(B, 2, 4, 6),
        torch.tensor([2, 4, 0, 1, 3, 4]).view(B, 2, 1) > torch.arange(4),
        *(real(7, 6), real(7), real(7)),
        *(real(7, 6), real(7), real(7)),
    ),
    "mixed layers": (lambda: models.scalar_mix, real(B, 4, 3, 6), real(3), real(1).detach()[0]),
    "moving average": (lambda: lambda *x: models.ema_update(x[:2], x[2:], 0.9), *state_of(3, 5), *state_of(3, 5)),
    "moving average in place": (
        lambda: lambda *x: ema_update_([y.clone() for y in x[:2]], x[2:], 0.9),
        *(x.detach() for x in (*state_of(3, 5), *state_of(3, 5))),
    ),
    "penalty of a captioner": (lambda: models.doubly_stochastic_penalty, real(B, 4, 5)),
    "object block": (
        lambda: lambda x, q, c, p, *w: models.object_block(x, q, c, p, w[:4], w[4:8], w[8:12], (w[12:14], w[14:16], w[16:]), 2),
        *(real(B, 3, 6), real(3, 6), real(B, 4, 6), real(4, 6)),
        *(real(6, 6) for _ in range(8)),
        *(real(7, 6), real(7), real(6, 7)),
        *(real(6) for _ in range(7)),
    ),
    "shared encoder": (
        lambda: lambda x, *w: models.shared_encoder(x, w[:4], w[4:8], (w[8:10], w[10:12]), 3, 2),
        real(B, 4, 6),
        *(real(6, 6) for _ in range(4)),
        *(real(11, 6), real(11), real(6, 11), real(6)),
        *(real(6) for _ in range(4)),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_model(name, same_there):
    make, *inputs = PARTS[name]
    torch.manual_seed(0)
    same_there(make(), *inputs)


@pytest.mark.parametrize("form", [models.DETR, models.LuongDecoder, models.ShowAndTell])
def test_dropout_draws_on_the_device(form, device):
    name = next(name for name in MODELS if form.__name__ == name or (form is models.LuongDecoder and name == "Seq2Seq, Luong"))
    make, inputs = MODELS[name]
    model = make().to(device).train()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.5
    one, other = (flat(model(*(x.to(device) for x in inputs)))[0] for _ in range(2))
    assert one.device.type == device.type
    assert not torch.equal(one.cpu(), other.cpu())


def test_every_public_model_ran_here():
    for package in (models, fast.bahdanau, fast.bigru_encoder, fast.gpt):
        assert never_ran(package) == set()


def test_everything_public_that_generates_ran_here():
    """A prompt of examples is a text."""
    assert never_ran(generation) == {"few_shot_prompt"}
