"""Models refuse lengths and tokens that do not fit their sequences, where broadcasting would give wrong numbers."""

import pytest
import torch

from course_lib.attention import linear_attention_step
from course_lib.blocks import Sizes, encoder_stack
from course_lib.fast import CachedGPT, inplace_linear_attention_step
from course_lib.models import (
    BERT,
    GPT,
    ELMo,
    Encoder,
    LinearTransformer,
    Llama,
    SharedSteps,
    Transformer,
    TransformerXL,
    Universal,
)
from tests.course_lib.models.compiled import EDGES, MODELS, VARIANTS, tensors

B, T, N = 3, 5, 11
SIZES = Sizes(6, 3, 7, 2)
TOKENS = torch.arange(B * T).view(B, T) % N
pytestmark = pytest.mark.usefixtures("unchecked")

READS = {
    "BERT": lambda x, n: BERT(N, T, SIZES)(x, lengths=n),
    "Transformer": lambda x, n: Transformer(N, N, SIZES)(x, n, x),
    "Transformer, start": lambda x, n: Transformer(N, N, SIZES).start(x, n),
    "Universal": lambda x, n: Universal(N, 2, 6, SharedSteps(encoder_stack(SIZES), 2))(x, n),
    "Encoder": lambda x, n: Encoder(N, 2, 7)(x, n),
    "ELMo": lambda x, n: ELMo(N, 2, 2)(x, n),
    "GPT, start": lambda x, n: GPT(N, T, SIZES).start(x, n),
    "cached GPT, start": lambda x, n: CachedGPT(GPT(N, T, SIZES)).start(x, n),
}
every_reader = pytest.mark.parametrize("name", READS)


@every_reader
@pytest.mark.parametrize("lengths", [[2], [2, 5], [[2], [5], [3]], [5, 2, 3, 1]])
def test_there_is_one_length_for_each_sequence(name, lengths):
    lengths = torch.tensor(lengths)
    with pytest.raises(ValueError, match=r"3 sequences need one length each|needs .* lengths") as refusal:
        READS[name](TOKENS, lengths)
    assert f"{tuple(lengths.shape)}" in str(refusal.value)


@every_reader
@pytest.mark.parametrize(("lengths", "message"), [([5, -1, 2], "cannot have -1 tokens"), ([5, 9, 2], "9 tokens does not fit")])
def test_a_length_is_from_0_to_the_padded_length(name, lengths, message):
    if name == "ELMo":
        message = r"lengths must be 3 numbers from 0 to T = 5"
    with pytest.raises(ValueError, match=message):
        READS[name](TOKENS, torch.tensor(lengths))


@every_reader
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool])
def test_a_length_is_an_integer(name, dtype):
    """A bool or uint8 tensor would index as a mask."""
    with pytest.raises(TypeError, match=f"lengths must be .*, got {dtype}"):
        READS[name](TOKENS, torch.tensor([5, 2, 3]).to(dtype))


WRITES = {
    "GPT": lambda: GPT(N, 7, SIZES),
    "cached GPT": lambda: CachedGPT(GPT(N, 7, SIZES)),
    "linear transformer": lambda: LinearTransformer(N, SIZES),
    "Llama": lambda: Llama(N, Sizes(12, 2, 7, 2), 1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("shape", [(1,), (2,), (B, 1), ()])
def test_a_step_reads_one_token_of_each_sequence(name, shape):
    model = WRITES[name]()
    with pytest.raises(ValueError, match="one token of each sequence: the state has 3") as refusal:
        model.step(torch.zeros(shape, dtype=torch.long), model.start(TOKENS))
    assert f"got {shape}" in str(refusal.value)


@pytest.mark.parametrize("shape", [(1,), (2,), (B, 1)])
def test_a_step_of_a_translation_reads_one_word_of_each_sentence(shape):
    model = Transformer(N, N, SIZES)
    with pytest.raises(ValueError, match="one token of each sequence: the state has 3"):
        model.step(torch.zeros(shape, dtype=torch.long), model.start(TOKENS, torch.tensor([5, 2, 3])))


def test_a_step_of_transformer_xl_reads_one_token_of_each_text():
    model = TransformerXL(N, SIZES, 2)
    with pytest.raises(RuntimeError, match="Expected size 3 but got size 1"):
        model.step(torch.zeros(1, dtype=torch.long), model.start(TOKENS))


@pytest.mark.parametrize("step", [linear_attention_step, inplace_linear_attention_step])
@pytest.mark.parametrize(("f_q", "f_k", "f_z", "d_v"), [(1, 5, 5, 7), (5, 1, 5, 7), (5, 5, 1, 7), (5, 5, 5, 1)])
def test_a_step_of_linear_attention_has_the_features_of_its_state(step, f_q, f_k, f_z, d_v):
    S, z = torch.zeros(B, 5, 7), torch.zeros(B, f_z)
    with pytest.raises(ValueError, match="linear_attention_step needs S"):
        step(S, z, torch.ones(B, f_q), torch.ones(B, f_k), torch.ones(B, d_v))


MAPPED = {
    "BERT": lambda: BERT(N, T, SIZES),
    "Transformer": lambda: Transformer(N, N, SIZES),
    "Encoder": lambda: Encoder(N, 2, 7),
    "ELMo": lambda: ELMo(N, 2, 2),
    "Universal": lambda: Universal(N, 2, 6, SharedSteps(encoder_stack(SIZES), 2)),
}


@pytest.mark.parametrize("name", MAPPED)
def test_lengths_may_be_mapped_over(name):
    """`torch.vmap` hides the values of lengths: nothing is checked, as while compiling, and the numbers are the same."""
    torch.manual_seed(0)
    model = MAPPED[name]().eval()
    tokens, lengths = torch.stack([TOKENS, TOKENS.flip(1)]), torch.tensor([[5, 2, 3], [4, 5, 1]])

    def read(x, n):
        out = model(x, n, x) if name == "Transformer" else model(x, lengths=n)
        return out if isinstance(out, torch.Tensor) else out[0]

    one_by_one = torch.stack([read(*each) for each in zip(tokens, lengths, strict=True)])
    torch.testing.assert_close(torch.vmap(read)(tokens, lengths), one_by_one)


OF_BATCHES = {name: each for name, each in (MODELS | VARIANTS).items() if each[1][-1] is not EDGES}


@pytest.mark.parametrize("name", OF_BATCHES)
def test_an_empty_batch_gives_empty_outputs(name):
    make, inputs = OF_BATCHES[name]
    found = tensors(make().eval()(*(x[:0] for x in inputs)))
    assert found
    assert not any(x.numel() for x in found if x.dim())
