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
# **The claim.** A decoder that is trained for one thing only, to say the next token, learns to *read*: shown texts that each
# follow a secret order of their own, it finds the order of a new text in that text, on every seed, with no weight changed, and
# it does so when it is merely prompted with examples. One layer of as many parameters does not, nor does a table of
# counts. On Python's language reference, with half a minute of training on a CPU, the table wins: that is measured too.
#
# **You need** lectures 04 (self-attention) and 05 (the Transformer). **Time:** about 90 minutes. {measured}
#
# **Papers.** Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training*, eqs. 1 and 2
# (https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf) · Radford et al. 2019,
# *Language Models are Unsupervised Multitask Learners*, section 2
# (https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) · Brown et al. 2020,
# *Language Models are Few-Shot Learners*, sections 2 to 2.4, table 2.1 (https://arxiv.org/abs/2005.14165) · Fan, Lewis, Dauphin
# 2018, section 5 (https://arxiv.org/abs/1805.04833) · Holtzman et al. 2020, section 3 (https://arxiv.org/abs/1904.09751) ·
# Olsson et al. 2022, *In-context Learning and Induction Heads* (https://arxiv.org/abs/2209.11895).
#
# **Decks.** EE-559 13.2 · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8: the table below leads from their sections to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Transformers trained on NLP tasks: GPT | 2 Say the next token | `course_lib.models.GPT` |
# | IT | Transformer-based models for text problems: GPT | 2 Say the next token | `course_lib.models.GPT` |
# | CS | Generated Text from GPT-3 | 4 Write | `course_lib.generation.sample`, `course_lib.models.generate` |
# | GA | GPT-2 and GPT-3 examples | 4 Write | `course_lib.pretrained.load_gpt2` |
# | CS | Scaling Up Transformer | 6 How large they are | `course_lib.metrics.gpt_parameters`, `course_lib.metrics.bert_parameters` |
# | CS | GPT-3: Programming by Prompt | 8 Ask by example | `course_lib.generation.few_shot_prompt` |
# | CS | GPT-3: Literary Style Transfer | 8 Ask by example | `course_lib.generation.few_shot_prompt` |
#
# </details>

# %%
import math
import time
from collections.abc import Sequence
from functools import partial
from statistics import mean

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import CachedStep, attend, causal_attention, fused_causal_attention, multi_head_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BytePairs, Vocabulary, language_reference, secret_orders, walks
from course_lib.datasets.secret_orders import successors
from course_tools.notebook import check, predict
from course_lib.metrics import (
    BERT_BASE,
    BERT_LARGE,
    GPT_1,
    GPT_2,
    GPT_3,
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    bert_parameters,
    block_parameters,
    training_operations,
    transformer_parameters,
    xlnet_parameters,
)
from course_lib.models import GPT, NGram, generate
from course_lib.generation import cached_generate, next_word_probabilities, sample
from course_lib.primitives import LSTM, causal_mask, fused_lstm
from course_lib.shapes import Logits, Tokens
from course_tools.notebook import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.analysis import record
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 A table of what came next
#
# A language model says, of every token, how likely it is to come next. Shannon built the first one from a book and a pair of
# scissors: look up what stood behind the last few letters elsewhere, and count. Such a table is an **n-gram**: it counts runs of
# $n$ characters, so it looks at $n-1$ of the past. Where a run is rare or new it mixes in the shorter one (Witten and Bell). It is
# trained in a second, and it is the opponent of this lecture.
#
# The text is Python's own language reference, which every Python carries; paragraphs that repeat are dropped. The measure is
# **bits per character**: $-\log_2 p$ of each character that really came, on average over new text. Blind guessing among a
# hundred signs costs between six and seven.

# %% [markdown] tags=["predict"]
# **Predict.** How much of the past should such a table look at, for the fewest bits on *new* text of this kind?
#
# <details><summary>A. As much as the memory holds: more context cannot hurt.</summary>
#
# On the text that was counted it never hurts. In new text, most long runs of characters have never occurred, and their few
# counts are chance.</details>
# <details><summary>B. One or two characters: longer runs are too rare.</summary>
#
# With a third of a million characters, runs of three and four are counted often enough to be worth a good deal.</details>
# <details><summary>C. Four or five characters, hardly more.</summary>
#
# Yes: see the curve, whose runs hold the foretold character too. It is a law of counting, not of language. With a thousand times the text the lowest point would move to the
# right by a few characters, and never to whole sentences.</details>

# %%
text = language_reference(seed=SEEDS[0])
characters = Vocabulary.of([text.train])
known, valid, new = (torch.tensor(characters.encode(part)) for part in (text.train, text.valid, text.test))
print(f"{len(known):,} characters to learn from, {len(new):,} new ones, {len(characters)} signs\n\n{text.train[:400]} …")

# %%
orders = range(1, 9)
table = NGram(known.unfold(0, orders[-1], 1), len(characters))


def table_bits(tokens, order):
    """Bits a character that the table needs for a text, looking at runs of `order` characters, the last one included."""
    return -table.probability(tokens.unfold(0, order, 1)).log2().mean().item()


on_new, on_known = ([table_bits(part, order) for order in orders] for part in (new, known[:40_000]))
best = min(orders, key=lambda order: table_bits(valid, order))
show(
    plots.curves(
        {"text that was counted": (orders, on_known), "new text": (orders, on_new)},
        "length of the runs that are counted",
        "bits a character",
    ),
    alt=f"Bits a character against the length of the runs: on the counted text they fall to {on_known[-1]:.2f}, on new text they "
    f"fall to {min(on_new):.2f} at length {1 + on_new.index(min(on_new))} and rise again to {on_new[-1]:.2f} at {orders[-1]}.",
)

# %% tags=["nbval-check-output"]
runs = {text.train[i : i + 8] for i in range(len(text.train) - 7)}
never_seen = mean(text.test[i : i + 8] not in runs for i in range(len(text.test) - 7))
claim("07.a", "share of the runs of 8 characters in new text that the counted text never holds", never_seen, at_least=0.25)
lost = on_new[-1] - on_new[best - 1]
claim("07.b", "bits a character that runs of 8 cost more than runs of the best length", lost, at_least=0.04)

# %% [markdown]
# A table knows a run or it does not, and then falls back on a shorter one. To it, `string` and `strings` are strangers, and what
# stood two lines above might as well be on the moon. What is wanted is a model that is *like* a table where it has seen much, and has something better than nothing
# to say where it has not.
#
# ## 2 Say the next token
#
# GPT is lecture 05's decoder without an encoder: blocks of causal self-attention and a feed-forward network, pre-norm, learned
# positions, the embedding $E$ used a second time at the end,
#
# $$h_0 = E[x] + P \qquad h_l = \mathrm{Block}_l(h_{l-1}) \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(E\,\mathrm{Norm}(h_L)_t)$$
#
# All positions are asked at once; the causal mask keeps the answers away from the questions. The loss is the mean of
# $-\log p(x_{t+1} \mid x_{\le t})$. Sometimes not every token is asked for (padding, a prompt): `counts` says which are.
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens); `logits[:, t]` speaks about `tokens[:, t + 1]` |
# | `tokens` | (B, T) |
# | `counts` | (B, T) bool: True where *this token* is asked for |

# %% exercise="07.1" difficulty="●●○" minutes=10
from course_lib.losses import next_token_loss

# %% tags=["nbval-check-output"]
next_token_loss = check("07.1", next_token_loss)

# %% tags=["nbval-check-output"]
T = at_scale(cpu=64, gpu=64)
sizes = at_scale(cpu=Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2), gpu=Sizes(128, 4, 512, 3))
torch.manual_seed(SEEDS[0])
untrained = GPT(len(characters), T, sizes, fused_causal_attention).to(device())
window = new[None, :T].to(device())
first_loss = next_token_loss(untrained(window), window).item() / math.log(len(characters))
claim("07.c", "loss before training over ln n_tokens: it knows nothing", first_loss, between=(0.9, 1.1))

x = (untrained.tokens(window) + untrained.positions(T)).detach().requires_grad_()
said = untrained.stack(x)
(gradient,) = torch.autograd.grad(said[:, T // 2].square().sum(), x)
claim(
    "07.d",
    "gradient of what is said at position t to the inputs behind t, and whether there is one to those up to t",
    [gradient[:, T // 2 + 1 :].abs().max().item(), gradient[:, : T // 2 + 1].abs().amin(1).max().item() > 0],
    equals=[0.0, True],
)

# %% [markdown] tags=["predict"]
# ### Letters, words, or something between
#
# What is a token? Published GPTs read **byte pairs** (Sennrich et al. 2016, algorithm 1): begin with single signs, merge the pair of neighbours that is most
# frequent in the training text into one piece, and again, forty to fifty thousand times. **Predict.** What becomes of a word that the training text never held?
#
# <details><summary>A. It is read as "unknown".</summary>
#
# That is the fate of a new word in a vocabulary of whole words, and the reason why nobody uses one.</details>
# <details><summary>B. It is spelled by pieces that other words have taught.</summary>
#
# Yes. At the worst it is spelled sign by sign. Nothing is lost, and frequent words cost one token.</details>
# <details><summary>C. It is read as the word that looks most like it.</summary>
#
# Then two texts would be read alike, and what was cut could not be joined again.</details>

# %%
pieces = BytePairs.learn([text.train], n_merges=1_000)
told_words = set(text.train.split())
for word in [word for word in dict.fromkeys(text.test.split()) if word.isalpha() and word not in told_words][:4]:
    print(f"{word:>16} → {pieces.cut(word)}")

# %% tags=["nbval-check-output"]
cut, one_line = pieces.cut(text.test), " ".join(text.test.split())
claim(
    "07.e",
    "new text, joined again from its pieces, is what it was, but for line breaks",
    pieces.join(cut) == one_line,
    equals=True,
)
claim(
    "07.f",
    "characters of new text to a piece: a window reaches further by that",
    len(one_line) / len(cut.split()),
    at_least=2.2,
)

# %% [markdown]
# ## 3 Against the table
#
# Bits per *piece* would not compare with bits per character, so here all contenders read characters.
# Train GPT on the text, and beside it an LSTM that reads exactly as many characters. Each predicted character has half a window
# of text or more before it.

# %% [markdown] tags=["predict"]
# **Predict.** A third of a million characters, and less than half a minute on one core. Who needs the fewest bits for new text?
#
# <details><summary>A. GPT: transformers have replaced everything else.</summary>
#
# They have at *their* scale. Here it has to find out from gradients what a table is simply told: which letter follows
# which.</details>
# <details><summary>B. The LSTM: built for sequences.</summary>
#
# Its built-in sense of "just now" helps it in the beginning. GPT must first learn from its position vectors which token is the last
# one.</details>
# <details><summary>C. The table.</summary>
#
# Yes, with so little training. Look at the slopes: the curves of the networks are still falling when their time is up, while the table
# has read all there is to read.</details>


# %%
class Recurrent(nn.Module):
    """An LSTM as a language model: it reads tokens and gives logits for the next."""

    def __init__(self, n_tokens, d_in, n):
        super().__init__()
        self.tokens, self.lstm, self.read_out = nn.Embedding(n_tokens, d_in), LSTM(d_in, n, fused_lstm), nn.Linear(n, n_tokens)

    def forward(self, tokens):
        return self.read_out(self.lstm(self.tokens(tokens))[0])


@torch.no_grad()
def bits(model, tokens):
    """Bits a character that a model needs for a text, each character with half a window or more before it."""
    windows = tokens.to(device()).unfold(0, T, T // 2)
    asked = (torch.arange(T, device=device()) >= T // 2).expand_as(windows)
    return next_token_loss(model(windows), windows, asked).item() / math.log(2)


def fit_text(model, steps, lr, seed=SEEDS[0]):
    """Train on windows of the text; give the bits on held-out text along the way."""
    stream, curve = batches(known.to(device()).unfold(0, T, 1), batch_size=16, seed=seed), {}
    training = train(
        model, stream, lambda model, batch: next_token_loss(model(batch[0]), batch[0]), steps=steps, lr=lr, warmup=50
    )
    for step in progress(training, type(model).__name__, steps):
        if step.index + 1 in {steps // 16, steps // 8, steps // 4, steps // 2, steps}:
            curve[step.index + 1] = bits(model.eval(), valid[:8_000])
            model.train()
    return model.eval(), curve


# %%
torch.manual_seed(SEEDS[0])
steps = at_scale(cpu=700, gpu=4_000)
gpt, gpt_curve = fit_text(
    GPT(len(characters), T, sizes, fused_causal_attention).to(device()), steps, at_scale(cpu=8e-3, gpu=3e-3)
)
torch.manual_seed(SEEDS[0])
lstm, lstm_curve = fit_text(
    Recurrent(len(characters), 32, at_scale(cpu=128, gpu=256)).to(device()), steps, at_scale(cpu=1e-2, gpu=4e-3)
)
rungs = {f"table of runs of {n}": table_bits(valid[:8_000], n) for n in (2, 3, best)}
show(
    plots.curves(
        {
            name: ([16 * T * step for step in curve], list(curve.values()))
            for name, curve in (("GPT", gpt_curve), ("LSTM", lstm_curve))
        },
        "characters read in training",
        "bits a character, held-out text",
        log="x",
        across=rungs,
    ),
    alt=f"Bits a character while the networks train: GPT falls to {gpt_curve[steps]:.2f}, the LSTM to {lstm_curve[steps]:.2f}; "
    + "; ".join(f"{name} needs {height:.2f}" for name, height in rungs.items())
    + ".",
)

# %% tags=["nbval-check-output"]
needs = {"GPT": bits(gpt, new), "LSTM": bits(lstm, new), "table": on_new[best - 1]}
fewer = min("GPT", "table", key=needs.get)
claim(
    "07.g",
    "GPT or the table of counts: which needs fewer bits a character on new text",
    fewer,
    equals=at_scale(cpu="table", gpu="GPT"),
)
claim("07.h", "bits that GPT needs fewer than a table of runs of three", on_new[2] - needs["GPT"], at_least=0.2)
claim("07.i", "bits that GPT needs more than an LSTM that read as much", needs["GPT"] - needs["LSTM"], between=(-0.4, 0.4))

# %% [markdown]
# **So the transformer loses to a table of counts**, and its ladder shows what it lacks: it has passed the tables of pairs and of
# triples by learning alone, and it still falls when it must stop. The table cannot follow: it has read everything already. Where
# CUDA is at hand, this notebook trains a model of five times the size for six times as many steps, and claim 07.g asks for the order turned
# round; the ledger records a run at that setting.

# %% [markdown] tags=["predict"]
# **Predict.** Do the two know *the same*? Mix them: half GPT's probability, half the table's. How many bits does the mixture need?
#
# <details><summary>A. Something between the two.</summary>
#
# Its probability stands between theirs, its bits need not: where one of them is sure and right, the mixture loses a bit at most, and it
# is never as badly wrong as the worse of the two.</details>
# <details><summary>B. As many as the better one, if that.</summary>
#
# So it would be if both were wrong in the same places.</details>
# <details><summary>C. Fewer than either.</summary>
#
# Yes: each is sure where the other is not. The table knows long runs by heart, GPT knows what is like them.</details>

# %% tags=["nbval-check-output"]
windows = new.unfold(0, T, T // 2)
with torch.no_grad():
    said = gpt(windows.to(device()))[:, :-1].softmax(-1).cpu()
by_gpt = said.gather(-1, windows[:, 1:, None])[:, T // 2 - 1 :, 0]
by_table = table.probability(windows.unfold(1, best, 1)[:, T // 2 - best + 1 :].flatten(0, 1)).view_as(by_gpt)
mixed = -((by_gpt + by_table) / 2).log2().mean().item()
gain = min(-by_gpt.log2().mean().item(), -by_table.log2().mean().item()) - mixed
claim("07.j", "bits that half GPT, half table needs fewer than the better of the two", gain, at_least=0.01)

# %% [markdown]
# ## 4 Write
#
# A model that says how likely each next token is can write: draw one, put it behind the text, ask again. The **temperature** τ
# divides the logits first; towards 0 only the likeliest token is left (greedy), at 1 the model's own odds.
#
# The trouble is the tail. A hundred signs that are each hardly possible are together quite possible, and one slip spoils what
# follows. **Top-k** (Fan et al.) keeps the $k$ likeliest, and gives all others a logit of $-\infty$. Exactly $k$ stay, also where
# several are equally likely at the border: which of those is up to you.
#
# | name | shape |
# | --- | --- |
# | `logits`, result | (…, n_tokens): each row keeps `k` of its own |

# %% exercise="07.2" difficulty="●○○" minutes=8
from course_lib.generation import top_k

# %% tags=["nbval-check-output"]
top_k = check("07.2", top_k)

# %% [markdown]
# But how large should $k$ be? In the middle of a word one letter may be certain; behind a full stop twenty are fair. The
# **nucleus** (top-p, Holtzman et al.) takes as many as are needed: *the fewest of the likeliest tokens whose probabilities sum to
# $p$ or more*.
#
# **Bug hunt.** Somebody wrote it like this. It runs, it keeps about $p$ of the probability, it even gives the first word the
# benefit of the doubt. Say what is wrong *before* you run the check; then write it rightly.

# %% exercise="07.3" bug="does_not_sort"
from course_tools.bank.lecture_07.top_p import does_not_sort as suspect

# %% tags=["nbval-check-output"]
suspect = check("07.3", suspect)

# %% [markdown] tags=["predict"]
# **Which property broke, and when would you have noticed?**
#
# <details><summary>A. The sum: it does not reach p.</summary>
#
# It does. A running sum over all words reaches p in any order.</details>
# <details><summary>B. The fewest of the likeliest: it takes words in the order of the vocabulary.</summary>
#
# Yes. Where the likeliest word happens to have a high number it is thrown out, and a row of unlikely ones is kept. On a vocabulary
# sorted by frequency, as many are, this looks right for a long time.</details>
# <details><summary>C. The -∞: it should be 0.</summary>
#
# A logit of 0 is an ordinary word. -∞ is right.</details>

# %% exercise="07.3" difficulty="●●○" minutes=12
from course_lib.generation import top_p

# %% tags=["nbval-check-output"]
top_p = check("07.3", top_p)

# %%
n_kept = (top_p(said[:200, T // 2 :].log(), 0.9) > -torch.inf).sum(-1).flatten().sort().values
places = torch.linspace(0, 1, 101)
show(
    plots.curves(
        {"nucleus of 0.9": (places, n_kept[(places * (len(n_kept) - 1)).long()])},
        "share of the places in new text",
        "signs that are left",
        across={"top-k, k = 10": 10},
    ),
    alt=f"Signs left by the nucleus of 0.9 in {len(n_kept):,} places of new text, in order: {n_kept[len(n_kept) // 10]} or fewer in a "
    f"tenth of the places, {n_kept[len(n_kept) // 2]} in the middle one, {n_kept[len(n_kept) * 9 // 10]} or more in another tenth.",
)


# %%
def write(n, **how):
    """Let GPT go on, `how` for `sample`, from 100 places of new text; give what it wrote."""
    prompts = new[: 100 * 200].view(100, 200)[:, : T // 4].to(device())
    generator = torch.Generator(device()).manual_seed(SEEDS[0])
    written = cached_generate(gpt, prompts, n, partial(sample, generator=generator, **how))
    return [characters.decode(row) for row in torch.cat([prompts, written], 1).tolist()]


manners = {
    "likeliest sign, always": {"k": 1},
    "nucleus of 0.8": {"p": 0.8},
    "its own odds": {},
    "temperature 1.5": {"temperature": 1.5},
}
words = {word for word in text.train.split() if word.isalpha()}
real, different = {}, {}
for manner, how in manners.items():
    texts = write(3 * T // 4, **how)
    whole = [word for line in texts for word in line[T // 4 :].split()[1:-1] if word.isalpha()]
    real[manner] = mean(word in words for word in whole)
    different[manner] = len(set(whole)) / len(whole)
    print(f"{manner}: {real[manner]:.0%} of its words are words\n    {texts[2][: T // 4]!r} → {texts[2][T // 4 :]!r}")

# %% tags=["nbval-check-output"]
by_nucleus, by_odds, likeliest = "nucleus of 0.8", "its own odds", "likeliest sign, always"
claim(
    "07.k",
    "share of real words that the nucleus writes more than the model's own odds",
    real[by_nucleus] - real[by_odds],
    at_least=0.03,
)
claim(
    "07.l",
    "what that costs, share of its words that differ: own odds minus always the likeliest",
    different[by_odds] - different[likeliest],
    at_least=0.1,
)

# %% [markdown]
# Always the likeliest sign gives the cleanest words and says the same few things again and again; the model's own odds are rich
# and full of slips. It is a matter of what the text is for. (A file of GPT-2's real weights can be had by
# `load_gpt2(folder)`; it writes like GPT-2.)
#
# ## 5 Read nothing twice
#
# To write token $t+1$, the model as it stands reads all $t$ tokens anew. But no token looks at a later one: what was computed for the past
# stays true. So keep the **keys and values** of the past, and compute one new row (section 3.2.3 of Vaswani et al., one token at a time):
#
# $$K_t = [K_{t-1};\, x_t W^K] \qquad V_t = [V_{t-1};\, x_t W^V] \qquad \mathrm{head} = \mathrm{softmax}\!\left(\frac{x_t W^Q K_t^\top}{\sqrt{d_k}}\right) V_t$$
#
# | name | shape |
# | --- | --- |
# | `x` | (B, d_in): the new token alone |
# | `keys`, `values` | (B, h, T, d_k), (B, h, T, d_v): h heads, T tokens of the past, 0 in the beginning |
# | `W_q`, `W_k`, `W_v`, `W_o` | (h · d_k, d_in), the same, (h · d_v, d_in), (d_model, h · d_v) |
# | result | `CachedStep(output (B, d_model), keys, values)`, the caches one token longer |

# %% exercise="07.4" difficulty="●●●" minutes=15
from course_lib.attention import cached_step

# %% tags=["nbval-check-output"]
cached_step = check("07.4", cached_step)


# %%
def one_by_one(x, W, h):
    """Run your step over a text (B, T, d), from an empty cache."""
    keys = values = x.new_zeros(len(x), h, 0, W[0].shape[0] // h)
    outputs = []
    for x_t in x.unbind(1):
        output, keys, values = cached_step(x_t, keys, values, *W)
        outputs.append(output)
    return torch.stack(outputs, 1)


def all_anew(x, W, h):
    """For each new token, attend over the whole text so far."""
    T = x.shape[1]
    return torch.stack(
        [multi_head_attention(*[x[:, :t]] * 3, *W, h, causal_mask(t)).context[:, -1] for t in range(1, T + 1)], 1
    )


def operations(compute, *inputs):
    """Count additions and multiplications of all matrix products."""
    with FlopCounterMode(display=False) as counter:
        compute(*inputs)
    return counter.get_total_flops()


generator = torch.Generator().manual_seed(SEEDS[0])
W = [torch.randn(32, 32, generator=generator) / 32**0.5 for _ in range(4)]
lengths = [8, 16, 32, 64]
texts = [torch.randn(1, n, 32, generator=generator) for n in lengths]
saved = [operations(all_anew, x, W, 4) / operations(one_by_one, x, W, 4) for x in texts]
show(
    plots.curves(
        {"measured": (lengths, saved), "(T + 1) / 2": (lengths, [(n + 1) / 2 for n in lengths])},
        "tokens written",
        "operations, all anew over cached",
        log="xy",
    ),
    alt=f"Operations saved by the cache in one layer of width 32, a factor of {saved[0]:.1f} at {lengths[0]} tokens and {saved[-1]:.1f} at {lengths[-1]}.",
)

# %% tags=["nbval-check-output"]
gap = (one_by_one(texts[-1], W, 4) - all_anew(texts[-1], W, 4)).abs().max().item()
claim("07.m", "token by token, your step gives what attention over the whole text gives: largest difference", gap, at_most=1e-4)
claim("07.n", "operations over 64 tokens in one layer: all anew over cached", round(saved[-1], 1), between=(32.5, 60.0))

prompts = new[None, : T // 4].to(device())
started = time.process_time()
anew = generate(gpt, prompts, 3 * T // 4, partial(sample, k=1))
between = time.process_time()
cached = cached_generate(gpt, prompts, 3 * T // 4, partial(sample, k=1))
claim("07.o", "the whole model with a cache writes the same text as without", torch.equal(anew, cached), equals=True)

# %%
print(f"all anew takes {(between - started) / (time.process_time() - between):.1f} times as long as with a cache, here and now")

# %% [markdown]
# ## 6 How large they are
#
# "Ten times the parameters": of what? Count. A block of width $d$ has four projections $d \times d$ (queries, keys, values, and the one
# that joins the heads), a network $d \to 4d \to d$, all six with a bias, and two norms with a gain and a shift each. Before the blocks
# stand two tables of vectors, behind them one more norm; the last matrix *is* the first table.
#
# | name | GPT-2 | GPT-3 |
# | --- | --- | --- |
# | `n_tokens`, `T_max` | 50,257 and 1,024 | 50,257 and 2,048 |
# | `d_model`, `n_layers` | 1,600 and 48 | 12,288 and 96 |
# | `n_norms_at_the_end` | 1 | 1 (0 in GPT-1) |

# %% exercise="07.5" difficulty="●●○" minutes=12
from course_lib.metrics import gpt_parameters

# %% tags=["nbval-check-output"]
gpt_parameters = check("07.5", gpt_parameters)

# %% [markdown] tags=["predict"]
# CS-891's table, "Scaling Up Transformer", row by row, from the slide's own layers and widths; what it calls 12 layers of a Transformer are six of an
# encoder and six of a decoder. Sizes of vocabularies are those of the published models; Turing-NLG's was never published, and GPT-2's stands in. Training
# costs about six operations for each parameter and token: two forwards, four backwards (Kaplan et al. 2020).
#
# **Predict.** One count on the slide is out by more than four percent. Whose?
#
# <details><summary>A. GPT-3: a round 175 billion cannot be exact.</summary>
#
# Round it is, and right to a few parts in a thousand.</details>
# <details><summary>B. XLNet-Large: the same 340M, layers and width as BERT-Large.</summary>
#
# Yes. It is no BERT: its positions are relative, which takes another projection in each block.</details>
# <details><summary>C. Transformer-Base: 12 layers of width 512 are fewer than 65M.</summary>
#
# Twelve blocks of an *encoder* are. Half of them are a decoder's, with a second attention each.</details>

# %%
bert = partial(bert_parameters, 30_522, 512)
rows = {
    "Transformer-Base": (65e6, transformer_parameters(37_000, TRANSFORMER_BASE)),
    "Transformer-Large": (213e6, transformer_parameters(37_000, TRANSFORMER_BIG)),
    "BERT-Base": (110e6, bert(BERT_BASE.d_model, BERT_BASE.n_layers)),
    "BERT-Large": (340e6, bert(BERT_LARGE.d_model, BERT_LARGE.n_layers)),
    "XLNet-Large": (340e6, xlnet_parameters(32_000, 1_024, 24)),
    "RoBERTa": (355e6, bert_parameters(50_265, 514, 1_024, 24, n_segments=1)),
    "GPT-2": (1.5e9, gpt_parameters(50_257, 1_024, GPT_2.d_model, GPT_2.n_layers)),
    "Megatron-LM": (8.3e9, gpt_parameters(51_200, 1_024, 3_072, 72)),
    "Turing-NLG": (17e9, gpt_parameters(50_257, 1_024, 4_256, 78)),
    "GPT-3": (175e9, gpt_parameters(50_257, 2_048, GPT_3.d_model, GPT_3.n_layers)),
}
for name, (stated, counted) in rows.items():
    print(f"{name:18} {stated:>15,.0f} on the slide {counted:>16,} from the sizes   {counted / stated - 1:+.1%}")

here = sum(p.numel() for p in gpt.parameters())
gpt3 = training_operations(rows["GPT-3"][1], 300e9)
ours = training_operations(here, steps * 16 * T)
cache = 2 * GPT_3.n_layers * GPT_3.d_model * 2_048 * 2
print(
    f"\nGPT-3: {gpt3:.2e} operations, {gpt3 / ours:.0e} times the training above; its cache for a text of 2,048 tokens: {cache / 1e9:.1f} GB at 16 bits"
)

# %% tags=["nbval-check-output"]
confirmed = [name for name, (stated, counted) in rows.items() if abs(counted / stated - 1) <= 0.04]
claim("07.p", "rows of the table that the sizes confirm within 4 %, of ten", len(confirmed), equals=9)
formula = gpt_parameters(len(characters), T, sizes.d_model, sizes.n_layers)
claim("07.q", "parameters of this notebook's GPT as it is built, less those by your formula", here - formula, equals=0)
claim(
    "07.r",
    "operations to train GPT-3 on its 300 billion tokens, over the 3.14e23 of its paper",
    gpt3 / 3.14e23,
    between=(0.99, 1.01),
)

# %% [markdown]
# ## 7 What it learns by reading
#
# Bits per character are an average. What did GPT-3's paper find that no table has? *In-context learning*: the model is shown something
# new in its prompt and uses it at once, while no weight changes.
#
# Here is the smallest task that asks for it. Each text has a **secret circular order** of eight letters. It walks along that order, and now and
# then jumps to any letter, each text at a rate of its own. Where it does not jump, behind B comes, in *this* text, what the order has behind B. Asked
# for are only steps that the text has already shown. Orders of the test never occur in training, so there is nothing to know; there is only something to read.


# %%
LETTERS = "ABCDEFGH"
secret = {seed: secret_orders(3_000, 100, 1_000, n_symbols=len(LETTERS), seed=seed) for seed in SEEDS}
told = {seed: walks(secret[seed].train, 8_000, seed=seed) for seed in SEEDS}
untold = {seed: walks(secret[seed].test, 500, seed=100 + seed) for seed in SEEDS}
for row, flags in zip(*(part[:3].tolist() for part in untold[SEEDS[0]]), strict=True):
    print(" ".join(LETTERS[letter] + ("*" if flag else "") for letter, flag in zip(row, flags, strict=True)))
print("* = the text has shown this step before")

# %% [markdown] tags=["predict"]
# How could a transformer do that? With two heads, one behind the other (Elhage et al. 2021, Olsson et al. 2022). A head of the **first** layer copies into
# each token what stood *just before* it. A head of the **second** asks: which token has my own letter just before it? That token is what came next, last
# time. Such a pair is called an *induction head*.
#
# **Predict.** Take one layer away, and give its parameters to the other one: can a single layer of equal size do it?
#
# <details><summary>A. Yes: attention finds things by content, as in lecture 04.</summary>
#
# In lecture 04 key and value stood in *one* token. Here the token with the answer holds the answer alone, not what stood before
# it.</details>
# <details><summary>B. No: what is looked for is not in the token until a layer has put it there.</summary>
#
# Yes. The score compares the query with one token at a time. "What stands before you" must be written into that token first, and that takes a
# layer.</details>
# <details><summary>C. Only if it has more heads.</summary>
#
# Heads work beside each other. None can use what another finds in the same layer.</details>


# %%
def fit_walks(model, seed, steps=450, lr=5e-3):
    """Train on texts with secret orders; asked for are the steps that a text has shown before, as `counts`."""
    tokens, flags = (part.to(device()) for part in told[seed])
    stream = batches(tokens, flags, batch_size=32, seed=seed)
    training = train(
        model.to(device()), stream, lambda model, batch: next_token_loss(model(batch[0]), *batch), steps=steps, lr=lr, warmup=30
    )
    for _ in progress(training, f"{type(model).__name__}, seed {seed}", steps):
        pass
    return model.eval()


@torch.no_grad()
def answers(model, seed):
    """The share of steps shown before, in new texts with new orders, that a model foretells."""
    tokens, flags = (part.to(device()) for part in untold[seed])
    return (model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:])[flags[:, 1:]].float().mean().item()


def by_counting(seed, order=5):
    """The same for a table that has counted all training texts."""
    counts = NGram(told[seed].tokens.unfold(1, order, 1).flatten(0, 1), len(LETTERS))
    runs = untold[seed].tokens.unfold(1, order, 1)[untold[seed].told[:, order - 1 :]]
    every = [
        counts.probability(torch.cat([runs[:, :-1], torch.full_like(runs[:, :1], letter)], 1)) for letter in range(len(LETTERS))
    ]
    return (torch.stack(every, 1).argmax(1) == runs[:, -1]).float().mean().item()


two, one = Sizes(d_model=32, n_heads=4, d_ff=128, n_layers=2), Sizes(d_model=32, n_heads=4, d_ff=324, n_layers=1)
kinds = {
    "GPT, two layers": lambda: GPT(len(LETTERS), 32, two, fused_causal_attention),
    "GPT, one layer": lambda: GPT(len(LETTERS), 32, one, fused_causal_attention),
    "LSTM": lambda: Recurrent(len(LETTERS), 32, 64),
}
readers, right = {}, {kind: [] for kind in kinds}
for kind, make in kinds.items():
    for seed in SEEDS:
        torch.manual_seed(seed)
        readers[kind, seed] = fit_walks(make(), seed)
        right[kind].append(answers(readers[kind, seed], seed))
right["table"] = [by_counting(seed) for seed in SEEDS]
show(
    plots.seeds(right, "steps foretold", across={"a guess among 8": 1 / 8}),
    alt=f"Share of steps foretold in new texts, a point for each of {len(SEEDS)} seeds: "
    + ", ".join(f"{kind} {mean(shares):.2f}" for kind, shares in right.items())
    + "; guessing 0.12.",
)

# %% tags=["nbval-check-output"]
parameters = [sum(p.numel() for p in make().parameters()) for make in kinds.values()]
claim(
    "07.s",
    "parameters of the largest of the three networks over those of the smallest",
    max(parameters) / min(parameters),
    at_most=1.05,
)
claim(
    "07.t", "GPT foretells the steps that a new text has shown: worst of the seeds", min(right["GPT, two layers"]), at_least=0.7
)
claim("07.u", "one layer of as many parameters does not: best of the seeds", max(right["GPT, one layer"]), at_most=0.45)
claim("07.v", "a table of all training texts does not: best of the seeds", max(right["table"]), at_most=0.4)
claim(
    "07.w",
    "GPT leads an LSTM of as many steps: worst against best of the seeds",
    min(right["GPT, two layers"]) - max(right["LSTM"]),
    at_least=0.05,
)

# %% [markdown]
# The table is nearly helpless by construction: each text has another order, and counted over all of them, what came next is left open. One thing is left to know: a walk round a circle
# of eight seldom returns to one of the last four letters, so the table guesses among the other four. (A table counted anew in each text would do well: that *is* induction, built in by
# hand. GPT found it by gradient descent.)

# %% [markdown] tags=["predict"]
# ### See it
#
# Are the two heads there? `record` shows the weights. In the second layer, the right places for a letter are those just behind its earlier copies.
# **Predict.** Where does that head look for a letter that stands there for the first time?
#
# <details><summary>A. Nowhere: there is no earlier copy.</summary>
#
# A softmax cannot say "nowhere": each row of weights sums to one.</details>
# <details><summary>B. At itself, as the token that is most like it.</summary>
#
# It looks by what stands *before* a token, and before this one stands another letter. (Only the first token of all has no choice.)</details>
# <details><summary>C. Somewhere all the same; what it finds is of no use.</summary>
#
# Yes: see the rows of letters that are new. Nothing in the training asks for an answer there.</details>


# %%
def look(seed, tokens):
    """Weights (B, h, T, T) of both layers; the fast mechanism shows none, so the weights move into a model that does."""
    shown = GPT(len(LETTERS), 32, two, causal_attention).to(device())
    shown.load_state_dict(readers["GPT, two layers", seed].state_dict())
    with record(shown) as seen, torch.no_grad():
        shown(tokens.to(device()))
    return [attended[0].weights.cpu() for attended in seen.values()]


def behind_copies(tokens):
    """Where induction should look, (B, T, T): key j stands behind a copy of the letter at query i."""
    before = F.pad(tokens[:, :-1], (1, 0), value=-1)
    return (tokens[:, :, None] == before[:, None, :]) & causal_mask(tokens.shape[1])


previous, induction = [], []
for seed in SEEDS:
    tokens = untold[seed].tokens
    first, second = look(seed, tokens)
    previous.append(first.diagonal(offset=-1, dim1=-2, dim2=-1).mean((0, 2)).max().item())
    places = behind_copies(tokens)
    asked = places.any(-1) & F.pad(untold[seed].told[:, 1:], (0, 1))
    induction.append(max((weights * places).sum(-1)[asked].mean().item() for weights in second.unbind(1)))

tokens = untold[SEEDS[0]].tokens[:1, :16]
first, second = look(SEEDS[0], tokens)
heads = [
    weights[0, weights[0].mul(where).sum((-1, -2)).argmax()]
    for weights, where in ((first, torch.ones(16, 16).tril(-1).triu(-1)), (second, behind_copies(tokens)[0]))
]
letters = [LETTERS[letter] for letter in tokens[0].tolist()]
show(
    plots.attention_maps(
        {"layer 1: the token before": heads[0], "layer 2: behind my copies": heads[1]},
        letters,
        letters,
        x="token looked at",
        y="token that looks",
    ),
    alt=f"One head of each layer over a new text of 16 letters. The first puts {heads[0].diagonal(-1).mean():.2f} of its weight on the token just before; the second "
    f"{(heads[1] * behind_copies(tokens)[0]).sum(-1)[behind_copies(tokens)[0].any(-1)].mean():.2f} on tokens behind an earlier copy of the same letter.",
)

# %% tags=["nbval-check-output"]
claim("07.x", "weight that the best head of layer 1 puts on the token before: least of the seeds", min(previous), at_least=0.2)
claim(
    "07.y", "weight that the best head of layer 2 puts behind earlier copies: least of the seeds", min(induction), at_least=0.4
)

# %% [markdown]
# ## 8 Ask by example
#
# GPT-3 is asked in words. A **prompt** states the task, shows a few solved examples ("shots") and leaves the last one open; the model goes on with what
# is likeliest, and that is the answer (Brown et al., section 2 and figure 2.1). No shot is *zero-shot*, one is *one-shot*. Two rules that cost people dearly:
#
# - the prompt ends **exactly** where the answer begins: a space too many is a token that no text has at this place;
# - it must fit the model's window. Leave out whole examples, the oldest first; never the question.
#
# | name | what |
# | --- | --- |
# | `shots` | pairs (given, answer), the oldest first |
# | `names` | what stands before the given and before the answer, such as `("English", "French")` |
# | `task` | a first line, if any |
# | `room` | characters that the prompt may have; None = no limit |

# %% exercise="07.6" difficulty="●●○" minutes=12
from course_lib.generation import few_shot_prompt

# %% tags=["nbval-check-output"]
few_shot_prompt = check("07.6", few_shot_prompt)

# %% [markdown]
# Now prompt the model of section 7. It has read walks and never a list of examples; it knows eight letters, and reads of a prompt nothing else. The task:
# *which letter comes next in my order?* An example shows one step of the order.


# %%
def prompts_of(orders, n_shots, seed, lies=False):
    """From each order: a question, a prompt of n_shots examples (one of which answers it, if there is one), the truth, the examples."""
    generator, made = torch.Generator().manual_seed(seed), []
    for follows in successors(orders).tolist():
        chosen = torch.randperm(len(LETTERS), generator=generator).tolist()
        asked = chosen[int(torch.randint(max(n_shots, 1), (), generator=generator))]
        question, truth = LETTERS[asked], LETTERS[follows[asked]]
        shown = {LETTERS[given]: LETTERS[follows[follows[given]] if lies else follows[given]] for given in chosen[:n_shots]}
        made.append((question, few_shot_prompt(list(shown.items()), question, ("letter", "next")), truth, shown))
    return made


@torch.no_grad()
def continue_prompts(model, prompts):
    """The letter that a model writes behind each prompt; it reads the letters it knows and nothing else."""
    tokens = torch.tensor([[LETTERS.index(sign) for sign in prompt if sign in LETTERS] for prompt in prompts])
    return [LETTERS[letter] for letter in model(tokens.to(device()))[:, -1].argmax(-1).tolist()]


def answers_to(seed, n_shots, lies=False):
    """Of 300 prompts (3, 300): is the answer the true one, is it that of the example, is the letter asked for itself an answer?"""
    questions, prompts, truths, examples = zip(*prompts_of(secret[seed].test[:300], n_shots, seed, lies), strict=True)
    answers = continue_prompts(readers["GPT, two layers", seed], prompts)
    rows = zip(questions, answers, truths, examples, strict=True)
    return torch.tensor([(a == truth, a == shown.get(q), q in shown.values()) for q, a, truth, shown in rows]).mT


def share(flags):
    """The share of prompts for which it holds."""
    return flags.float().mean().item()


print(prompts_of(secret[SEEDS[0]].test[:1], 3, SEEDS[0])[0][1])

# %% [markdown] tags=["predict"]
# **Predict.** Its answers with no example, with one, with four, and with four that *lie* (each shows the letter after next)?
#
# <details><summary>A. It needs dozens of examples: a few are too few to learn from.</summary>
#
# Too few for a gradient. Here nothing is trained: the answer stands in the prompt, and has only to be found.</details>
# <details><summary>B. Hardly any right without an example, nearly all with one, fewer with four; and lies are believed.</summary>
#
# Yes. It looks the question up among the examples, and says what stands there.</details>
# <details><summary>C. With lies it answers by the true order: it has learned orders.</summary>
#
# It has learned that *there is* an order, and to read it off. What it reads is what it is shown.</details>

# %%
before = {seed: [p.clone() for p in readers["GPT, two layers", seed].parameters()] for seed in SEEDS}
numbers = range(len(LETTERS) + 1)
true_shots, lying_shots = ([[answers_to(seed, n, lies) for seed in SEEDS] for n in numbers] for lies in (False, True))
curve, lied_to = ([mean(share(flags[0]) for flags in of_seeds) for of_seeds in shots] for shots in (true_shots, lying_shots))
believed = [mean(share(flags[1]) for flags in of_seeds) for of_seeds in lying_shots]
show(
    plots.curves(
        {
            "true examples: answer by the order": (numbers, curve),
            "lying examples: answer by the order": (numbers, lied_to),
            "lying examples: answer as they say": (numbers[1:], believed[1:]),
        },
        "examples in the prompt",
        "share of the answers",
        across={"a guess among 8": 1 / 8},
    ),
    alt=f"Answers by the true order against the number of examples: {curve[0]:.2f} with none, {curve[1]:.2f} with one, {curve[4]:.2f} with four, {curve[-1]:.2f} with "
    f"{len(LETTERS)}; with lying examples {lied_to[1]:.2f} with one and {lied_to[4]:.2f} with four. Answers as the lies say: {believed[1]:.2f} with one, {believed[4]:.2f} with four.",
)

# %% tags=["nbval-check-output"]
least, most = ([f(share(by_order) for by_order, _, _ in of_seeds) for of_seeds in true_shots] for f in (min, max))
by_lies = [[share(flags[which]) for flags in lying_shots[4]] for which in (0, 1)]
claim("07.z", "zero-shot: right answers, best of the seeds; a guess has 0.125", most[0], at_most=0.12)
claim("07.aa", "one-shot: right answers, worst of the seeds", least[1], at_least=0.8)
claim("07.bb", "four shots, one of which answers the question: right answers, worst of the seeds", least[4], at_least=0.6)
claim("07.cc", "four shots that lie: answers by the true order, best of the seeds", max(by_lies[0]), at_most=0.25)
claim("07.ee", "four shots that lie: answers as the lie says, worst of the seeds", min(by_lies[1]), at_least=0.6)
once, twice = ([share(by_order[also == twice]) for by_order, _, also in true_shots[4]] for twice in (False, True))
claim(
    "07.ff",
    "four shots, the letter asked for is no example's answer: right answers, worst of the seeds",
    min(once),
    at_least=0.9,
)
claim(
    "07.gg",
    "what they lose where the letter asked for is another example's answer: least of the seeds",
    min(a - b for a, b in zip(once, twice, strict=True)),
    at_least=0.1,
)
same = all(
    torch.equal(p, q)
    for seed in SEEDS
    for p, q in zip(before[seed], readers["GPT, two layers", seed].parameters(), strict=True)
)
claim("07.dd", "no weight has changed while it learned all these orders", same, equals=True)

# %% [markdown]
# **Why do more examples hurt?** GPT-3 gains by them. But our model reads of a prompt nothing but the eight letters: not the line breaks, nor the words that tell the given from the
# answer. Where the letter asked for is also the *answer* of some example, the next example begins behind it, and that looks like an answer too. It is on these prompts that it fails
# (07.ff, 07.gg); with eight examples, every letter stands twice. And without an example it does worse than a guess: such a step was never asked for in its training.

# %% [markdown] tags=["try-it"]
# **Try it.** Make up an order, or a rule that is no order at all (every letter is followed by A?). Give examples that contradict each other. Ask for a letter that
# no example shows.


# %% tags=["try-it"]
def ask(shots, question):
    """Prompt the model of the first seed with your examples, each two letters from A to H, and show its odds."""
    prompt = few_shot_prompt(
        [(shot[0], shot[1]) for shot in shots], question, ("letter", "next"), "Say the next letter.", room=220
    )
    tokens = torch.tensor([[LETTERS.index(sign) for sign in prompt if sign in LETTERS]], device=device())
    with torch.no_grad():
        odds = readers["GPT, two layers", SEEDS[0]](tokens)[0, -1].softmax(-1)
    print(prompt, " ".join(f"{letter} {p:.2f}" for letter, p in zip(LETTERS, odds.tolist(), strict=True)))


ask(["AC", "CE", "EG", "GB"], "C")

# %% [markdown]
# And GPT on the language reference, with the three dials of section 4: which sign comes next?


# %% tags=["interactive"]
def draw_odds(temperature=1.5, k=5, p=1.0):
    """Draw the odds of the next sign behind some words, after temperature, top-k and top-p."""
    words = "The following stateme"
    with torch.no_grad():
        logits = gpt(torch.tensor([characters.encode(words)], device=device()))[0, -1].cpu()
    odds, ranks = next_word_probabilities(logits, temperature, k, p), range(1, 11)
    drawn = {
        name: (ranks, shares.topk(10).values)
        for name, shares in (("after the dials", odds), ("the model's own", logits.softmax(-1)))
    }
    show(
        plots.curves(drawn, "rank of the sign", "probability"),
        alt=f"Behind {words!r}: {(odds > 0).sum()} signs are left, the likeliest is {characters.symbols[odds.argmax()]!r} with {odds.max():.2f}.",
    )


explore(draw_odds, temperature=(0.2, 2.0, 0.1), k=(1, 40), p=(0.1, 1.0, 0.05))

# %% [markdown] tags=["quiz"]
# ## 9 Before you go
#
# **Question 1.** A GPT reaches 0.02 bits a character on new text. What do you look at first?
#
# <details><summary>A. The learning rate: it has learned uncommonly well.</summary>
#
# No English text can be foretold so well, by anybody.</details>
# <details><summary>B. The mask and the shift: the answer has leaked into the question.</summary>
#
# Right. Either a position sees its own successor, or the loss asks for the token just read.</details>
# <details><summary>C. Whether the new text stands in the training text.</summary>
#
# Look there too: paragraphs that repeat were dropped for this reason. Even so, a model that size cannot have it all by
# heart.</details>
#
# **Question 2.** What does the cache *not* save?
#
# <details><summary>A. The attention of the new token over the whole past.</summary>
#
# Right: each new token still looks at every key, so that the cost of a token grows with the text. Lecture 14 removes that.</details>
# <details><summary>B. The projections of the past.</summary>
#
# It saves just these.</details>
# <details><summary>C. Memory: it needs less.</summary>
#
# It needs more: all keys and values of all layers stay. For large models that is what limits the batch.</details>
#
# **Question 3.** Your prompt fits into the window and works; you move the examples into another order and it fails. What does that show?
#
# <details><summary>A. The model learned the task from the examples by gradient descent.</summary>
#
# No weight changes. And gradient descent over a set would not mind its order.</details>
# <details><summary>B. A prompt is read as a text, and what stands near, or last, weighs more.</summary>
#
# Right. The model foretells a continuation. Measure a prompt over several orders of its examples before you trust it.</details>
# <details><summary>C. The window is too short.</summary>
#
# All examples fit, in either order. (Did they not, another order would cut off another example: count before you ask.)</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A newspaper writes: "The model understands instructions; it has learned to learn." Which of its findings would you
# repeat on a model that you can open, and how, before you say yes or no?*
#
# | points | what earns them |
# | --- | --- |
# | 1 | tells apart what is stored in weights and what is read from the prompt, by a test with unseen rules |
# | 1 | asks for a control: no examples, lying examples, examples of another task |
# | 1 | asks for a baseline without attention or with one layer, or a table |
# | 1 | looks for the mechanism (which head looks where), and not at the answer alone |
# | 1 | says what would *not* follow from it, and is clear and short |

# %% [markdown]
# ## 10 Ledger
#
# **CS-891, "Scaling Up Transformer", row by row.** A claim for each row follows: nine of ten counts are confirmed by the sizes, one is corrected. And:
#
# - *XLNet-Large, 340M*: its relative positions take a fifth projection in each block; it has 360M.
# - *Transformer-Base, Large, 12 layers*: these are 6 and 6. Twelve blocks of an encoder would not make 65M; half of them have a second attention.
# - *GPT-2, heads "?"*: 25, of 64 features each, as the released configuration says. Its paper counts 1542M (table 2); from the sizes it is 1,558M.
# - *GPT-3, 694GB*: not in the paper. It gives 570 GB for 410 billion tokens of filtered web text, one of five parts; 694 is that, scaled up to all 499 billion. Three
#   hundred billion were read.
#
# **Others.** *CS*, "Programming by Prompt": the last line of the prompt reads "Poor English input" a second time; as printed it asks for no answer.
# *EE*: "more than 10X the parameters" of GPT holds. *IT* calls GPT a "decoder": it is one without its second attention, which would cost a third more.
#
# **The larger setting of section 3**, three layers of width 128 and 4,000 steps, which this notebook takes where CUDA is at hand, was run once by hand for each of two seeds, on one CPU thread in about
# five minutes. Bits a character of held-out text:
#
# | seed | GPT | LSTM | table |
# | --- | --- | --- | --- |
# | 0 | 1.75 | 1.82 | 2.02 |
# | 6 | 1.58 | 1.61 | 1.78 |
#
# So with time GPT passes the table, and the LSTM does so too. What sets the two apart at GPT-3's size is not to be seen here.
#
# **What this lecture does not show.** The decks show GPT-3 writing a newspaper article, mending English and parodying Hemingway, and EE quotes that one goal, the next word, taught many
# tasks. Nothing of this is seen here. With the half minute of training that it gets on a CPU, GPT loses to a table on text, and what it writes is made of words, more or less, and not of thoughts. It is good at a single
# task in context, the one that *all* its texts were made of; GPT-3's texts were made for no task. `load_gpt2` reads GPT-2's real weights, where that can be tried. That the in-context
# learning of *large* models is this mechanism and no other is argued in the literature, not here. The LSTM fails at *this* budget, not in principle.

# %% tags=["nbval-check-output"]
for name, (stated, counted) in rows.items():
    within = (1.05, 1.07) if name == "XLNet-Large" else (0.96, 1.04)
    claim(f"07.CS-{name}", f"parameters of {name}: counted from its sizes, over the slide's", counted / stated, between=within)

# %% tags=["nbval-check-output"]
block = 12 * block_parameters(512, 2048) + 37_000 * 512
claim("07.CS-base", "twelve encoder blocks of width 512 and their vocabulary, over 65 million", block / 65e6, at_most=0.9)
claim("07.CS-heads", "features of a head of GPT-2, whose 1,600 are dealt to 25", 1_600 / 25, equals=64.0)
claim("07.CS-data", "570 GB over 410 billion tokens, times 499 billion: GB", round(570 / 410 * 499), equals=694)
deck = few_shot_prompt(
    [("I eated the purple berries.", "I ate the purple berries.")],
    "I'd be more than happy",
    ("Poor English input", "Good English output"),
)
claim("07.CS-prompt", "what the deck's prompt should end with", deck.splitlines()[-1], equals="Good English output:")
times = rows["GPT-2"][1] / gpt_parameters(40_478, 512, GPT_1.d_model, GPT_1.n_layers, n_norms_at_the_end=0)
claim("07.EE", "parameters of GPT-2 over those of GPT", times, at_least=10)
ratio = block_parameters(GPT_2.d_model, GPT_2.d_ff, n_attentions=2) / block_parameters(GPT_2.d_model, GPT_2.d_ff)
claim("07.IT", "a decoder block with its second attention over one of GPT", ratio, between=(1.3, 1.4))

# %% tags=["ledger"]
ledger()
