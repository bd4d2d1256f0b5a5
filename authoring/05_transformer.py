# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["header"]
# # 05 · The Transformer
#
# A Transformer translates with attention alone: it has no recurrence, and in training it processes all positions in parallel.
#
# You will write its parts, read the whole model and its training in one piece, train it on dates and on messages where one look-up
# depends on another, and look at where it attends.
#
# **Prerequisites:** lectures 02 (alignment) and 04 (self-attention). **Time:** {minutes}. {measured}
#
# ![](diagram:transformer)

# %%
from functools import partial
from itertools import islice
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib import models
from course_lib.attention import multi_head_attention, scaled_dot_product_attention
from course_lib.attention.rotary import rotary_speeds, rotate
from course_lib.blocks import AttentionWeights, FeedForwardWeights, NormWeights, Sizes
from course_lib.datasets import BEGIN, END, PADDING, Vocabulary
from course_lib.generation import Extension, beam_search
from course_lib.metrics import bleu
from course_lib.primitives import batch_norm, causal_mask, padding_mask
from course_lib.shapes import Mask, Memory, TokenFeatures
from course_lib.training import batches
from course_tools.lectures.lecture_05 import cipher, experiments, figures
from course_tools.notebook import check, claim, device, explore, ledger, plots, predict
from course_tools.notebook import progress, show, show_study, source
from course_tools.notebook.translation import date_sentences

# Exercises 05.1 to 05.6 replace these functions of the library by your own:
from course_lib.blocks import decoder_block, encoder_block, feed_forward
from course_lib.blocks import pre_norm_encoder_block
from course_lib.primitives import layer_norm, sinusoidal_positions

# %% [markdown]
# ## 1 A bag of characters
#
# The recurrent encoder of lecture 02 reads a sentence one token after another. Self-attention does not: it compares all tokens
# with all others at once, and has no information about their order (lecture 04). So the dates *12.03.1987* and *21.03.1987* are
# the same to it, and whatever it answers, one of the two answers is wrong.

# %%
# (source, target) by the number of dates: known[1] and known[2] to train, new to test.
known, new, (letters, characters) = date_sentences()
print(known[1][0], known[2][0], sep="\n")

# %% [markdown] tags=["predict"]
# **Predict.** A model without positions reads each date as a bag of characters. Which new dates can it convert?
#
# <details><summary>A. None at all.</summary>
#
# Now and then a bag can be read in only one way, such as that of *Mar 2, 2022*, and some guesses are right.</details>
# <details><summary>B. Most: the model can infer the order from the words.</summary>
#
# From a bag it can infer what the letters *must* spell, such as a month. Digits can be in any order.</details>
# <details><summary>C. A few: it must guess among the days that the characters allow.</summary>
#
# Yes. The letters show the month, whatever their order. The digits show neither day nor year, since *12* and *21* are the same
# bag. Section 6 measures how many of its guesses are right.</details>


# %%
def no_positions(T, d_model, device=None):
    """The same vector at every position."""
    return torch.zeros(T, d_model, device=device)


def untrained_logits(text, answer="1987"):
    """Logits of an untrained Transformer without positions."""
    torch.manual_seed(0)
    sizes = len(letters), len(characters), Sizes(64, 4, 128, 1)
    model = models.Transformer(*sizes, positions=no_positions)
    return model(*letters.batch([text]), characters.batch([answer], begin=True)[0])


logits = untrained_logits("12 mars 1987")
torch.testing.assert_close(logits, untrained_logits("1789 rams 21"))
print("both texts get the same logits")

# %% [markdown]
# ## 2 Positions
#
# The remedy is to **add** to every token's embedding a vector that says where the token stands. Why not the number $t$ itself? It
# would soon drown the token, and $t/T$ would make the step to the neighbour depend on the length. The paper takes sines and
# cosines: each pair of features is the hand of a clock, and each clock turns at its own speed, as the digits of a counter do.
#
# With `d_model` = 4 there are two clocks. The first turns by 1 radian a position, the second by 1/100.

# %%
figures.show_clocks((0, 1, 2, 10, 50, 150))

# %% [markdown]
# | position | sin t | cos t | sin t/100 | cos t/100 |
# | --- | --- | --- | --- | --- |
# | 0 | 0 | 1 | 0 | 1 |
# | 1 | 0.841 | 0.540 | 0.010 | 1.000 |
# | 2 | 0.909 | −0.416 | 0.020 | 1.000 |
#
# Neighbours have the same dot product wherever they are: $PE_0 \cdot PE_1 = 0.540 + 1.000 = 1.540$, and $PE_1 \cdot PE_2 =
# 0.765 - 0.225 + 1.000 = 1.540$. In general, with $d$ = `d_model` and $i = 0, 1, \dots$ counting the pairs (section 3.5 of the
# paper):
#
# $$PE_{t,\,2i} = \sin\!\left(t / 10000^{2i/d}\right) \qquad PE_{t,\,2i+1} = \cos\!\left(t / 10000^{2i/d}\right)$$
#
# The result has shape (T, d_model). The embedding is multiplied by $\sqrt d$ before the sum, so that the two are of similar size.

# %% exercise="05.1" difficulty="●●○" minutes=10
from course_lib.primitives import sinusoidal_positions

# %% tags=["nbval-check-output"]
sinusoidal_positions = check("05.1", sinusoidal_positions)

# %% tags=["cover"]
print(sinusoidal_positions(3, 4))  # the table above
table = sinusoidal_positions(48, 32)
nearness = table @ table.mT / 16
figure = plots.score_maps(
    {"PE, one row per position": table, "PE · PEᵀ, divided by d/2": nearness},
    x="feature",
    y="position",
)
figure.axes[1].set_xlabel("position")
figure.axes[-1].set_ylabel("value")
show(
    figure,
    alt="Left, the sinusoidal positions: fast waves in the first features, slow ones "
    f"in the last. Right, their dot products: {nearness[20, 20]:.2f} with itself, "
    f"{nearness[20, 21]:.2f} with the next position, {nearness[20, 40]:.2f} at "
    "distance 20.",
)

# %% [markdown] tags=["predict"]
# **Predict.** A head may need the token three places to the *right* of the query, wherever the query is. Can it find this
# token by the dot product of $PE_t$ with $PE_{t+3}$?
#
# <details><summary>A. No: three places to the left, the dot product is the same.</summary>
#
# Yes: $\sin a \sin b + \cos a \cos b = \cos(a - b)$, summed over the clocks, and a cosine has no sign of direction. To tell the
# two apart, a head needs a matrix, and one fixed rotation turns every $PE_t$ into $PE_{t+3}$.</details>
# <details><summary>B. No: the dot product is another one for each t.</summary>
#
# That holds for *learned* vectors: nothing relates the vector of position 5 to that of position 6.</details>
# <details><summary>C. It can: the dot product is the same for every t.</summary>
#
# It is, but another token has the same one.</details>

# %%
pe = sinusoidal_positions(200, 32).double()
angle = 3 / 10_000 ** (torch.arange(0, 32, 2) / 32).double()
turned = torch.empty_like(pe)
turned[:, 0::2] = pe[:, 0::2] * angle.cos() + pe[:, 1::2] * angle.sin()
turned[:, 1::2] = pe[:, 1::2] * angle.cos() - pe[:, 0::2] * angle.sin()
torch.testing.assert_close(turned[:-3], pe[3:], atol=1e-3, rtol=0)
print("one rotation turns every PE_t into PE_{t+3}")

# %% [markdown]
# The rotation moves every clock on by three positions. **Rotary positions** (RoPE, Su et al. 2021) turn the queries and keys
# themselves: nothing is added to the embeddings; before the score is computed, each query and each key is turned as its position
# says. Below, one query and one key stand in three places, the key always three to the right: the score is the same. Most language
# models of today do this; in the library it is `course_lib.attention.rotary`.

# %% tags=["try-it"]
# Try it: a key four places on, or three places back.
torch.manual_seed(0)
q, k, speeds = torch.randn(1, 8), torch.randn(1, 8), rotary_speeds(8)
for t in (0, 5, 40):
    score = rotate(q, speeds, start=t) @ rotate(k, speeds, start=t + 3).mT
    print(f"query turned to {t:2}, key turned to {t + 3:2}: score {score.item():.4f}")

# %% [markdown]
# ## 3 One block
#
# A block passes on a stream of vectors, one for each token. Two **sublayers** read the stream, compute something, and **add** it
# to what flows by: attention brings in information from other tokens, and a small network transforms each token by itself. The
# two sums are called **residual connections**; a sum and the norm after it together are the *add & norm* of the diagram.

# %%
figures.show_river()

# %% [markdown]
# After each sum, **layer normalisation** brings every token back to one scale. It subtracts the mean of the token's $d$
# features, divides by their standard deviation, and applies a learned gain $g$ and bias $b$. For the features (1, 2, 3, 6): the
# mean is 3, the variance (4 + 1 + 0 + 9) / 4 = 3.5, and the result (−1.07, −0.53, 0, 1.60).
#
# $$y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot g + b \qquad \mu = \tfrac1d \sum_i x_i \quad \sigma^2 = \tfrac1d \sum_i (x_i - \mu)^2$$
#
# `x` and the result have shape (…, d), `gain` and `bias` (d,); a small $\varepsilon$ avoids a division by 0. Batch normalisation
# would average over all tokens of the batch instead, so that the other sentences would change the result.

# %% exercise="05.2" difficulty="●○○" minutes=5
from course_lib.primitives import layer_norm

# %% tags=["nbval-check-output"]
layer_norm = check("05.2", layer_norm)

# %% tags=["guard", "nbval-check-output"]
generator = torch.Generator().manual_seed(0)
sentence = torch.randn(1, 5, 16, generator=generator)
both = torch.cat([sentence, 3 + 5 * torch.randn(1, 5, 16, generator=generator)])
changes = [
    (
        norm(both, torch.ones(16), torch.zeros(16))[:1]
        - norm(sentence, torch.ones(16), torch.zeros(16))
    )
    .abs()
    .max()
    for norm in (layer_norm, batch_norm)
]
claim("05.f", layer=changes[0], batch=changes[1])

# %% [markdown]
# **The network** expands each token to $d_{ff}$ features and projects back (eq. 2). In the paper $d_{ff} = 4d$,
# so these two matrices have $8d^2$ weights, and the four of an attention $4d^2$. With `torch.nn.Linear`'s shapes,
# `W_1` (d_ff, d_model) and `W_2` (d_model, d_ff), a product is `x @ W_1.mT`:
#
# $$\mathrm{FFN}(x) = \mathrm{ReLU}(x W_1 + b_1)\, W_2 + b_2$$

# %% exercise="05.3" difficulty="●○○" minutes=5
from course_lib.blocks import feed_forward

# %% tags=["nbval-check-output"]
feed_forward = check("05.3", feed_forward)

# %% [markdown]
# **The encoder block** is this stream in two lines (section 3.1 of the paper), where LN is your layer norm and MHA the attention of
# lecture 04:
#
# $$h = \mathrm{LN}(x + \mathrm{MHA}(x, x, x)) \qquad y = \mathrm{LN}(h + \mathrm{FFN}(h))$$
#
# | name | what is in it |
# | --- | --- |
# | `attention` | `(W_q, W_k, W_v, W_o)`, for `multi_head_attention(q, k, v, *attention, n_heads, mask)`, whose result is a pair: `.context` and `.weights` |
# | `network` | `(W_1, b_1, W_2, b_2)` |
# | `norms` | `((gain, bias), (gain, bias))`, in the order in which they are applied |

# %% exercise="05.4" difficulty="●●○" minutes=10
from course_lib.blocks import encoder_block

# %% tags=["nbval-check-output"]
encoder_block = check("05.4", encoder_block)

# %% [markdown]
# ## 4 The decoder block
#
# The decoder writes the answer token by token. Its block has *three* sublayers, and it attends twice: to the answer so far, and to
# the output of the encoder, the **memory**. All attention of the Transformer is in this table:
#
# | attention | queries from | keys from | values from | what a query may see |
# | --- | --- | --- | --- | --- |
# | in the encoder | source | source | source | all of the source but padding |
# | in the decoder, first | answer | answer | answer | its own token and earlier ones |
# | in the decoder, second: *cross* | answer | memory | memory | all of the source but padding |
#
# $$h = \mathrm{LN}(x + \mathrm{MHA}(x, x, x;\ \text{causal})) \quad m = \mathrm{LN}(h + \mathrm{MHA}(h, \text{memory}, \text{memory})) \quad y = \mathrm{LN}(m + \mathrm{FFN}(m))$$
#

# %%
figures.show_river(decoder=True)

# %% [markdown]
# In training the whole answer is known, so the decoder reads all of it at once, shifted by one place:
#
# | position | 0 | 1 | 2 | 3 | 4 | 5 |
# | --- | --- | --- | --- | --- | --- | --- |
# | the decoder reads | BEGIN | 1 | 9 | 8 | 7 | - |
# | and is to predict | 1 | 9 | 8 | 7 | - | 0 |
#
# Position 2 must predict 8, and 8 stands next to it. The **causal mask** hides it: a query sees keys up to its own position.

# %%
read, predicted = ["BEGIN", *"1987-"], list("1987-0")
figure = plots.attention_map(
    causal_mask(6).float(),
    predicted,
    read,
    x="the decoder reads",
    y="and is to predict",
)
figure.axes[-1].set(ylabel="", yticks=[0, 1], yticklabels=["hidden", "may attend"])
show(
    figure,
    alt="Causal mask: the row that predicts 1 sees BEGIN alone, the next one BEGIN "
    "and 1, and so on; the last row sees all six tokens.",
)

# %% [markdown]
# | name | shape |
# | --- | --- |
# | `x`, `memory` | (B, T, d_model), (B, T_k, d_model) |
# | `own`, `cross` | the four matrices of the first and of the second attention |
# | `memory_mask` | (B, 1, T_k): True where the memory is not padding |
# | `causal_mask(T, device=x.device)` | (T, T): True where the key is not later than the query |

# %% exercise="05.6" difficulty="●●●" minutes=15
from course_lib.blocks import decoder_block

# %% tags=["nbval-check-output"]
decoder_block = check("05.6", decoder_block)

# %% [markdown]
# The weights of a block are lists, in the order in which your functions take them.


# %%
def matrix(n_out, n_in):
    """Random weights, as large as the two sizes require (Glorot and Bengio)."""
    return nn.init.xavier_uniform_(torch.empty(n_out, n_in))


def attention(d):
    """W_q, W_k, W_v, W_o."""
    return nn.ParameterList(matrix(d, d) for _ in range(4))


def network(d, d_ff):
    """W_1, b_1, W_2, b_2."""
    biases = torch.zeros(d_ff), torch.zeros(d)
    return nn.ParameterList([matrix(d_ff, d), biases[0], matrix(d, d_ff), biases[1]])


def norms(n, d):
    """A gain and a bias for each of n norms."""
    pairs = ([torch.ones(d), torch.zeros(d)] for _ in range(n))
    return nn.ModuleList(map(nn.ParameterList, pairs))


# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). In the table above, the decoder reads a 3 in place of the 8. How many of the six predictions can
# change?
#
# <details><summary>3</summary>
#
# Those of 7, of - and of 0: the positions that have read the changed token or come after it. No earlier prediction knows of
# it.</details>
# <details><summary>6</summary>
#
# In the encoder every token attends to every other. The causal mask cuts the connections from later to earlier tokens.</details>
# <details><summary>1</summary>
#
# That of 7 follows the changed token. The later positions attend to it as well.</details>


# %%
torch.manual_seed(0)
x, memory = (torch.randn(1, n, 16, requires_grad=True) for n in (6, 9))
weights = attention(16), attention(16), network(16, 32), norms(3, 16)
y = decoder_block(x, memory, *weights, 4, padding_mask(torch.tensor([7]), 9))
loss = (y[0, 3] * torch.randn(16)).sum()  # position 3 alone
of_x, of_memory = torch.autograd.grad(loss, (x, memory))
for name, gradient in {"x": of_x, "memory": of_memory}.items():
    sizes = [f"{size:.2f}" for size in gradient[0].norm(dim=-1).tolist()]
    print(f"gradient of position 3, by position of {name}:", *sizes)

# %% [markdown]
# ## 5 Read the whole Transformer
#
# This is the model of the paper, around your functions.


# %%
class Transformer(nn.Module):
    """Encoder and decoder, from tokens to the logits of the next token."""

    def __init__(
        self, n_source, n_target, positions, d=64, n_heads=4, d_ff=128, N=(1, 1)
    ):
        super().__init__()
        self.d, self.n_heads, self.positions = d, n_heads, positions
        self.source_words = nn.Parameter(torch.randn(n_source, d) / d**0.5)
        self.target_words = nn.Parameter(torch.randn(n_target, d) / d**0.5)
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        for _ in range(N[0]):
            encoder = [attention(d), network(d, d_ff), norms(2, d)]
            self.encoder.append(nn.ModuleList(encoder))
        for _ in range(N[1]):
            decoder = [attention(d), attention(d), network(d, d_ff), norms(3, d)]
            self.decoder.append(nn.ModuleList(decoder))

    def embed(self, words, tokens):
        positions = self.positions(tokens.shape[1], self.d, device=tokens.device)
        return self.d**0.5 * words[tokens] + positions

    def encode(self, source, lengths):
        mask = padding_mask(lengths, source.shape[1])
        x = self.embed(self.source_words, source)
        for weights in self.encoder:
            x = encoder_block(x, *weights, self.n_heads, mask)
        return x, mask

    def decode(self, target, memory, mask):
        y = self.embed(self.target_words, target)
        for weights in self.decoder:
            y = decoder_block(y, memory, *weights, self.n_heads, mask)
        return y @ self.target_words.mT

    def forward(self, source, lengths, target):
        return self.decode(target, *self.encode(source, lengths))

    @torch.no_grad()
    def translate(self, source, lengths, most=23):
        memory, mask = self.encode(source, lengths)
        answer = torch.full((len(source), 1), BEGIN, device=source.device)
        for _ in range(most):
            logits = self.decode(answer, memory, mask)[:, -1]
            answer = torch.cat([answer, logits.argmax(-1, keepdim=True)], dim=1)
            if (answer == END).any(dim=1).all():
                break
        return answer[:, 1:]


# %% [markdown] tags=["quiz"]
# **Read the code.** What is different in training and in use? Where do the two halves meet? Which matrix is used twice?
#
# <details><summary>Answer</summary>
#
# Training calls `forward` with the true answer, all positions in one pass. `translate` has no answer: it calls `decode` again and
# again on what it has written (lecture 07 keeps keys and values instead). The halves meet in `memory`, and `target_words` is both
# embedding and output matrix.</details>

# %% [markdown] tags=["predict"]
# **Predict.** What are the sums for? Take them away: each half returns the norm of its sublayer alone. The tokens of a
# sentence start as random vectors and pass three untrained blocks. What has become of them?
#
# <details><summary>A. They are as different as before: the norm keeps their size.</summary>
#
# It keeps the size of each vector, not the angles between them.</details>
# <details><summary>B. They are nearly one and the same vector.</summary>
#
# Yes: untrained attention mixes all tokens almost evenly, so each token becomes nearly the mean of all. The sum keeps a part of what
# was the token's own.</details>
# <details><summary>C. They are more different than before: nothing of the old vectors is left.</summary>
#
# Nothing is left of them, but what replaces them is nearly the same for all: a mean over the sentence.</details>


# %%
def untrained_block(x, add):
    """An encoder block of new weights; `add` = 0 takes its two sums away."""
    gains = norms(2, 64)
    context = multi_head_attention(x, x, x, *attention(64), 4).context
    h = layer_norm(add * x + context, *gains[0])
    return layer_norm(add * h + feed_forward(h, *network(64, 128)), *gains[1])


print("mean cosine between the 12 tokens of a sentence, after 0 to 3 blocks:")
for name, add in {"with the sums": 1, "without": 0}.items():
    torch.manual_seed(0)
    x, alike = torch.randn(12, 64), []
    for _ in range(4):
        cosines = F.cosine_similarity(x[:, None], x, dim=-1)
        alike.append(f"{cosines[~torch.eye(12).bool()].mean().item():5.2f}")
        x = untrained_block(x[None], add)[0]
    print(f"{name:<14}", *alike)

# %% [markdown]
# ## 6 The experiment
#
# The loop is that of lecture 02: teacher forcing, padding that no loss counts, Adam, gradients clipped at 1, and a rate that
# rises for a tenth of the updates and then falls to 0. First it trains two models on single dates, with positions and without;
# all else is the same.


# %%
dates = letters, characters


def convert(model, texts, words=dates):
    """The answers of a model to texts, by greedy decoding."""
    tokens, lengths = (part.to(device()) for part in words[0].batch(texts))
    return [words[1].decode(row) for row in model.translate(tokens, lengths).tolist()]


def exact_match(model, pairs, words=dates):
    """The share of pairs whose answer is right in every character."""
    answers = convert(model, [pair.source for pair in pairs], words)
    return mean(a == pair.target for a, pair in zip(answers, pairs, strict=True))


def learn(model, pairs, asked, steps, lr, words=dates):
    """Train a model on pairs; return the exact match on `asked`, by update."""
    source, lengths = words[0].batch([pair.source for pair in pairs])
    target, _ = words[1].batch([pair.target for pair in pairs], begin=True, end=True)
    data = (part.to(device()) for part in (source, lengths, target))
    stream = islice(batches(*data, batch_size=32, seed=0), steps)
    optimizer, right = torch.optim.Adam(model.to(device()).parameters()), {}
    stream = enumerate(progress(stream, "training", total=steps), start=1)
    for step, (source, lengths, target) in stream:
        rate = min(step / (0.1 * steps), (steps + 1 - step) / (0.9 * steps))
        optimizer.param_groups[0]["lr"] = lr * rate
        logits = model(source[:, : lengths.max()], lengths, target[:, :-1])
        loss = F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            right[step] = exact_match(model, asked, words)
    return right


# %% tags=["nbval-check-output"]
def new_transformer(positions=sinusoidal_positions):
    """A Transformer for dates, with the weights of seed 0."""
    torch.manual_seed(0)
    return Transformer(len(letters), len(characters), positions)


bag, single = new_transformer(no_positions), new_transformer()
of_bag, of_single = (
    learn(model, known[1], new[1][:100], steps=400, lr=3e-3) for model in (bag, single)
)
zero, positions = exact_match(bag, new[1]), exact_match(single, new[1])
claim("05.m", positions=positions, zero=zero)

# %% tags=["try-it"]
# Try your birthday, in English, German, French, Spanish, Italian, Dutch, Portuguese:
for text in ("14 juil. 1989", "5 mars 1987", "Nov 3, 2004"):
    print(f"{text:<15}{convert(single, [text])[0]:<12}{convert(bag, [text])[0]}")

# %% [markdown]
# ### Two look-ups in a row
#
# Is the Transformer the better translator of dates? Lecture 02's GRU with attention gets the same sentences, of one date and of two:

# %%
_ = show_study("05_dates")

# %% [markdown]
# **The GRU is ahead:** after 400 updates it converts the pairs, for which the Transformer, with 1.7 times the weights, needs about four
# times as many. Each digit of the answer is one look-up away, and the GRU's decoder looks at the source once for each character. What
# if one look is not enough?
#
# **A message that begins with its own key.** The first six characters say how *a*, *b*, …, *f* are written; six letters and digits
# follow, and the digits are not changed. The test messages have keys that occur in no other message.
#
# | key: a b c d e f | message | answer |
# | --- | --- | --- |
# | `f d a c b e` | `c 3 b 0 0 d` | `d 3 e 0 0 b` |
#
# The first look finds that the message begins with `c`. The second finds `c` in the key, in the fourth place: the letter is *d*. What
# to search for in the second is known only after the first.

# %% [markdown] tags=["predict"]
# **Predict.** Each decoder, with one block, has one attention to the source. Where can the other look-up be done by attention?
#
# <details><summary>A. In the encoder of the Transformer.</summary>
#
# Yes: there each character of the message knows what to search for, itself, and can attend to it in the key, all at once. The
# decoder then fetches what they found.</details>
# <details><summary>B. In the encoder of the GRU, which has read the key when it comes to the message.</summary>
#
# It has read it, but it has no attention: its state must carry the whole key along, and find one of six places in it.</details>
# <details><summary>C. Nowhere: neither model can do two look-ups for one character.</summary>
#
# A second attention need not stand in the decoder. (It may: that is the third curve below.)</details>

# %% tags=["nbval-check-output"]
source(cipher.messages)
secret, fresh = cipher.messages(48_000, seed=0), cipher.messages(300, seed=0, new=True)
code = 2 * (Vocabulary.of(pair.source for pair in secret),)
n = len(code[0])


def new_reader(N):
    """A Transformer for messages, with N[0] encoder and N[1] decoder blocks."""
    torch.manual_seed(0)
    return Transformer(n, n, sinusoidal_positions, N=N)


readers = {
    "Transformer": new_reader(N=(1, 1)),
    "without its encoder block": new_reader(N=(0, 1)),
    "two decoder blocks, no encoder": new_reader(N=(0, 2)),
}
right = {
    name: learn(model, secret, fresh[:100], 2_000, 5e-3, code)
    for name, model in readers.items()
}
figure = plots.curves(
    {name: (list(curve), list(curve.values())) for name, curve in right.items()},
    "update",
    "messages read without an error",
)
ends = [exact_match(model, fresh, code) for model in readers.values()]
told = "; ".join(f"{name} {end:.2f}" for name, end in zip(right, ends, strict=True))
show(
    figure,
    alt=f"New messages read without an error, by update; of 300, at the end {told}.",
)
claim("05.cipher", transformer=ends[0], one_look=ends[1], two_looks=ends[2])

# %% [markdown]
# A reader who copies the digits and guesses the letters gets 4 % of the messages right, and one decoder block alone is not much
# better. Two decoder blocks without an encoder read them, too: what counts is that one look can follow another.
#
# How does lecture 02's GRU with attention do, with as many weights as the Transformer? In the next figure it has three times the
# updates, and so have the two decoder blocks, which take longer from some first weights. (Each curve is a mean of three trainings.)

# %%
study = show_study("05_cipher")

# %% [markdown]
# **A layer of attention can look up what the layer before it has found**, for all positions at once. The GRU looks at the source
# once for each character, so its state must carry the key to each letter. It learns to read the messages, too, but later. Whether for
# this reason is open: in the study, a block of self-attention after its encoder sometimes makes the GRU faster, and one in which each
# character sees only itself never does. (Lecture 07 finds such a chain of look-ups inside GPT.)
#
# The paper itself names another advantage first: what an update costs where sentences are long.

# %% [markdown] tags=["predict"]
# **Predict.** Some operations can run at the same time, others must wait for a result. In training, how does the longest chain of
# operations that wait for one another grow with the length $T$ of the sentence?
#
# <details><summary>A. Like T in the GRU; like T² in the Transformer, which compares all pairs.</summary>
#
# There are $T^2$ products, but none needs another: enough processors compute them in one step.</details>
# <details><summary>B. Like T in the GRU; in the Transformer not at all.</summary>
#
# Yes. State $t$ of the GRU needs state $t - 1$. In attention, no token waits for another: the chain is as long as the model is
# deep.</details>
# <details><summary>C. Like T in both: the answer has T tokens.</summary>
#
# In use, yes: each token is written after the one before. In training the true answer is there from the start, and all
# positions are computed in one pass.</details>

# %% tags=["nbval-check-output"]
source(experiments.longest_chain)
source(experiments.GRUTranslator)
lengths = (64, 128, 256, 512, 1_024)
made = {"GRU": (experiments.unfused, experiments.GRUTranslator)}
made |= {"Transformer": 2 * (partial(Transformer, positions=sinusoidal_positions),)}
chains, seconds = {}, {}
for name, (slow, fast) in made.items():
    chains[name] = [experiments.longest_chain(slow(n, n), T, n) for T in lengths]
    seconds[name] = [experiments.cost_of_an_update(fast(n, n), T, n) for T in lengths]
figures.show_costs(lengths, seconds, chains)
(shortest, *_, longest), (constant, *others) = chains.values()
assert set(others) == {constant}  # at all five lengths
claim("05.chain", shortest=shortest, longest=longest, transformer=constant)

# %% [markdown]
# A GPU can work on all positions of a Transformer at once, and that is what the paper is about: it trained on 4.5 million
# sentence pairs in 12 hours on eight GPUs. Even on one core (right panel), its few large products are cheaper than the GRU's
# many small ones, by a factor of two to three at 64 tokens. But the time of attention grows with $T^2$, that of a GRU with $T$, and at
# 1,024 tokens the GRU is ahead.
#
# ## 7 Where does it look?
#
# Is the look into the key in the encoder, as predicted? Your `encoder_block` does not return its weights, so we repeat its first
# step, and the first two of the decoder. Red frames mark, on the left, where each letter of the message stands in the key; on
# the right, where each character of the answer stands in the message. A dark frame need not be a mistake: a head that
# looks at all the *other* places of the key tells the letter by exclusion.


# %%
@torch.no_grad()
def looks(model, source, answer):
    """Weights of each head (h, T, T_k): in the encoder, and from the answer."""
    tokens, lengths = (part.to(device()) for part in code[0].batch([source]))
    target = code[1].batch([answer], begin=True)[0].to(device())
    x = model.embed(model.source_words, tokens)
    y = model.embed(model.target_words, target)
    memory, mask = model.encode(tokens, lengths)
    own, cross, _, pairs = model.decoder[0]
    inside = multi_head_attention(x, x, x, *model.encoder[0][0], model.n_heads, mask)
    causal = causal_mask(y.shape[1], device=y.device)
    attended = multi_head_attention(y, y, y, *own, model.n_heads, causal)
    h = layer_norm(y + attended.context, *pairs[0])
    across = multi_head_attention(h, memory, memory, *cross, model.n_heads, mask)
    return inside.weights[0].cpu(), across.weights[0].cpu()


reader = readers["Transformer"]
shown = next((pair for pair in fresh if pair.target.isalpha()), fresh[0])
figures.show_looks(*looks(reader, *shown), *shown)

# %% tags=["try-it"]
# Try it: a key and a message of your own.
text = "fdacbe" + "c3b00d"
(answer,) = convert(reader, [text], code)
print(answer)
figures.show_looks(*looks(reader, text, answer), text, answer)

# %% [markdown]
# Does the answer come from this look-up? We take it away: in the encoder, no character of the message may see the key. As a
# control, we hide as many other places: no character of the key may see the message.


# %% tags=["nbval-check-output"]
@torch.no_grad()
def letters_right(model, pairs, hidden=None):
    """The share of letters that are right, each given those before it.

    `hidden`: the rows and columns of the encoder's attention that are masked.
    """
    tokens, lengths = (
        part.to(device()) for part in code[0].batch(p.source for p in pairs)
    )
    target = code[1].batch([pair.target for pair in pairs], begin=True)[0].to(device())
    seen = torch.ones(12, 12, dtype=torch.bool, device=tokens.device)
    if hidden is not None:
        seen[hidden] = False
    x = model.embed(model.source_words, tokens)
    memory = encoder_block(x, *model.encoder[0], model.n_heads, seen)
    logits = model.decode(target[:, :-1], memory, padding_mask(lengths, 12))
    letters = code[1].batch([cipher.LETTERS])[0].to(device())
    right = logits.argmax(-1) == target[:, 1:]
    return right[torch.isin(target[:, 1:], letters)].float().mean().item()


key, message = slice(0, 6), slice(6, 12)
hide = None, (message, key), (key, message)
whole, cut, beside = (letters_right(reader, fresh, hidden) for hidden in hide)
claim("05.look", whole=whole, cut=cut, beside=beside)

# %% [markdown]
# ## 8 From 2017 to today
#
# The block has hardly changed since. What has, part by part:
#
# | part | Transformer, 2017 | GPT-2, 2019 | Llama 3, 2024 |
# | --- | --- | --- | --- |
# | layer norm | after each sum (post-norm) | before each sublayer (pre-norm) | before each sublayer |
# | its formula | mean and standard deviation | the same | root mean square alone (RMSNorm) |
# | network | ReLU | GELU | a gate times a value (SwiGLU) |
# | positions | sinusoids, added | learned, added | rotary (RoPE) |
# | biases | in the network | everywhere | nowhere |
# | keys and values | each head its own | each head its own | shared by groups of heads (GQA) |
# | halves | encoder and decoder | decoder alone | decoder alone |
#
# RMSNorm divides by $\sqrt{\tfrac1d \sum_i x_i^2}$ and does not subtract the mean. SwiGLU is
# $(\mathrm{swish}(x W) \odot x V)\, W_2$. Grouped queries make the cache of keys and values smaller. Norms still find new
# places: Qwen3 also normalises queries and keys (2025, https://arxiv.org/abs/2505.09388). In lecture 17 you write all of the
# right column.

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** You remove the positional encoding from the *decoder* only, which has one block. What does the causal mask
# still tell it about the order?
#
# <details><summary>A. How many tokens there are so far.</summary>
#
# Right, in principle: the number of keys in the average changes with the position. This number does not tell *which* of them
# came first.</details>
# <details><summary>B. Nothing: it is permutation equivariant like the encoder.</summary>
#
# Without the mask it would be. With the mask, token 3 attends to three tokens and token 4 to four.</details>
# <details><summary>C. The exact order of all tokens.</summary>
#
# A single layer sees the preceding tokens as a bag. Several layers can do more, because each token has different preceding
# tokens.</details>
#
# **Question 2.** The source has 9 tokens, the answer 6. Which shape have the weights of one head of cross-attention?
#
# <details><summary>A. 9 × 6: each token of the source attends to the answer.</summary>
#
# The queries come from the answer, and there is a row for each query.</details>
# <details><summary>B. 6 × 6, with a causal mask.</summary>
#
# That is the first attention of the decoder. The memory needs no causal mask: all of the source may be read.</details>
# <details><summary>C. 6 × 9: each token of the answer attends to the source.</summary>
#
# Right: six queries, nine keys, and each row sums to 1.</details>
#
# **Question 3.** Why can the whole answer be trained in one pass, although it is written token by token?
#
# <details><summary>A. The positional encoding distinguishes the tokens.</summary>
#
# It does, but it does not hide later tokens.</details>
# <details><summary>B. The causal mask hides from each token what follows it.</summary>
#
# Right: with the true tokens as input, no prediction depends on another one, and all can be computed at once.</details>
# <details><summary>C. It cannot: that is the error called exposure bias.</summary>
#
# Exposure bias is real: in training the model never sees its own mistakes. It does not rule out training in a single
# pass.</details>

# %% [markdown]
# ## What came of it
#
# - The decoder alone became GPT (lecture 07), the encoder alone BERT (lecture 08); with patches of an image in place of words, the
#   encoder became the vision transformer (lecture 11).
# - The whole model lives on where one sequence becomes another: T5 turns every task into text to text (Raffel et al. 2020,
#   https://arxiv.org/abs/1910.10683), and Whisper writes down speech (Radford et al. 2022, https://arxiv.org/abs/2212.04356).
# - FlashAttention computes the same attention without storing the $T^2$ weights (Dao et al. 2022,
#   https://arxiv.org/abs/2205.14135).
# - In mixtures of experts, a router sends each token to a few of many feed-forward networks; of DeepSeek-V3's 671 billion
#   parameters, each token uses 37 billion (2024, https://arxiv.org/abs/2412.19437).
# - T5Gemma makes encoder-decoders of trained decoders again (Zhang et al. 2025, https://arxiv.org/abs/2504.06225).
#
# **Read on.** Vaswani et al. 2017, *Attention Is All You Need* (https://arxiv.org/abs/1706.03762), whose sections 3.1 to 3.5 you
# have now written · Su et al. 2021, *RoFormer* (https://arxiv.org/abs/2104.09864) · Zhang and Sennrich 2019, *Root Mean Square
# Layer Normalization* (https://arxiv.org/abs/1910.07467) · Shazeer 2020, *GLU Variants Improve Transformer*
# (https://arxiv.org/abs/2002.05202) · Ainslie et al. 2023, *GQA* (https://arxiv.org/abs/2305.13245) · *The Llama 3 Herd of
# Models* (https://arxiv.org/abs/2407.21783) · Rush 2018, *The Annotated Transformer*
# (https://nlp.seas.harvard.edu/annotated-transformer).

# %% [markdown]
# # Going further
#
# Each section stands on its own: what helps or hinders training (lecture 07 uses pre-norm, section 11), real sentences, beam
# search, the word "it", and two build tasks. After a restart, sections 10 and 13 need the cells up to the first training in
# section 6.

# %% [markdown] tags=["predict"]
# ## 10 Small positions
#
# Our embeddings have a standard deviation of $1/\sqrt d$, so that after multiplication by $\sqrt d$ a token's vector is about as
# large as that of its position. `torch.nn.Embedding` starts with a standard deviation of 1; its vectors would be $\sqrt d$ times
# as large as the positions. We reproduce this ratio alone, and divide the positions by $\sqrt d = 8$.
#
# **Predict a number** (exactly). The score of a query with a key is a sum of products: of token with token, of position with
# position, and of one with the other. By what factor does the division shrink the product of position with position?
#
# <details><summary>64</summary>
#
# Both of its factors are an eighth as large. The product of token with token is as large as before, so the first scores depend
# nearly on the tokens alone: the model is close to a bag of characters, and must first enlarge what it knows of the
# positions.</details>
# <details><summary>8</summary>
#
# The position of the query is divided, and that of the key as well.</details>
# <details><summary>1</summary>
#
# Layer norm would remove a factor of the whole *sum*, and it comes after the first attention. In the sum, the tokens stay
# large.</details>


# %% tags=["nbval-check-output"]
def small_positions(T, d_model, device=None):
    """The positions of 05.1, divided by the square root of d_model."""
    return sinusoidal_positions(T, d_model, device=device) / d_model**0.5


small, both = new_transformer(small_positions), new_transformer(small_positions)
for words in (both.source_words, both.target_words):
    words.data /= 8
of_small, of_both = (
    learn(model, known[1], new[1][:100], steps, lr=3e-3)
    for model, steps in ((small, 800), (both, 400))
)
curves = {"as large as the embeddings": of_single, "small": of_small}
curves["small, and so are the embeddings"] = of_both
figure = plots.curves(
    {name: (list(curve), list(curve.values())) for name, curve in curves.items()},
    "update",
    "exact match, new single dates",
)
shares = [exact_match(model, new[1]) for model in (single, small, both)]
show(
    figure,
    alt="Exact match by update: with positions as large as the embeddings "
    f"{shares[0]:.2f} after 400, with small ones {shares[1]:.2f} after 800, and with "
    f"both small {shares[2]:.2f} after 400.",
)
claim("05.y", equal=shares[0], small=shares[1], both=shares[2])

# %% [markdown]
# Mostly it is the ratio: with both divided by 8, half the updates convert more dates than with small positions alone, though fewer
# than at full size. (The division also makes the first logits small: the embedding is the output matrix.) If a Transformer of your own seems not to train, compare the norms of its embeddings and positions.
#
# ## 11 Pre-norm
#
# Most models since GPT-2 normalise *before* each sublayer (pre-norm, in contrast to the post-norm above) and leave the sum
# unnormalised; one more normalisation follows the whole stack:
#
# $$n = \mathrm{LN}(x) \quad h = x + \mathrm{MHA}(n, n, n) \qquad y = h + \mathrm{FFN}(\mathrm{LN}(h))$$
#
# The *residual stream* is then never normalised on its way, and the gradient can flow back through an identity path.
#
# ![](diagram:residual_connections)

# %% exercise="05.5" difficulty="●○○" minutes=5
from course_lib.blocks import pre_norm_encoder_block

# %% tags=["nbval-check-output"]
pre_norm_encoder_block = check("05.5", pre_norm_encoder_block)

# %% [markdown]
# ### Bug hunt
#
# The function below runs, returns the right shapes and resembles yours, but one of its expressions is wrong. Which one, and
# what grows with the depth of a stack because of it? Decide before you run the check.

# %% exercise="05.5" bug="normalises_only_the_queries"
from course_tools.bank.lecture_05.pre_norm_encoder_block import (
    normalises_only_the_queries as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("05.5", suspect)

# %% [markdown] tags=["predict"]
# **Predict a number** (within a factor of 1.5). We build stacks of untrained pre-norm blocks. Each block adds a vector to the
# stream, and the sum of $L$ independent vectors is about $\sqrt L$ times as long as one of them; the last norm divides by this
# length. How many times as large is the gradient of the *last* block's weights with 2 blocks as with 32?
#
# <details><summary>4</summary>
#
# $\sqrt{32 / 2}$, like the bound of Xiong et al., theorem 1, which is proportional to $1/\sqrt{\text{depth}}$. (In the bug hunt,
# the raw keys and values grow with the sum, and so do the scores.)</details>
# <details><summary>16</summary>
#
# There are 16 times as many vectors, but their sum is only 4 times as long.</details>
# <details><summary>1</summary>
#
# This is post-norm: the input of the last block always has the same norm, and the block always gets the full gradient. According
# to Xiong et al., such gradients near the output are too large for the full learning rate at the start, so post-norm needs a
# warm-up: a rate that rises at first.</details>


# %% tags=["nbval-check-output"]
def last_gradient(block, depth, seed):
    """The norm of the gradient of the last block's W₂ in an untrained stack of the
    checked blocks, with weights initialised as in the Transformer."""
    torch.manual_seed(seed)
    x, plain = torch.randn(8, 16, 64), (torch.ones(64), torch.zeros(64))
    for _ in range(depth):
        *attention, W_1, W_2 = (
            nn.init.xavier_uniform_(torch.empty(*shape))
            for shape in [(64, 64)] * 4 + [(128, 64), (64, 128)]
        )
        network = (W_1, torch.zeros(128), W_2.requires_grad_(), torch.zeros(64))
        x = block(x.detach(), tuple(attention), network, (plain, plain), 4)
    if block is pre_norm_encoder_block:
        x = layer_norm(x, *plain)
    (x * torch.randn_like(x)).sum().backward()
    return W_2.grad.norm().item()


depths = (2, 8, 32)
blocks = {"post-norm": encoder_block, "pre-norm": pre_norm_encoder_block}
sizes_of = {
    name: [
        mean(last_gradient(each, depth, seed) for seed in range(3)) for depth in depths
    ]
    for name, each in blocks.items()
}
falls = {name: size[0] / size[-1] for name, size in sizes_of.items()}
show(
    plots.curves(
        {name: (depths, size) for name, size in sizes_of.items()},
        "blocks",
        "norm of the gradient, W₂ of the last block",
        log="xy",
    ),
    alt="Gradient of the last block's W₂ in stacks of 2, 8 and 32 blocks, mean of "
    "three seeds. It falls from 2 to 32 blocks by the factor "
    + ", ".join(f"{fall:.1f} for {name}" for name, fall in falls.items())
    + ".",
)
claim("05.i", post=falls["post-norm"], pre=falls["pre-norm"])

# %% [markdown]
# ## 12 Translating sentences
#
# A date has one right translation; a sentence has many. **BLEU** (Papineni et al.) compares translations with references. It
# counts which runs of one to four words of a translation occur in its reference, each at most as often as there; these four
# fractions, over all translations, are its *precisions*. BLEU is their geometric mean times a penalty for translations that are
# too short, and 100 is a perfect match.

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). The reference is *the cat is on the mat*. A translator outputs *the the the the the the the*.
# What is the precision of its single words?
#
# <details><summary>0.286</summary>
#
# 2 / 7: the reference has two *the*, so only two of the seven count.</details>
# <details><summary>1.0</summary>
#
# Every word occurs in the reference, but a word counts at most as often as it occurs there.</details>
# <details><summary>0.333</summary>
#
# 2 / 6 is the part of the *reference* that was found, its recall. Precision divides by the words of the translation.</details>

# %%
reference = ["the", "cat", "is", "on", "the", "mat"]
for translation in (["the"] * 7, ["the", "cat", "is", "on", "a", "mat"]):
    found = bleu([translation], [[reference]])
    precisions = [round(p, 3) for p in found.precisions]
    print(*translation, "| precisions", precisions, f"| BLEU {100 * found.score:.1f}")

# %% [markdown]
# The study `05_translation` translates German verses of the Bible, of at most 20 words, into English, after 2,500 updates on
# 10,000 pairs. The Transformer, of two blocks of width 128 on either side, is trained with pre-norm and with post-norm. Its rival
# is a GRU with Bahdanau's attention (lecture 02); a larger pre-norm Transformer, of three blocks, has as many weights as that. All
# get the same training, that of the paper: *dropout* (random activations are set to 0), *label smoothing* (a tenth of the target
# probability is spread over all tokens), and a rate that rises and then falls as one over the square root of the updates. The last
# translator has no weights: it outputs the translation of the most similar source in the training set.

# %% tags=["nbval-check-output"]
study = show_study("05_translation")
scores = {name: study.scores(name, "BLEU") for name in study.names}
claim(
    "05.bleu",
    pre=scores["Transformer, pre-norm"],
    post=scores["Transformer, post-norm"],
    larger=scores["Transformer, 3 blocks"],
    gru=scores["GRU with attention"],
    nearest=scores["nearest source"][0],
)
for i in (0, 4):
    for name in study.names:
        text = study.of(name)[0].texts[f"translation {i}"]
        print(f"{'source' if name == 'copying' else name:<23}", text)
    print(f"{'reference':<23}", study.of("copying")[0].texts[f"reference {i}"], "\n")

# %% [markdown]
# **The place of the norm alone is worth two BLEU here**: pre-norm reaches after 1,500 updates what post-norm reaches after 2,500.
# That is just enough to beat looking up the most similar verse.
#
# **The GRU is ahead, and not by its size**: with 1.85 million weights to its 1.80, the Transformer of three blocks, trained once, is
# hardly better than that of two, with 1.19 million. But no curve has reached its end, so this ranks no mechanism. In the paper, on 4.5
# million pairs, the Transformer is ahead of all recurrent translators.
#
# ## 13 Beam search
#
# Greedy decoding takes the most likely *next* token and cannot revise it. **Beam search** keeps the $k$ best prefixes (`width`
# in the code), called *hypotheses*; together they are the beam. In each step it extends every hypothesis by every token, adds
# the token's $\log p$ to that of the hypothesis, and keeps the best $k$ of all extended hypotheses. One that has ended stays as
# it is. Longer sequences sum more negative terms, so for the *ranking*, $\log p$ may be divided by a length penalty of strength
# $\alpha$ (Wu et al., eq. 14, without their coverage penalty):
#
# $$\text{score} = \log p \,/\, \left(\tfrac{5 + \text{length}}{6}\right)^{\alpha}$$
#
# | name | shape |
# | --- | --- |
# | `log_p`, `going`, `length` | (B, width) |
# | `logits` | (B, width, n_tokens) |
# | `Extension(scores, log_p, parent, word)` | (B, width) each |

# %% exercise="05.7" difficulty="●●●" minutes=20
from course_lib.generation import extend_beam

# %% tags=["nbval-check-output"]
extend_beam = check("05.7", extend_beam)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). In a language, every sentence has two words. The first is *A* (60 %) or *B* (40 %). After
# *A*, four words are equally likely; after *B*, one word has a probability of 90 %. What is the probability of the sentence that a
# beam of two outputs?
#
# <details><summary>0.36</summary>
#
# 0.4 · 0.9: the beam keeps *B* as well, and decides one step later.</details>
# <details><summary>0.15</summary>
#
# That is 0.6 · ¼, what *greedy decoding* outputs: it takes the more likely first word, and the product of the largest
# probabilities of each step need not be the largest.</details>
# <details><summary>0.6</summary>
#
# That is the probability of the first word *A* alone.</details>

# %%
first = torch.tensor([0.6, 0.4, 1e-9, 1e-9]).log()
second = torch.tensor([[0.25] * 4, [0.1 / 3, 0.9, 0.1 / 3, 0.1 / 3], *[[0.25] * 4] * 2])
for width in (1, 2):
    log_p = torch.tensor([[0.0] + [-torch.inf] * (width - 1)])
    going, length = torch.ones(1, width, dtype=torch.bool), torch.ones(1, width)
    _, log_p, _, word = extend_beam(log_p, first.expand(1, width, 4), going, length, 3)
    found = extend_beam(log_p, second.log()[word], going, length + 1, 3)
    print(f"a beam of {width}: p = {found.log_p[0, 0].exp():.2f}")


# %% [markdown]
# Where is a beam worth its price? Where the model hesitates. The Transformer *without* positions of section 6 reads a date as
# a bag of characters: for 18 oct 1958, it has to guess whether the year is 1958 or 1985. A search needs two functions of the
# model: one gives the state before the first token, the other the logits of the next token.


# %%
def start(model, texts):
    """The memory, its mask, and what is written so far: nothing."""
    tokens, lengths = (part.to(device()) for part in letters.batch(texts))
    with torch.no_grad():
        return *model.encode(tokens, lengths), tokens[:, :0]


def step(model, token, state):
    """Read one more token of each answer; return the next logits and the state."""
    memory, mask, written = state
    written = torch.cat([written, token[:, None]], dim=1)
    return model.decode(written, memory, mask)[:, -1], (memory, mask, written)


@torch.no_grad()
def best(model, texts, width):
    """The beam of each text, decoded, and the probability of each hypothesis."""
    search = torch.full((len(texts),), BEGIN, device=device()), END, PADDING, 12, width
    state = start(model, texts)
    beam = beam_search(partial(step, model), state, *search, extend=extend_beam)
    rows = [[characters.decode(row) for row in each] for each in beam.tokens.tolist()]
    return rows, beam.scores.exp()


rows, p = best(bag, ["18 oct 1958"], 4)
for answer, share in zip(rows[0], p[0], strict=True):
    print(f"{answer}  p = {share:.2f}")

# %% tags=["nbval-check-output"]
asked, found = new[1][:200], {}
for width in (1, 4, 16):
    rows, _ = best(bag, [pair.source for pair in asked], width)
    found[width] = mean(
        pair.target in each for pair, each in zip(asked, rows, strict=True)
    )
claim("05.beam", one=found[1], four=found[4], sixteen=found[16])

# %% [markdown]
# The beam keeps the readings that the bag allows. Which of them is right the model does not know, and no search can tell it; in
# speech recognition, a second model chooses among them (*rescoring*).
#
# ## 14 "It"
#
# In *The animal didn't cross the street because it was too tired*, "it" is the animal; with *too wide*, it is the street. With
# weights that we set by hand, two layers of attention resolve this: in the first layer the adjective's features reach "it", and in
# the second "it" finds the noun. In a single layer, which noun gets more weight cannot depend on the adjective, because a score
# compares two tokens only. There are two features, "can be tired" and "can be wide", and we choose the masks (first only the
# adjective, then only the nouns).


# %% tags=["interactive"]
def weights_of_it(tired, layers=2):
    """Weights of "it" on (animal, street); the features of the adjective are a mixture:
    `tired` times those of "tired" plus 1 - `tired` times those of "wide"."""
    tokens = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [tired, 1 - tired]])
    nouns = torch.tensor([[True, True, False, False]])
    adjective, it = torch.tensor([[False, False, False, True]]), tokens[2:3]
    if layers == 2:
        it = it + scaled_dot_product_attention(it, tokens, tokens, adjective).context
    return scaled_dot_product_attention(8 * it, tokens, tokens, nouns).weights[0, :2]


def draw_it(tired=1.0):
    """Draw the weight of "it" on the animal while the last word moves from "wide" to
    "tired"."""
    shares = [share / 20 for share in range(21)]
    lines = {
        f"{n} layer{'s' * (n == 2)}": (shares, [weights_of_it(x, n)[0] for x in shares])
        for n in (1, 2)
    }
    x = "how much the adjective means 'tired' rather than 'wide'"
    figure = plots.curves(lines, x, "weight of 'it' on the animal")
    figure.axes[0].plot([tired], [weights_of_it(tired)[0].item()], "o", color="black")
    animal = lines["2 layers"][1]
    show(
        figure,
        alt="Weight of 'it' on the animal, while the adjective turns from 'wide' to "
        f"'tired': 0.50 throughout with one layer, {animal[0]:.3f} to {animal[-1]:.3f} "
        f"with two layers; the black point marks {tired:.2f}.",
    )


explore(draw_it, tired=(0.0, 1.0, 0.05))

# %% [markdown]
# ## 15 Build it: repair a run
#
# **Build task (25 minutes, 12 points).** The code below trains a *decoder-only* Transformer (causal self-attention, no encoder)
# to predict the next character. It runs without an error, but the trained model is useless, because we planted three faults.
# Measure before you read the code: the cell after it runs the training for a few updates, and has room for your own
# measurements. The check names the faults that it can prove; a fault can hide another one. Each check trains for 400 updates,
# which takes about ten seconds.

# %% exercise="05.8" bug="three_faults"
from course_tools.bank.lecture_05.repair_training import three_faults as suspect

# %%
tokens = torch.arange(3_000) % 27  # any text will do for the first measurements
model = suspect(tokens, 27, 20)
window = tokens[None, :32]
with torch.no_grad():
    logits = model(window)
    loss = F.cross_entropy(logits[0, :-1], window[0, 1:])
print(f"loss after 20 updates: {loss:.2f} nats (mean of -ln p of the right character)")
print(f"a uniform guess among 27 characters: {torch.tensor(27).log():.2f} nats")
# Change one later token: do earlier logits change? Call twice: are they equal?

# %% tags=["nbval-check-output"]
suspect = check("05.8", suspect)

# %% [markdown]
# Write a repaired version of this training run, and reuse whatever is correct. The check calls
# `repair_training(text, n_tokens, n_steps)` once, with 100,000 characters of Python's language reference (27 tokens: the
# lower-case letters and the space) and `n_steps=400`, and evaluates the returned model on held-out text. The function has at
# most 60 seconds of processor time.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) with T ≤ 32 to logits (B, T, n_tokens) |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during the training |
# | 1 | the returned model gives the same logits for the same tokens |
# | 2 | the logits at a position do not depend on later tokens |
# | 1 | the logits of one window do not depend on the other windows of the batch |
# | 1 | the prediction depends on the order of the tokens |
# | 1 | the logits depend on attention weights, which sum to 1 over the keys, and no state is carried beside them |
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 1 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="05.8" difficulty="●●○" minutes=25
from course_tools.bank.lecture_05.repair_training import repair_training

# %% tags=["nbval-check-output"]
repair_training = check("05.8", repair_training)

# %% [markdown]
# ## 16 Build it: a Transformer
#
# **Build task (35 minutes, 13 points).** Starting from an empty cell, write an encoder-decoder and its training loop that
# converts sentences of one or two dates to ISO 8601: embeddings, positions, an encoder, a decoder with causal self-attention
# and cross-attention, the loss under teacher forcing, an optimizer and the loop. You may use your functions of this lecture,
# `nn.MultiheadAttention` and other layers, but no complete model, stack or Transformer block, neither torch's nor the
# library's. Define what you need above `train_transformer`, in the same cell. (Dates need one look-up, so they come out right even
# if no letter of the source attends to another one; the check measures whether they do.)
#
# The returned model is called in two ways. `model(source, lengths, target)` gives the logits under teacher forcing.
# `model(source, lengths)` has no target, so it generates the answer by greedy decoding: it starts with `BEGIN`, and at each
# step it reads all tokens that it chose so far. The answer includes `END`. The tokens `BEGIN`, `END` and `PADDING` come from
# `course_lib.datasets`; the import cell has them.
#
# The check calls `train_transformer(source, lengths, target, n_train, n_letters, n_characters, n_steps)` once, with 5,500
# sentences, `n_train=5_000` and `n_steps=500`. The last 500 rows are held out: measure with them, but do not train on them. The
# check scores the model on sentences that are in neither part, and whose dates occur in no training sentence. The function has
# at most 120 seconds of processor time; a good answer needs 10 to 60. Before you run the check, call
# your function with `n_steps=20` on a few sentences: that finds most errors in a second.
#
# | points | what is judged |
# | --- | --- |
# | 1 | with a target, the model gives logits (B, T, n_characters); without one, tokens |
# | 1 | at most `n_steps` updates (calls of `optimizer.step()`) and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the model is updated, and the loss falls |
# | 1 | the returned model gives the same result for the same input |
# | 1 | the logits depend on the source and its order; they are the same alone, in a batch, and padded in a batch with a longer source |
# | 1 | *attention*: the logits depend on attention weights, which sum to 1 over the keys; with equal weights in their place, or in the encoder alone, they change; no state is carried beside them |
# | 1 | the logits at a position depend on the target up to there, and not on the token that they predict |
# | 1 | padding is never a target of the loss |
# | 1 | without a target, the model outputs the token with the largest logit at each step, and reads it at the next |
# | 1 | new sentences: exact match at least 0.25 (without positions less than 0.15) |
# | 1 | new sentences, half of them with one date: exact match at least 0.45 |
# | 1 | only the first `n_train` sentences are trained on |

# %% exercise="05.9" difficulty="●●●" minutes=35
from course_tools.bank.lecture_05.train_transformer import train_transformer

# %% tags=["nbval-check-output"]
train_transformer = check("05.9", train_transformer)

# %%
# Train it again, on dates whose vocabulary we know, and let it convert some.
known, new, (letters, characters) = date_sentences()
train_on, held_out = known[1] + known[2], new[1][:50] + new[2][:50]
pairs = train_on + held_out
source_tokens, n_source = letters.batch([pair.source for pair in pairs])
target, _ = characters.batch([pair.target for pair in pairs], begin=True, end=True)
torch.manual_seed(0)
sizes = len(train_on), len(letters), len(characters), 500
built = train_transformer(source_tokens, n_source, target, *sizes)

with torch.no_grad():
    rows = built(*letters.batch([pair.source for pair in held_out])).tolist()
answers = [characters.decode(row) for row in rows]
hits = [answer == pair.target for answer, pair in zip(answers, held_out, strict=True)]
for i in (0, 1, 50, 51):
    print(held_out[i].source, "→", answers[i])
print(f"right: {mean(hits[:50]):.2f} with one date, {mean(hits[50:]):.2f} with two")

# %% [markdown] tags=["quiz"]
# ## 17 In your own words
#
# Half a page. *A colleague's Transformer reaches the loss of a bag-of-words model and stays there.
# Write the list of checks that you would make, in order, each with the measurement that decides it.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | shuffles the source: if nothing changes, positions are missing or too small |
# | 1 | compares the norms of embeddings and positions in the sum |
# | 1 | checks the masks by a gradient: to later tokens, to padding |
# | 1 | inspects the gradient of every layer before blaming the data |
# | 1 | orders the checks by cost, and is clear and short |
#
# </details>

# %% [markdown] tags=["companion", "guard"]
# ## 18 Papers and decks
#
# **Papers.** Vaswani et al. 2017, *Attention Is All You Need*, sections 3.1 to 3.5 (https://arxiv.org/abs/1706.03762) · Ba,
# Kiros, Hinton 2016, *Layer Normalization*, eq. 3 (https://arxiv.org/abs/1607.06450) · Xiong et al. 2020, *On Layer
# Normalization in the Transformer Architecture*, table 1 (https://arxiv.org/abs/2002.04745) · Wu et al. 2016, *Google's Neural
# Machine Translation System*, eq. 14 (https://arxiv.org/abs/1609.08144) · Papineni et al. 2002, *BLEU: a Method for Automatic
# Evaluation of Machine Translation*, section 2 (https://aclanthology.org/P02-1040).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Making Attention Positional Again | 1 A bag of characters | `course_lib.models.Transformer` |
# | EE | Positional encoding | 2 Positions | `course_lib.primitives.sinusoidal_positions` |
# | RK | Positional encoding | 2 Positions | `course_lib.primitives.sinusoidal_positions` |
# | CS | Manual Positional Encoding | 2 Positions | `course_lib.primitives.sinusoidal_positions` |
# | CS | Learned Positional Encoding | 2 Positions | `course_lib.primitives.LearnedPositions` |
# | IT | Positional Encoding | 2 Positions | `course_lib.primitives.sinusoidal_positions` |
# | GA | Positional embeddings | 2 Positions | `course_lib.primitives.sinusoidal_positions` |
# | GA | Transformer architecture: layer normalization versus batch normalization | 3 One block | `course_lib.primitives.layer_norm`, `course_lib.primitives.batch_norm` |
# | RK | Position-wise FFN | 3 One block | `course_lib.blocks.feed_forward` |
# | RK | Add & norm | 3 One block | `course_lib.blocks.post_norm`, `course_lib.blocks.pre_norm` |
# | CS | The Transformer Block | 3 One block | `course_lib.blocks.Block` |
# | IT | Encoder | 3 One block | `course_lib.blocks.encoder_block` |
# | IT | Encoder: summary | 3 One block | `course_lib.blocks.encoder_stack` |
# | GA | Transformer architecture | 3 One block | `course_lib.blocks.encoder_block` |
# | RK | Multi-head attention layers in Decoder | 4 The decoder block | `course_lib.blocks.decoder_block` |
# | IT | Decoder | 4 The decoder block | `course_lib.blocks.decoder_block` |
# | RK | Attention Is All You Need | 6 The experiment | `course_lib.models.Transformer` |
# | RK | Transformer Architecture | 6 The experiment | `course_lib.models.Transformer` |
# | CS | Attention is All You Need | 6 The experiment | `course_lib.models.Transformer` |
# | CS | The Transformer | 6 The experiment | `course_lib.models.Transformer` |
# | CS | Why Transformers? | 6 The experiment | `course_lib.models.LuongDecoder` |
# | CS | How does it do? | 12 Translating sentences | `course_lib.metrics.bleu`, `course_lib.losses.label_smoothed_loss` |
# | IT | Basic concepts of Transformer model | 6 The experiment | `course_lib.models.Transformer` |
# | GA | From RNNs to transformers | 6 The experiment | `course_lib.models.Transformer` |
# | IT | Key advantages of transformers | 6 The experiment | `course_lib.models.Transformer` |
# | RK | Flow of information | 7 Where does it look? | `course_lib.analysis.record` |
# | CS | Visualizing Attention | 7 Where does it look? | `course_lib.analysis.record` |
# | GA | Multi-head self-attention layer: visualization of the softmax matrix | 7 Where does it look? | `course_tools.notebook.plots` |
#
# </details>


# %% tags=["guard", "nbval-check-output"]
t, even = torch.arange(200.0)[:, None], torch.arange(0, 32, 2)
as_in_ee = torch.stack(
    [(t / 10_000 ** (even / 32)).sin(), (t / 10_000 ** ((even + 1) / 32)).cos()], dim=-1
).flatten(1)
products = (as_in_ee[:-3] * as_in_ee[3:]).sum(-1)
claim("05.EE", ratio=products.max() / products.min())

# %% tags=["ledger"]
ledger()
