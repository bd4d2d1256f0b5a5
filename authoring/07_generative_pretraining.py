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
# # 07 · Generative pre-training
#
# A GPT learns to predict the next token; to do that well, it learns to find a rule in its prompt and to apply it.
#
# You will write its loss, read a whole GPT on one page, take away a layer and supply what is then missing, set a head's
# weights by hand, and write the whole model yourself from an empty cell.
#
# **Prerequisites:** lectures 04 (self-attention) and 05 (the Transformer). **Time:** {minutes}. {measured}
#
# ![](diagram:gpt)

# %%
import math
from collections.abc import Sequence
from itertools import combinations

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import CachedStep, attend, rotary_speeds, rotate
from course_lib.datasets import BytePairs, Vocabulary, language_reference
from course_lib.generation import top_k
from course_lib.metrics import GPT_1, GPT_2, GPT_3, training_operations
from course_lib.models import KneserNey, NGram
from course_lib.shapes import Logits, Tokens
from course_lib.training import batches, train
from course_tools.lectures.lecture_07 import character_model as text_tools
from course_tools.lectures.lecture_07 import figures
from course_tools.lectures.lecture_07 import in_context_orders as orders
from course_tools.lectures.lecture_07.ladder import Layer, losses_by_part
from course_tools.notebook import check, claim, device, explore, ledger, plots
from course_tools.notebook import predict, recorded, show, show_study, source
from course_tools.notebook.layer_costs import multiply_adds

# %% [markdown]
# ## 1 A rule that only the text contains
#
# GPT-3 became known for *in-context learning*: the prompt shows something new, and the model uses it at once, without a change
# of its weights.
#
# In our task, each text has a **secret circular order** of eight letters. Every letter is followed by its successor in this
# order, except that the text sometimes jumps to a random letter. With the order A → D → B → C → A of only four letters, a text
# might read `A D B C A D* B* …`. The stars mark steps that the text has shown before; only these are scored. The orders of the
# test texts never occur in training, so nothing can be memorised.
#
# The simplest model of text is an **n-gram**, a table of counts: it predicts the letter that most often followed the last
# four letters in all training texts.


# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.05). The table has counted 8,000 texts. What fraction of the scored steps of new texts does it
# predict?
#
# <details><summary>0.25</summary>
#
# Each text has a different order, so the counts over all texts do not determine the next letter. But a text that follows a
# circular order of eight letters rarely returns to one of the last four: the table can exclude these, and guesses among the other
# four. (Measured is a little less: the texts also jump.)</details>
# <details><summary>0.125</summary>
#
# A guess among eight letters is right in one case out of eight. The table does better: it knows the last four letters, and a text
# that follows a circular order of eight rarely returns to one of them.</details>
# <details><summary>1</summary>
#
# That needs the order of *this* text, and the table has only the sums over all texts.</details>

# %%
task = orders.order_task(seed=0)
orders.print_texts(task.test, 3)
counted = orders.accuracy_of_counts(task.train, task.test)
print(f"the table of all training texts predicts {counted:.2f} of the scored steps")

# %% [markdown]
# ## 2 Predict the next token
#
# A GPT (generative pre-trained Transformer) is trained on one question, asked at every position: *which token comes next?*
# The text itself contains the answers, so no labels are needed. (Here tokens are letters; published
# GPTs read pieces of words, section 14.)
#
# **By hand.** A model of four letters reads `A D B C`. After each letter, it gives a probability to each next one:
#
# | it has read | p(A) | p(B) | p(C) | p(D) | next letter | loss −ln p |
# | --- | --- | --- | --- | --- | --- | --- |
# | A | 0.1 | 0.2 | 0.2 | 0.5 | D | −ln 0.5 = 0.69 |
# | A D | 0.1 | 0.7 | 0.1 | 0.1 | B | −ln 0.7 = 0.36 |
# | A D B | 0.25 | 0.25 | 0.25 | 0.25 | C | −ln 0.25 = 1.39 |
#
# The loss of the text is the mean, 0.81; its *perplexity* is exp(0.81) = 2.25, as if 2.25 letters were equally likely. Four
# letters give *three* questions: the first letter is never an answer, and what the model predicts after the last letter is not
# used. All three are trained in one pass, because the causal mask of lecture 04 hides the later letters.
#
# In a batch, some tokens are no targets: padding, a prompt, or here the steps without a star.
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens); `logits[:, t]` predicts `tokens[:, t + 1]` |
# | `tokens` | (B, T) |
# | `counts` | (B, T) bool: True where *this token* is a target |

# %% exercise="07.1" difficulty="●●○" minutes=10
from course_lib.losses import next_token_loss

# %% tags=["nbval-check-output"]
next_token_loss = check("07.1", next_token_loss)

# %% [markdown]
# ## 3 A whole GPT on one page
#
# **First its parts.** Each row is a model of its own, without norms, trained for 300 updates to predict the letters of section 7; its
# loss on new text, in nats:

# %%
source(Layer)
source(losses_by_part)
alphabet, letters = text_tools.letters_and_spaces(language_reference().train, 100_000)
_, unread = text_tools.letters_and_spaces(language_reference().valid, 30_000)
parts = losses_by_part(letters, unread, len(alphabet))
for name, nats in parts.items():
    print(f"{name:32} {nats:.2f}")

# %% [markdown]
# Attention brings in earlier letters, the network combines what the sum keeps, a second layer goes on from there. In the last
# row each part *replaces* what it read, and the model learns far more slowly.
#
# A GPT is this with $N$ blocks and with norms, or the decoder of lecture 05 without an encoder. What has changed:
#
# | part | lecture 05 | here | why |
# | --- | --- | --- | --- |
# | norm | after each sum (post-norm; GPT-1, too) | before attention and network (pre-norm, since GPT-2) | the gradient reaches every block through the sums alone |
# | last norm | none is needed | one before the logits (since GPT-2) | no norm follows the sums, which grow with every block |
# | positions, network | sinusoids, ReLU | learned vectors, GELU | as in GPT-1; no position beyond `T_max` |
#
# With the embedding matrix $E$ and the position vectors $P$:
#
# $$h_0 = E[x] + P \qquad h_l = \mathrm{Block}_l(h_{l-1}) \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(E\,\mathrm{Norm}(h_N)_t)$$
#
# The next cell is all of it. Find three lines before you open the answers: the one that keeps a position from seeing its
# targets; the only one that moves content between tokens; and the one that uses the embedding a second time.
#
# <details><summary>The three lines</summary>
#
# `scores.masked_fill(future, -torch.inf)`: a score of −∞ becomes a weight of 0. `weights @ v`: everything else treats each
# token alone. `x @ self.tokens.weight.mT`: the logit of a token is the dot product of the last state with its
# embedding.</details>


# %%
class Block(nn.Module):
    """Mix the tokens by causal attention, then the features of each token."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.W_o = nn.Linear(d_model, d_model, bias=False)
        self.network = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)
        )

    def heads(self, x):
        B, T, d_model = x.shape
        heads = self.W_qkv(x).view(B, T, 3, self.n_heads, d_model // self.n_heads)
        return heads.permute(2, 0, 3, 1, 4)  # q, k, v: (B, h, T, d_k) each

    def attention(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT / k.shape[-1] ** 0.5  # (B, h, T, T)
        future = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        self.weights = weights.detach()  # to look at later
        return self.W_o((weights @ v).transpose(1, 2).flatten(2))  # (B, T, d_model)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.network(self.norm_2(x))


class GPT(nn.Module):
    """From tokens (B, T) to next-token logits (B, T, n_tokens)."""

    def __init__(
        self, n_tokens, T_max, d_model=32, n_heads=4, d_ff=128, n_layers=2, block=Block
    ):
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.positions = nn.Embedding(T_max, d_model)
        self.blocks = nn.Sequential(
            *(block(d_model, n_heads, d_ff) for _ in range(n_layers))
        )
        self.norm = nn.LayerNorm(d_model)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=(3 * d_model) ** -0.5)

    def embed(self, tokens):
        return self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]

    def forward(self, tokens):
        x = self.norm(self.blocks(self.embed(tokens)))  # (B, T, d_model)
        return x @ self.tokens.weight.mT


# %% [markdown] tags=["try-it"]
# **Two tests find most mistakes before any training.** The first loss is a little above that of a uniform guess, ln 8 = 2.08
# nats among eight letters, because `std` makes the first logits small; below it, or at twice as much, something is wrong. And a change of the last token changes no earlier
# logits. Try it: write `triu(2)` instead of `triu(1)` above, run both cells again, and see which test notices.

# %% tags=["try-it"]
torch.manual_seed(0)
gpt = GPT(n_tokens=8, T_max=32).to(device())
tokens = task.train.tokens[:64].to(device())
print(f"loss before training: {next_token_loss(gpt(tokens), tokens):.2f}; ln 8 = 2.08")
changed = tokens.clone()
changed[:, -1] = (tokens[:, -1] + 1) % 8
torch.testing.assert_close(gpt(changed)[:, :-1], gpt(tokens)[:, :-1])
print("no position depends on a later token")

# %% [markdown]
# ## 4 Train it, and take one layer away
#
# `train` is the loop of lecture 01: each turn of the `for` is one update with Adam. The learning rate rises during 30
# updates and then falls to 0; gradients are clipped at 1.


# %%
def orders_loss(model, batch):
    tokens, told = batch  # told: True at the steps with a star
    return next_token_loss(model(tokens), tokens, told)


def learn(model, steps=450):
    stream = batches(*(part.to(device()) for part in task.train), batch_size=32, seed=0)
    for step in train(model, stream, orders_loss, steps=steps, lr=5e-3, warmup=30):
        if (step.index + 1) % 150 == 0:
            print(f"update {step.index + 1}: loss {step.loss:.2f} nats")
    right = orders.accuracy_on_orders(model, task.test)
    print(f"accuracy on the steps of new texts with a star: {right:.2f}")
    return right


two_layers = learn(gpt)

# %% [markdown] tags=["predict"]
# Now remove one layer and give its parameters to the network of the other.
#
# **Predict.** Can a single layer with as many parameters learn the task as quickly?
#
# <details><summary>A. Yes: attention finds things by content, as in lecture 04.</summary>
#
# In lecture 04, key and value were in *one* token. Here the token with the answer contains only the answer, not the letter
# before it.</details>
# <details><summary>B. Only if it has more heads.</summary>
#
# The heads of one layer work in parallel. No head can use what another head of the same layer finds.</details>
# <details><summary>C. No: the letter to be matched is in the token before the answer, and copying it takes another layer.</summary>
#
# Yes. The score compares the query with one token at a time. The preceding letter must first be copied into that token, which
# takes a layer.</details>

# %%
torch.manual_seed(0)
one_layer = learn(GPT(8, 32, d_ff=324, n_layers=1).to(device()))

# %% [markdown]
# ## 5 Induction heads
#
# What do two layers do that one does not? Suppose that the text reads `A D B … A`, and the model must answer D. The query of
# the last A should find the token that *comes after* an earlier A. But that token is D, and nothing in D says what came before
# it.
#
# Two heads in successive layers solve this (Elhage et al. 2021, Olsson et al. [2022](https://arxiv.org/abs/2209.11895)). A
# **previous-token head** in the first layer copies into each token the one before it: D now also says "after A". An **induction
# head** in the second layer matches the current letter with this copy, attends to D, and outputs it.
#
# ![](diagram:induction_heads)

# %% [markdown]
# **By hand.** The text is `A D B A`. After layer 1, a token's state holds its own letter and the letter before it, each one-hot
# (A, B, C, D):
#
# | token | its letter | the letter before | score of the last A | weight at β = 5 |
# | --- | --- | --- | --- | --- |
# | A | 1 0 0 0 | 0 0 0 0 | 0 | 1 / (e⁵ + 3) = 0.007 |
# | D | 0 0 0 1 | 1 0 0 0 | 1 | e⁵ / (e⁵ + 3) = 0.98 |
# | B | 0 1 0 0 | 0 0 0 1 | 0 | 0.007 |
# | A | 1 0 0 0 | 0 1 0 0 | 0 | 0.007 |
#
# The softmax takes the scores times β. Which matrices of zeros and ones give these scores, and D as the value?
#
# | name | shape |
# | --- | --- |
# | state `x` | (B, T, 2 · n_letters) |
# | `W_Q`, `W_K`, `W_V` | (2 · n_letters, n_letters) each |

# %% exercise="07.8" difficulty="●●○" minutes=8
from course_tools.bank.lecture_07.induction_weights import induction_weights

# %% tags=["nbval-check-output"]
induction_weights = check("07.8", induction_weights)


# %%
def by_hand(tokens, beta=5.0):
    """The output (B, T, 8) of your head, told the letter before each."""
    letter = F.one_hot(tokens, 8).float()
    x = torch.cat([letter, F.pad(letter[:, :-1], (0, 0, 1, 0))], dim=-1)
    q, k, v = (x @ W.to(x) for W in induction_weights(8))
    past = torch.ones_like(q @ k.mT, dtype=torch.bool).tril()
    return attend(beta * q @ k.mT, v, past).context


hand_made = orders.accuracy_on_orders(by_hand, task.test)
print(f"your head, without one trained weight: {hand_made:.2f} of the repeated steps")

# %% [markdown]
# `W_K` reads what an earlier layer wrote. If that layer is needed for nothing else, the single layer lacks one thing only:
# tokens that know their predecessor. An embedding with 288 weights supplies that.


# %%
class KnowsPrevious(GPT):
    """A GPT whose input also has an embedding of the token before each token."""

    def __init__(self, n_tokens, T_max, **sizes):
        super().__init__(n_tokens, T_max, **sizes)
        self.previous = nn.Embedding(n_tokens + 1, self.tokens.embedding_dim)
        nn.init.normal_(
            self.previous.weight, std=(3 * self.tokens.embedding_dim) ** -0.5
        )

    def embed(self, tokens):
        before = F.pad(tokens[:, :-1], (1, 0), value=len(self.tokens.weight))
        return super().embed(tokens) + self.previous(before)


# %% [markdown] tags=["predict"]
# **Predict.** What does the single layer reach with this embedding, after the same 450 updates?
#
# <details><summary>A. What two layers reach, or more.</summary>
#
# Yes. And it gets there sooner, since the first half of the mechanism need not be learned.</details>
# <details><summary>B. About what it reached before: a single layer is not deep enough.</summary>
#
# Depth was needed for one thing, the copy of the preceding token. It is in the input now.</details>
# <details><summary>C. Halfway between one layer and two.</summary>
#
# Nothing else is missing: query and key can now meet in one score.</details>

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
handed_over = learn(KnowsPrevious(8, 32, d_ff=324, n_layers=1).to(device()))
own = orders.accuracy_of_own_counts(task.test)
last = orders.accuracy_of_last_copy(task.test)
claim("07.u", two=two_layers, one=one_layer, previous=handed_over)
claim("07.v", counted=counted, own=own, last=last, hand=hand_made)

# %% [markdown]
# Does the model of two layers contain the two heads? On one text, what each head needs is outlined in red:

# %% tags=["cover", "nbval-check-output"]
with torch.no_grad():
    gpt(task.test.tokens.to(device()))
layers = [block.weights.cpu() for block in gpt.blocks]  # (B, h, T, T) each
one_text = [weights[0, :, :16, :16] for weights in layers]
figures.show_induction_heads(one_text, task.test.tokens[0, :16])

# %% [markdown]
# Weights alone prove no cause. So erase heads, one or several, by setting their columns of `W_o` to 0.


# %% tags=["nbval-check-output"]
@torch.no_grad()
def without_heads(layer, *heads):
    """The accuracy on new texts when the heads' columns of W_o are 0."""
    W_o = gpt.blocks[layer].W_o.weight
    kept = W_o.clone()
    for head in heads:
        W_o[:, 8 * head : 8 * head + 8] = 0
    right = orders.accuracy_on_orders(gpt, task.test)
    W_o.copy_(kept)
    return right


erased = [without_heads(0, head) for head in range(4)]
print("layer 1, without one head:", *(f"{share:.2f}" for share in erased))
spared = {}
for n in (1, 2, 3, 4):
    spared[n] = [without_heads(1, *some) for some in combinations(range(4), n)]
    print(f"layer 2, without {n}: {min(spared[n]):.2f} to {max(spared[n]):.2f}")
heads = orders.head_weights(layers, task.test)
claim(
    "07.y",
    previous=heads.previous.max(),
    induction=heads.induction.max(),
    without=erased[heads.previous.argmax()],
    spared=min(spared[1]),
    one_left=max(spared[3]),
    none_left=spared[4][0],
)

# %% [markdown] tags=["try-it"]
# So the previous-token head is a cause. The heads of layer 2 share their work.
#
# **Try it.** Invent an order of A to H, stop in the middle of its second round, and read what the GPT expects next.
# Contradict yourself. End with a letter that the prompt has not shown before.

# %% tags=["try-it"]
orders.print_next_letter(gpt, "ACEGBDACEG")

# %% [markdown]
# **Or was it only patience?** In the recorded study, one layer trains nine times as long, and so does an LSTM of as many
# parameters.

# %% tags=["nbval-check-output"]
longer = show_study("07_induction")
right = {name: longer.scores(name, "accuracy") for name in longer.names}
places = orders.accuracy_of_distances(task.train, task.test)
claim(
    "07.w",
    lstm=right["LSTM"],
    one=right["one layer"],
    two=right["two layers"],
    places=places,
)

# %% [markdown]
# Two layers stay near a guess for 100 updates, then jump, as large models do; told the preceding token, one layer jumps at once.
#
# One layer is not at its end: in two of three trainings it still gains. Part of what it has learned is counting: in a circle of
# eight, a letter returns after eight steps, unless there is a jump. The LSTM learns the task
# without attention, more slowly.
#
# ## 6 Let it write
#
# A language model writes by its own loop: predict, choose a token, append it, predict again. To choose, divide the logits by a
# **temperature** τ and sample from their softmax. Near τ = 0 only the most likely token remains; at 1 the probabilities are
# the model's own.
#
# The danger is the tail: of a hundred unlikely characters, one is still sampled quite often, and the rest must continue a
# mistake. **Top-k** (Fan et al. 2018) samples only among the $k$ most likely (section 10).
#
# The text is Python's own language reference; its characters are the tokens, and a batch is 16 windows of 64 of them. The
# model is a GPT twice as wide, with two aids that save updates: it is told the preceding character, and it rotates
# queries and keys by their positions (lecture 05).
#
# **Bits per character** measure it: the mean of $-\log_2 p$ of each true character of held-out text. The rivals are counts of the
# same text: of runs of six characters, and those of Kneser and Ney (section 14).


# %%
T = 64  # characters in a window
text = language_reference(seed=0)
characters = Vocabulary.of([text.train])
known, valid, new = (
    torch.tensor(characters.encode(part)).to(device())
    for part in (text.train, text.valid, text.test)
)
print(f"{len(known):,} characters to learn from, {len(characters)} different ones")


@torch.no_grad()
def write(model, prompt, n, temperature=0.8, k=10):
    """Continue a text by n characters."""
    tokens = torch.tensor([characters.encode(prompt)]).to(device())
    for _ in range(n):
        logits = model(tokens[:, -T:])[:, -1] / temperature
        chosen = torch.multinomial(top_k(logits, k).softmax(-1), 1)
        tokens = torch.cat([tokens, chosen], dim=1)
    return characters.decode(tokens[0].tolist())


@torch.no_grad()
def bits(model, tokens):
    """Bits per character; each character has at least half a window of context."""
    windows = tokens.unfold(0, T, T // 2)
    second_half = (torch.arange(T, device=device()) >= T // 2).expand_as(windows)
    return next_token_loss(model(windows), windows, second_half).item() / math.log(2)


# %%
class RotaryBlock(Block):
    """A block whose queries and keys are rotated by their positions."""

    def heads(self, x):
        q, k, v = super().heads(x)
        speeds = rotary_speeds(q.shape[-1], base=1_000, device=x.device)
        return rotate(q, speeds), rotate(k, speeds), v


STEPS = 1_200
torch.manual_seed(0)
writer = KnowsPrevious(len(characters), T, d_model=64, d_ff=256, block=RotaryBlock)
nn.init.zeros_(writer.positions.weight)  # the rotation says where a token stands
writer = writer.to(device())
stream = batches(known.unfold(0, T, 1), batch_size=16, seed=0)
loss = lambda model, batch: next_token_loss(model(batch[0]), batch[0])  # noqa: E731
for step in train(writer, stream, loss, steps=STEPS, lr=8e-3, warmup=50):
    if step.index + 1 in (1, 100, 400, STEPS):
        sample = write(writer, "The class statement ", 160)
        print(
            f"--- update {step.index + 1}: {bits(writer, valid):.2f} bits\n{sample}\n"
        )

# %% tags=["nbval-check-output"]
table = NGram(known.cpu().unfold(0, 6, 1), len(characters))
kneser_ney = KneserNey(known.cpu().unfold(0, 8, 1), len(characters))
claim(
    "07.h",
    gpt=bits(writer, new),
    table=text_tools.bits_by_counts(table, new.cpu(), 6),
    kneser_ney=text_tools.bits_by_counts(kneser_ney, new.cpu(), 8),
)

# %% [markdown] tags=["try-it"]
# **Try it:** change the prompt, the temperature and $k$.

# %% tags=["try-it"]
print(write(writer, "If an exception ", 300, temperature=0.5, k=20))

# %% [markdown]
# Our GPT beats the plain counts, but Kneser and Ney's are ahead of it. One of 4.8 million weights, trained for three minutes on a GPU
# with 4.2 million characters of Shakespeare, has passed them. (Curve and claim are of different plays.)

# %% tags=["nbval-check-output"]
study = show_study("07_text", device="cuda")
gpt_bits, lstm_bits, counts_bits = (
    study.scores(f"{kind}, 4.2 million", "bits") for kind in ("GPT", "LSTM", "counts")
)
claim("07.ll", gpt=gpt_bits, lstm=lstm_bits, counts=counts_bits)
print(study.of("GPT, 4.2 million")[0].texts["sample"][:600].strip(), "…")

# %% [markdown]
# So has an LSTM of as many weights. Counts that go on counting in the new plays need 1.94 bits, about as few as the GPT.
#
# ## 7 Build it
#
# **Build task (30 minutes, 12 points).** Now write the model and its training loop. You may
# use torch's layers, `nn.TransformerEncoder` included, but not the library's `GPT`. Define what you need inside `train_gpt` or
# above it, in the same cell, and print a shape after each step.
#
# The check calls `train_gpt(text, n_tokens, n_steps)` once, with 100,000 characters of the language reference (27 tokens: the
# lower-case letters and the space) and `n_steps=800`, and judges the returned model on held-out text. The function has 60
# seconds of processor time; a good answer needs about ten. Call it yourself with `n_steps=20` first.
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
# | 1 | the logits depend on attention weights, which sum to 1 over the keys, and on a feed-forward network; no state is carried |
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 1 | loss on held-out text: 0.3 nats below that of a bigram table of the characters (about 2.0 nats) |

# %% exercise="07.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_07.train_gpt import train_gpt

# %% tags=["nbval-check-output"]
train_gpt = check("07.7", train_gpt)

# %% [markdown] tags=["try-it"]
# **Let your model write**, trained on three times as much text.

# %% tags=["try-it"]
alphabet, letters = text_tools.letters_and_spaces(language_reference().train, 300_000)
torch.manual_seed(0)
mine = train_gpt(letters, len(alphabet), 800)
written = torch.tensor([[alphabet.index(letter) for letter in "the function "]])
with torch.no_grad():
    for _ in range(200):
        logits = mine(written[:, -32:])[:, -1] / 0.6
        written = torch.cat([written, torch.multinomial(logits.softmax(-1), 1)], dim=1)
print("".join(alphabet[token] for token in written[0].tolist()))

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** A GPT of 100,000 weights, trained on millions of characters, reaches 0.02 bits per character on new text.
# What do you check?
#
# <details><summary>A. The learning rate: the model has learned exceptionally well.</summary>
#
# No model can predict English text so well: Shannon's (1951) estimates are 0.6 to 1.3 bits per letter.</details>
# <details><summary>B. Whether the new text is in the training text.</summary>
#
# That would not suffice: 100,000 weights cannot memorise a text of millions of characters.</details>
# <details><summary>C. The mask and the shift: the target has leaked into the input.</summary>
#
# Right. Either a position attends to the token after it, or the loss asks for the token that was just read.</details>
#
# **Question 2.** A model is trained on texts that each use their own secret order, and gets every repeated step right. What has
# it stored in its weights?
#
# <details><summary>A. A procedure: weigh what followed all earlier copies of this letter.</summary>
#
# Right. The order itself is read from the prompt and forgotten with it. (The last copy alone would be right in 0.80.)</details>
# <details><summary>B. The orders of the training texts.</summary>
#
# They are of no use: the test texts follow others.</details>
# <details><summary>C. Nothing: it has learned from the prompt by gradient descent.</summary>
#
# No weight changes when a model reads a prompt.</details>
#
# **Question 3.** Why does one layer of attention, whose tokens do not know their predecessors, learn it far more slowly?
#
# <details><summary>A. It has too few parameters.</summary>
#
# It had as many as the two layers; with 288 more, of the right kind, it succeeds.</details>
# <details><summary>B. Its query can be compared with a letter, but not with the letter before it.</summary>
#
# Right. Key and value come from the same token, and the answer does not contain the question. A rule that knows only
# positions is right in 0.36 of the steps.</details>
# <details><summary>C. It cannot see the positions.</summary>
#
# It has a vector for each position. But the earlier copy may be at any distance.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A newspaper writes: "The model understands instructions; it has learned to learn." Which
# findings of this lecture would you repeat on a model that you can inspect, and how, before you agree?*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | distinguishes what is stored in weights from what is read from the prompt, by a test with unseen rules |
# | 1 | asks for a control: no examples, false examples, examples of another task |
# | 1 | asks for a baseline without attention or with one layer, or a table |
# | 1 | looks for the mechanism (which head attends where), not only at the answer |
# | 1 | says what would *not* follow from it, and is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# **The same page, larger.** GPT-3 ([2020](https://arxiv.org/abs/2005.14165)) has 175 billion parameters; Hoffmann et al.
# ([2022](https://arxiv.org/abs/2203.15556)) showed that such models had read too little: for what a training costs, 20 tokens a
# weight give the least loss. Small models, much used, read far more: Llama 3 8B ([2024](https://arxiv.org/abs/2407.21783)) nearly 2,000.
#
# **After pre-training.** A pre-trained GPT continues a text; it does not yet answer. InstructGPT (Ouyang et al.
# [2022](https://arxiv.org/abs/2203.02155)) fine-tunes it on *instructions* with answers, then on the *preferences* of people
# who compare two answers. DeepSeek-R1 ([2025](https://arxiv.org/abs/2501.12948)) rewards answers that a program can verify.
# **Adapters** make this cheap: LoRA (Hu et al. [2021](https://arxiv.org/abs/2106.09685)) freezes each matrix and trains only
# two thin ones, whose product is added to it.
#
# **Induction.** Mamba (Gu & Dao [2023](https://arxiv.org/abs/2312.00752)) has a short convolution in each block, which hands over
# the preceding token.

# %% [markdown]
# # Going further
#
# Each of these sections stands for itself; what they measure uses the models of the core.

# %% [markdown]
# ## 10 The nucleus
#
# **Top-k** keeps the $k$ largest logits and sets all others to $-\infty$. For the logits (2.0, 0.5, 1.0, −1.0) and $k = 2$,
# the result is (2.0, −∞, 1.0, −∞): the first token now has the probability e² / (e² + e) = 0.73 instead of 0.61. Exactly $k$
# tokens must remain, even if several have the $k$-th largest logit; which of these remains is up to you.
#
# | name | shape |
# | --- | --- |
# | `logits`, result | (…, n_tokens): each row keeps `k` of its own |

# %% exercise="07.2" difficulty="●○○" minutes=8
from course_lib.generation import top_k

# %% tags=["nbval-check-output"]
top_k = check("07.2", top_k)

# %% [markdown]
# How large should $k$ be? Within a word, one character may be certain; after a full stop, twenty are plausible. The **nucleus**
# (top-p, Holtzman et al. 2020) keeps as many as are needed: *the smallest set of the most likely tokens whose probabilities sum
# to $p$ or more*. With the probabilities 0.5, 0.3, 0.15, 0.05 and $p = 0.7$, it keeps the first two.
#
# **Bug hunt.** The version below runs, and it keeps about $p$ of the probability. Answer the question below, then run
# the check, and write the function correctly.

# %% exercise="07.3" bug="does_not_sort"
from course_tools.bank.lecture_07.top_p import does_not_sort as suspect

# %% [markdown] tags=["predict"]
# **What is wrong with this nucleus?**
#
# <details><summary>A. The sum of the probabilities does not reach p.</summary>
#
# It does. A cumulative sum over all tokens reaches p in any order.</details>
# <details><summary>B. The removed logits should be 0, not -∞.</summary>
#
# A logit of 0 belongs to an ordinary token. -∞ is right.</details>
# <details><summary>C. It does not keep the most likely tokens: it takes tokens in the order of the vocabulary.</summary>
#
# Yes. It removes likely tokens with a high index and keeps unlikely ones with a low index. Where the vocabulary is sorted by
# frequency, the mistake is harder to see.</details>

# %% tags=["nbval-check-output"]
suspect = check("07.3", suspect)

# %% exercise="07.3" difficulty="●●○" minutes=12
from course_lib.generation import top_p

# %% tags=["nbval-check-output"]
top_p = check("07.3", top_p)

# %%
figures.show_nucleus_sizes(
    text_tools.nucleus_sizes(writer, new, T, top_p, p=0.9), p=0.9, k=10
)

# %% [markdown]
# Where the model of section 6 is sure, its nucleus keeps a single character, elsewhere a dozen or more: no constant $k$ fits
# both. Set the three by hand, where many characters are possible:

# %% tags=["interactive"]
explore(
    figures.next_character_figure(
        writer, characters, "The value of the ", top_k, top_p
    ),
    temperature=(0.2, 2.0, 0.1),
    k=(1, 40),
    p=(0.1, 1.0, 0.05),
)

# %% [markdown]
# What it does to a text: the recorded GPT of section 6 continues one scene of Shakespeare in four ways. Greedy decoding, which
# always takes the most likely character, repeats itself; high temperatures invent words.

# %%
texts = recorded("07_text", device="cuda").of("GPT, 4.2 million")[0].texts
for manner in ("greedy", "nucleus of 0.8", "temperature 1", "temperature 1.5"):
    print(f"--- {manner}\n\n{texts[manner].strip()} …\n")

# %% [markdown]
# ## 11 The key-value cache, and grouped queries
#
# `write` in section 6 recomputes all $t$ tokens to find token $t + 1$. But no token attends to a later one, so what was
# computed for earlier tokens remains valid. A generating model stores the **keys and values** of the past and computes the new
# row only:
#
# $$K_t = [K_{t-1};\, x_t W^K] \qquad V_t = [V_{t-1};\, x_t W^V] \qquad \mathrm{head} = \mathrm{softmax}\!\left(\frac{x_t W^Q K_t^\top}{\sqrt{d_k}}\right) V_t$$
#
# ![](diagram:key_value_cache)

# %% [markdown]
# | name | shape |
# | --- | --- |
# | `x` | (B, d_in): only the new token |
# | `keys`, `values` | (B, h, T, d_k), (B, h, T, d_v): h heads, T past tokens, 0 in the beginning |
# | `W_q`, `W_k`, `W_v`, `W_o` | (h · d_k, d_in), the same, (h · d_v, d_in), (d_model, h · d_v) |
# | result | `CachedStep(output (B, d_model), keys, values)`, the caches one token longer |

# %% exercise="07.4" difficulty="●●●" minutes=15
from course_lib.attention import cached_step

# %% tags=["nbval-check-output"]
cached_step = check("07.4", cached_step)

# %% [markdown]
# Put into the GPT of section 4, your step writes the same text as the whole model does, with fewer multiply-adds.


# %%
@torch.no_grad()
def greedy(prompt, n):
    """Continue tokens (1, T) by n: read everything again for each."""
    tokens = prompt
    for _ in range(n):
        tokens = torch.cat([tokens, gpt(tokens)[:, -1:].argmax(-1)], dim=1)
    return tokens


@torch.no_grad()
def greedy_with_cache(prompt, n):
    """The same, but read each token once."""
    empty = torch.zeros(1, gpt.blocks[0].n_heads, 0, 8, device=device())
    caches = [(empty, empty) for _ in gpt.blocks]
    tokens = prompt
    for t in range(prompt.shape[1] + n - 1):
        x = gpt.tokens(tokens[:, t]) + gpt.positions.weight[t]
        for i, block in enumerate(gpt.blocks):
            weights = (*block.W_qkv.weight.chunk(3), block.W_o.weight)
            mixed, *caches[i] = cached_step(block.norm_1(x), *caches[i], *weights)
            x = x + mixed
            x = x + block.network(block.norm_2(x))
        if t + 1 == tokens.shape[1]:
            chosen = (gpt.norm(x) @ gpt.tokens.weight.mT).argmax(-1)
            tokens = torch.cat([tokens, chosen[:, None]], dim=1)
    return tokens


prompt = task.test.tokens[:1, :4].to(device())
torch.testing.assert_close(greedy_with_cache(prompt, 28), greedy(prompt, 28))
saved = multiply_adds(greedy, prompt, 28) / multiply_adds(greedy_with_cache, prompt, 28)
print(f"28 letters: {saved:.1f} times fewer multiply-adds with the cache")

# %% [markdown]
# The cache saves time and costs memory: keys and values of every layer, for every token. For GPT-3, with 96 layers of width
# 12,288 in 16 bits, that is 4.7 MB a token and 9.7 GB for a single text of 2,048 tokens. The cache, not the weights, then
# limits how many texts are written at once. **Multi-query** attention (Shazeer 2019) lets all query heads share one head of
# keys and values, **grouped queries** (Ainslie et al. 2023) one head for each group of them; `W_qkv` and `heads` make fewer
# keys and values, and `attention` repeats them: `k = k.repeat_interleave(n_heads // n_groups, dim=1)`, and the same for `v`.

# %% tags=["try-it"]
for n_groups in (96, 8, 1):  # try 32 and 2
    stored = 2 * GPT_3.n_layers * n_groups * (GPT_3.d_model // GPT_3.n_heads)
    gigabytes = stored * 2 * 2_048 / 1e9
    print(
        f"{n_groups:>3} heads of keys and values: {gigabytes:.1f} GB for 2,048 tokens"
    )

# %% [markdown]
# Llama 2 with 70 billion parameters has 64 query heads and 8 heads of keys and values. The attention of each new token over
# the whole past remains; windows limit it (lecture 17), linear attention removes it (lecture 14). Lecture 19 keeps the cache
# in pages, and writes several tokens a call.
#
# ## 12 Number of parameters
#
# A block of width $d$ has four projections $d \times d$ (queries, keys, values, and the output projection) and a network $d \to
# 4d \to d$. In GPT-2 and GPT-3 all six matrices have a bias. The block also has two norms, each with a gain and a bias. Before
# the blocks there are two embeddings (tokens and positions), and after them one more norm. The output matrix *is* the token
# embedding, so it adds nothing.
#
# | name | GPT-1 | GPT-2 | GPT-3 |
# | --- | --- | --- | --- |
# | `n_tokens`, `T_max` | 40,478 and 512 | 50,257 and 1,024 | 50,257 and 2,048 |
# | `d_model`, `n_layers` | 768 and 12 | 1,600 and 48 | 12,288 and 96 |
# | `n_norms_at_the_end` | 0 | 1 | 1 |

# %% exercise="07.5" difficulty="●●○" minutes=12
from course_lib.metrics import gpt_parameters

# %% tags=["nbval-check-output"]
gpt_parameters = check("07.5", gpt_parameters)

# %% [markdown]
# Training costs about six floating-point operations for each parameter and token: two forward, four backward (Kaplan et al.
# 2020). GPT-3 read 300 billion tokens.

# %% tags=["nbval-check-output"]
counts = {
    "gpt_1": gpt_parameters(40_478, 512, GPT_1.d_model, GPT_1.n_layers, 0),
    "gpt_2": gpt_parameters(50_257, 1_024, GPT_2.d_model, GPT_2.n_layers),
    "gpt_3": gpt_parameters(50_257, 2_048, GPT_3.d_model, GPT_3.n_layers),
}
for name, n in counts.items():
    print(f"{name.upper().replace('_', '-')}: {n:,} parameters")
gpt_3 = training_operations(counts["gpt_3"], 300e9)
ours = training_operations(sum(p.numel() for p in writer.parameters()), STEPS * 16 * T)
claim("07.r", operations=gpt_3, more=gpt_3 / ours)

# %% tags=["guard", "nbval-check-output"]
claim("07.p", **{name: n / 1e6 for name, n in counts.items()})

# %% [markdown]
# ## 13 Prompting
#
# GPT-3 is used through a **prompt**: a text that states the task, shows a few solved examples ("shots") and ends with an
# unsolved one. The model's continuation is the answer (Brown et al., section 2 and figure 2.1). Without a shot this is called
# *zero-shot*, with one *one-shot*. Write a function that builds such prompts, by two rules:
#
# - The prompt ends with the colon, **without** the space after it: in most vocabularies, that space is part of the answer's
#   first token.
# - The prompt must fit into the model's context window. If it does not, drop whole examples, the oldest first, but never the
#   question.
#
# | name | what |
# | --- | --- |
# | `shots` | pairs (input, answer), the oldest first |
# | `names` | labels before the input and before the answer, such as `("English", "French")` |
# | `task` | a first line, if any |
# | `room` | the largest number of characters of the prompt; None = no limit |
#
# For example, `few_shot_prompt([("2", "two")], "3", ("Digit", "Word"), "Spell.")` has five lines:
#
# ```
# Spell.
# Digit: 2
# Word: two
# Digit: 3
# Word:
# ```

# %% exercise="07.6" difficulty="●●○" minutes=12
from course_lib.generation import few_shot_prompt

# %% tags=["nbval-check-output"]
few_shot_prompt = check("07.6", few_shot_prompt)

# %% [markdown] tags=["predict"]
# Now prompt the two-layer GPT of section 4, which has never seen a list of examples. It reads only the letters A to H of a
# prompt. Each example shows one step of a new order, and one of them, at a random position, shows the letter of the question.
#
# **Predict.** How does it answer with no example, with one, with four, and with four *false* ones, each of which shows the
# letter after the next?
#
# <details><summary>A. It needs dozens of examples: a few are too few to learn from.</summary>
#
# They are too few for gradient descent. Here nothing is trained: the answer is in the prompt, and the model only needs to find
# it.</details>
# <details><summary>B. Hardly any right without an example, nearly all with one, fewer with four; and it follows the false examples.</summary>
#
# Yes. It finds the letter of the question among the examples and outputs what follows it there. Four examples give it more
# places to be misled: where the letter of the question is also the *answer* of an example, the next example follows it like a
# second answer. Without an example it does worse than a guess: in training, the first step of a text was never scored, and
# what the model says there is mostly the letter itself.</details>
# <details><summary>C. It follows true and false examples in half of the cases each.</summary>
#
# Of an order that it has never read, it cannot know which examples are true: both are followed alike.</details>

# %% [markdown]
# So false examples alone refute nothing that the model knows. A harder test puts one true round of the order first, such as
# `ADBCHEGFA`, and the false examples after it. Now the prompt contradicts itself: which of the two wins?

# %% tags=["nbval-check-output"]
asked = task.test_orders[:300]
orders.print_next_letter(gpt, "E")
print(orders.questions(asked[:1], 3, 0, few_shot_prompt, after_round=True)[0].prompt)
true = orders.answers_by_shots(gpt, asked, few_shot_prompt)
false = orders.answers_by_shots(gpt, asked, few_shot_prompt, false=True)
after = orders.answers_by_shots(
    gpt, asked, few_shot_prompt, false=True, after_round=True
)
figures.show_answers(true, false, after)
none, one, four = (true[n].accuracy for n in (0, 1, 4))
copies = orders.share_of_copies(gpt, orders.questions(asked, 4, 0, few_shot_prompt))
claim("07.aa", none=none, one=one, four=four, copies=copies)
claim(
    "07.ee",
    follows=false[4].follows_examples,
    kept=after[4].accuracy,
    swayed=after[4].follows_examples,
)

# %% [markdown]
# What the model gets wrong with four true examples are the second answers: it follows the letter at its other place.
#
# With a round before the false examples, the round wins more often, not always: the model knows the order only as far as the prompt
# shows it, and weighs one showing against another.

# %% [markdown]
# ## 14 Counts and pieces of words
#
# An **n-gram** table (Shannon) counts which characters followed the last $n - 1$ ones. Where a run is rare or new, its
# estimate is mixed with that of the shorter run (Witten and Bell). **Kneser and Ney** improve it: a short run is counted not
# by how often it occurs, but by how many *different* characters precede it.

# %% [markdown] tags=["predict"]
# **Predict.** A plain table, as in section 1, counts longer and longer runs. How do its bits change on the *training* text, and how on
# *new* text of this kind?
#
# <details><summary>A. On the training text they fall; on new text they first fall, then rise.</summary>
#
# Yes. The longer a run, the fewer characters have followed it, and the table has seen every run of the training text. Of the long runs
# of new text, many have never been counted, and the counts of the others are small and noisy. With more text, the lowest point moves to
# longer runs.</details>
# <details><summary>B. On both they fall: more context cannot hurt.</summary>
#
# On the training text it never hurts. On new text a table does not know what it never counted. Kneser and Ney's counts fall back on
# shorter runs; with them, more context hardly hurts.</details>
# <details><summary>C. On both they first fall, then rise: long runs are rare.</summary>
#
# They are rare, but each run of the training text is in the table, with what followed it.</details>

# %%
lengths = range(2, 9)


def bits_of(counts, part):
    runs = {n: counts(known.cpu().unfold(0, n, 1), len(characters)) for n in lengths}
    return [text_tools.bits_by_counts(runs[n], part.cpu(), n) for n in lengths]


lines = {"training text": bits_of(NGram, known[:40_000])}
lines["new text"] = bits_of(NGram, new)
lines["new text, Kneser and Ney"] = bits_of(KneserNey, new)
show(
    plots.curves(
        {name: (lengths, values) for name, values in lines.items()},
        "length of the runs that are counted",
        "bits per character",
    ),
    alt="Bits per character against the length of the runs, from 2 to 8: "
    + "; ".join(f"{name} {min(values):.2f} at best" for name, values in lines.items()),
)

# %% [markdown] tags=["predict"]
# **What is a token?** Published GPTs read neither characters nor words, but pieces. **Byte-pair encoding** (Sennrich et al.
# 2016) starts with single characters, merges the most frequent pair of neighbours in the training text into one piece, and
# repeats this forty to fifty thousand times; the next cell, 1,000 times.
#
# **Predict.** What happens to a word that the training text did not contain?
#
# <details><summary>A. It becomes "unknown".</summary>
#
# That happens to a new word in a vocabulary of whole words.</details>
# <details><summary>B. It is replaced by the most similar word.</summary>
#
# Then two different texts could get the same tokens, and the original could not be restored.</details>
# <details><summary>C. It is spelled with pieces learned from other words.</summary>
#
# Yes. In the worst case it is spelled character by character, and frequent words cost one token. (`BytePairs` splits the text
# at white space first, and loses which it was. Since GPT-2, the merges start with bytes, so that nothing is lost and even a
# new character can be spelled.)</details>

# %%
pieces = BytePairs.learn([text.train], n_merges=1_000)
for word in text_tools.unseen_words(text.train, text.test)[:4]:
    print(f"{word:>16} → {pieces.cut(word)}")
n_characters = len(" ".join(text.test.split()))
print(f"characters per piece: {n_characters / len(pieces.cut(text.test).split()):.1f}")

# %% [markdown] tags=["companion", "guard"]
# ## 15 Papers and decks
#
# **Papers.** Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training*, eqs. 1 and 2
# (https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf) · Radford et al. 2019, section
# 2 (https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) · Brown et al. 2020,
# sections 2 to 2.4, table 2.1 (https://arxiv.org/abs/2005.14165) · Fan, Lewis, Dauphin 2018, section 5
# (https://arxiv.org/abs/1805.04833) · Holtzman et al. 2020, section 3 (https://arxiv.org/abs/1904.09751) · Elhage et al. 2021,
# *A Mathematical Framework for Transformer Circuits* (https://transformer-circuits.pub/2021/framework) · Kaplan et al. 2020,
# *Scaling Laws for Neural Language Models* (https://arxiv.org/abs/2001.08361) · Shazeer 2019, *Fast Transformer Decoding*
# (https://arxiv.org/abs/1911.02150) · Ainslie et al. 2023, *GQA* (https://arxiv.org/abs/2305.13245).
# [docs/papers.md](../docs/papers.md) lists those of Sennrich et al. (byte pairs), Witten and Bell, and Kneser and Ney (counts).
#
# **Decks.** EE-559 13.2 · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Transformers trained on NLP tasks: GPT | 3 A whole GPT on one page | `course_lib.models.GPT` |
# | IT | Transformer-based models for text problems: GPT | 3 A whole GPT on one page | `course_lib.models.GPT` |
# | CS | Generated Text from GPT-3 | 6 Let it write | `course_lib.generation.sample`, `course_lib.generation.generate` |
# | GA | GPT-2 and GPT-3 examples | 6 Let it write | `course_lib.pretrained.load_gpt2` |
# | CS | Scaling Up Transformer | 12 Number of parameters | `course_lib.metrics.gpt_parameters` |
# | CS | GPT-3: Programming by Prompt | 13 Prompting | `course_lib.generation.few_shot_prompt` |
# | CS | GPT-3: Literary Style Transfer | 13 Prompting | `course_lib.generation.few_shot_prompt` |
#
# </details>

# %% tags=["ledger"]
ledger()
