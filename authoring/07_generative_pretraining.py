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
# A GPT is trained to predict the next token; in doing so, it can learn to infer a rule from its prompt and apply it.
#
# ![](diagram:gpt)
#
# You will write the loss, top-k and nucleus sampling, a key-value cache, the parameter count and a few-shot prompt, and train
# GPTs on sequences with a hidden rule and on real text.
#
# **Prerequisites:** lectures 04 (self-attention) and 05 (the Transformer). **Time:** {minutes}. {measured}


# %%
from statistics import mean

from course_tools.notebook import (
    at_scale,
    check,
    claim,
    device,
    explore,
    ledger,
    plots,
    predict,
    recorded,
    show,
    show_study,
)
from course_tools.lectures.lecture_07.in_context_orders import (
    LETTERS,
    accuracy_of_counts,
    order_task,
    print_texts,
)

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 A rule that only the text contains
#
# The paper on GPT-3 is known for *in-context learning*: the prompt shows the model something new, and the model uses it at
# once, without any change to its weights.
#
# Here is a small task that requires it. Each text has a **secret circular order** of eight letters. Each letter of the text is
# followed by its successor in this order, except that the text sometimes jumps to a random letter, at a rate that differs from
# text to text. We score only those steps of the order that the text has shown before. The orders of the test texts never occur
# in training, so a model cannot memorise them; it must find the order in the text. With the order A → D → B → C → A of only
# four letters, a text might read `A D B C A D* B* …`, where a star marks the scored steps.
#
# The baseline is an **n-gram**, a table of counts: it predicts the letter that most often followed the last four letters in all
# training texts.


# %% [markdown] tags=["predict"]
# **Predict.** The table has counted 8,000 texts. What fraction of the scored steps of new texts does it predict correctly? A
# random guess among eight letters is right in one case out of eight (0.125).
#
# <details><summary>A. About 0.125.</summary>
#
# The table does a little better: a text that follows a circular order of eight letters rarely returns to one of the last
# four.</details>
# <details><summary>B. About 0.25.</summary>
#
# Yes. Each text has a different order, so the counts over all texts do not determine the next letter. The table can only
# exclude the last four letters and guess among the other four.</details>
# <details><summary>C. More than 0.5.</summary>
#
# That needs the order of *this* text, and the table has only the sums over all texts.</details>

# %%
tasks = [order_task(seed) for seed in SEEDS]
print_texts(tasks[0].test, 3)
print("* = the text has shown this step before; only these are scored")

counted = [accuracy_of_counts(task.train, task.test) for task in tasks]
print(
    f"a table that has counted all training texts predicts {mean(counted):.2f} of "
    "these steps; a guess among 8 would predict 0.12"
)

# %% [markdown]
# ## 2 Predict the next token
#
# In this section you write the loss of a GPT (generative pre-trained Transformer). It is trained on plain text, which needs no
# labels; afterwards it is used by prompts (section 9), or trained further on a task (lecture 08). GPT is the decoder of lecture
# 05 without an encoder: blocks of causal self-attention and a feed-forward network (pre-norm since GPT-2), and learned
# positions. With the position vectors $P$, $L$ blocks, and the embedding matrix $E$, which is used a second time at the output:
#
# $$h_0 = E[x] + P \qquad h_l = \mathrm{Block}_l(h_{l-1}) \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(E\,\mathrm{Norm}(h_L)_t)$$
#
# All positions are trained at once, and the causal mask hides the targets. The loss is the mean of $-\log p(x_{t+1} \mid x_{\le
# t})$. Sometimes not every token is a target (padding, a prompt); the mask `counts` is True at the tokens that are.
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens); `logits[:, t]` predicts `tokens[:, t + 1]` |
# | `tokens` | (B, T) |
# | `counts` | (B, T) bool: True where *this token* is a target |

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.shapes import Tokens

# %% exercise="07.1" difficulty="●●○" minutes=10
from course_lib.losses import next_token_loss

# %% tags=["nbval-check-output"]
next_token_loss = check("07.1", next_token_loss)

# %% [markdown] tags=["predict"]
# ## 3 Induction heads
#
# How can a Transformer solve the task of section 1? We now train a GPT with two layers, one with a single layer, and an LSTM,
# for 450 updates each, and one LSTM for 1,350. The loss counts only the scored steps: those that the text has shown before.
#
# **Predict.** We remove one layer and give its parameters to the other. Can a single layer with as many parameters solve the
# task?
#
# <details><summary>A. Yes: attention finds things by content, as in lecture 04.</summary>
#
# In lecture 04, key and value were in *one* token. Here the token with the answer contains only the answer, not the letter
# before it.</details>
# <details><summary>B. No: the letter to be matched is in the preceding token, and copying it takes another layer.</summary>
#
# Yes. The score compares the query with one token at a time. The preceding letter must first be copied into that token, which
# takes a layer.</details>
# <details><summary>C. Only if it has more heads.</summary>
#
# The heads of one layer work in parallel. No head can use what another head of the same layer finds.</details>


# %%
from course_lib.blocks import Sizes
from course_tools.notebook.fitting import show_losses
from course_tools.lectures.lecture_07.in_context_orders import (
    Recurrent,
    accuracy_of_own_counts,
    accuracy_on_orders,
    fit_on_orders,
    order_gpt,
)
from course_tools.notebook.seed_scores import show_seeds

two = Sizes(d_model=32, n_heads=4, d_ff=128, n_layers=2)
one = Sizes(d_model=32, n_heads=4, d_ff=324, n_layers=1)
kinds = {
    "GPT, two layers": lambda: order_gpt(two),
    "GPT, one layer": lambda: order_gpt(one),
    "LSTM": lambda: Recurrent(len(LETTERS), 32, 64),
}
trained = {
    kind: [
        fit_on_orders(make, task.train, next_token_loss, seed)
        for seed, task in zip(SEEDS, tasks, strict=True)
    ]
    for kind, make in kinds.items()
}
longer = "LSTM, 1,350 updates, one seed"
trained[longer] = [
    fit_on_orders(kinds["LSTM"], tasks[0].train, next_token_loss, SEEDS[0], 1_350)
]
show_losses(trained, "nats per scored step")

# %%
right = {
    kind: [accuracy_on_orders(model, tasks[i].test) for i, model in enumerate(models)]
    for kind, models in trained.items()
}
right["table of all training texts"] = counted
right["table of the text itself"] = [
    accuracy_of_own_counts(task.test) for task in tasks
]
show_seeds(right, "accuracy on scored steps", across={"a guess among 8": 1 / 8})

# %% tags=["nbval-check-output"]
parameters = [sum(p.numel() for p in make().parameters()) for make in kinds.values()]
claim("07.s", ratio=max(parameters) / min(parameters))
claim("07.t", least=min(right["GPT, two layers"]))
claim("07.u", difference=min(right["GPT, two layers"]) - max(right["GPT, one layer"]))
claim("07.v", difference=min(right["GPT, two layers"]) - max(counted))
lead = mean(right["GPT, two layers"]) - mean(right["table of the text itself"])
claim("07.v-text", lead=lead)
claim("07.w", difference=min(right["GPT, two layers"]) - max(right["LSTM"]))
claim("07.w-longer", right=right[longer][0])

# %% [markdown]
# After 450 updates the LSTM is right in about half of the steps (after 1,350 in three quarters, one seed), and the single layer
# in less than a third; we do not train it longer. A table that counts each text separately, up to the current letter, follows
# the rule by construction. GPT has learned the rule by gradient descent and does about as well (07.v-text).
#
# Two heads in successive layers suffice (Elhage et al. 2021, Olsson et al. 2022). A head of the **first** layer copies the
# *preceding* token into each token; it is called a *previous-token head*. A head of the **second** layer attends to the token
# that was preceded by the current letter, that is, to the token that followed this letter last time. This second head is called
# an *induction head*.
#
# ![](diagram:induction_heads)

# %% [markdown] tags=["predict"]
# ### Attention maps of the two heads
#
# Does the trained model contain the two heads? The next cell draws one head of each layer, with the first seed, and measures
# the attention weights with every seed. In the second layer, the right positions for a letter are those just after its earlier
# copies. The positions that the two heads need are outlined in red.
#
# **Predict.** Where does the induction head attend when a letter occurs for the first time?
#
# <details><summary>A. Nowhere: there is no earlier copy.</summary>
#
# A softmax cannot attend "nowhere": each row of weights sums to one.</details>
# <details><summary>B. Always to itself, as the token that is most similar to it.</summary>
#
# Some new letters do, others do not (see the map). The head compares the current letter with what *precedes* each token, and
# for a new letter nothing matches. (Only the first token of the text has no choice.)</details>
# <details><summary>C. To itself or to other letters, without a rule; the result is not useful.</summary>
#
# Yes: see the rows of letters that are new. Some attend mostly to themselves, others to one or to many earlier letters. These
# positions are not targets of the loss.</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_07.in_context_orders import (
    head_weights,
    show_induction_heads,
)

gpts = trained["GPT, two layers"]
show_induction_heads(gpts[0], two, tasks[0].test.tokens[0, :16])
measured = [
    head_weights(model, two, task.test) for model, task in zip(gpts, tasks, strict=True)
]
claim("07.x", least=min(heads.previous.max().item() for heads in measured))
claim("07.y", least=min(heads.induction.max().item() for heads in measured))

# %% [markdown]
# The induction head of layer 2 is clearly visible with every seed (07.y). The previous-token head of layer 1 is less clear:
# with the worst of our seeds, the best head puts only about a third of its weight on the preceding token (07.x).
#
# ## 4 A table of counts
#
# Now we turn to real text, and begin with a baseline. Shannon's language model counts which characters followed the last few
# characters elsewhere in the text. Such an **n-gram** table counts runs of $n$ characters, so its context has $n-1$ characters.
# Where a run is rare or new, its estimate is interpolated with that of the shorter run (Witten and Bell).
#
# The text is Python's own language reference, which is part of every Python installation; repeated paragraphs are removed. We
# measure **bits per character**: the mean of $-\log_2 p$ of each true character of new text. Uniform guessing among a hundred
# characters needs between six and seven bits.

# %% [markdown] tags=["predict"]
# **Predict.** Which length of the context gives the fewest bits on *new* text of this kind?
#
# <details><summary>A. As long as memory allows: more context cannot hurt.</summary>
#
# On the training text it never hurts. In new text, many long runs of characters have never been counted, and the counts of the
# others are small and noisy.</details>
# <details><summary>B. One or two characters: longer runs are too rare.</summary>
#
# In a third of a million characters, runs of three and four occur often enough to help considerably.</details>
# <details><summary>C. Four or five characters.</summary>
#
# Yes. (The lengths in the figure include the predicted character.) With more text, the minimum moves to longer runs.</details>

# %%
from course_lib.datasets import Vocabulary, language_reference

text = language_reference(seed=SEEDS[0])
characters = Vocabulary.of([text.train])
known, valid, new = (
    torch.tensor(characters.encode(part))
    for part in (text.train, text.valid, text.test)
)
print(
    f"{len(known):,} characters to learn from, {len(new):,} new ones, "
    f"{len(characters)} different\n\n{text.train[:400]} …"
)

# %% tags=["nbval-check-output"]
from course_lib.models import NGram
from course_tools.lectures.lecture_07.character_model import bits_by_counts, unseen_runs

orders = range(1, 9)
table = NGram(known.unfold(0, orders[-1], 1), len(characters))
on_new, on_known = (
    [bits_by_counts(table, part, order) for order in orders]
    for part in (new, known[:40_000])
)
best = min(orders, key=lambda order: bits_by_counts(table, valid, order))
show(
    plots.curves(
        {"training text": (orders, on_known), "new text": (orders, on_new)},
        "length of the runs that are counted",
        "bits per character",
    ),
    alt="Bits per character against the length of the runs: on the training text "
    f"they fall to {on_known[-1]:.2f}, on new text they fall to {min(on_new):.2f} at "
    f"length {1 + on_new.index(min(on_new))} and rise again to {on_new[-1]:.2f} at "
    f"{orders[-1]}.",
)
claim("07.a", unseen_runs=unseen_runs(text.train, text.test, 8))
claim("07.b", difference=on_new[-1] - on_new[best - 1])

# %% [markdown] tags=["predict"]
# ### Characters, words, or subwords
#
# What is a token? Published GPTs use **byte-pair encoding** (Sennrich et al. 2016, algorithm 1). It starts with single
# characters, merges the most frequent pair of neighbours in the training text into one piece, and repeats this forty to fifty
# thousand times. The next cell learns 1,000 merges from our text.
#
# **Predict.** What happens to a word that the training text did not contain?
#
# <details><summary>A. It becomes "unknown".</summary>
#
# That happens to a new word in a vocabulary of whole words.</details>
# <details><summary>B. It is spelled with pieces learned from other words.</summary>
#
# Yes. In the worst case it is spelled character by character. No information is lost, and frequent words cost one token. (Since
# GPT-2, the merges start with bytes, so that even a new character can be spelled.)</details>
# <details><summary>C. It is replaced by the most similar word.</summary>
#
# Then two different texts could get the same tokens, and the original could not be restored.</details>

# %% tags=["nbval-check-output"]
from course_lib.datasets import BytePairs
from course_tools.lectures.lecture_07.character_model import unseen_words

pieces = BytePairs.learn([text.train], n_merges=1_000)
for word in unseen_words(text.train, text.test)[:4]:
    print(f"{word:>16} → {pieces.cut(word)}")

cut, one_line = pieces.cut(text.test), " ".join(text.test.split())
claim("07.e", same=pieces.join(cut) == one_line)
claim("07.f", ratio=len(one_line) / len(cut.split()))

# %% [markdown]
# ## 5 GPT on real text
#
# We train a GPT on the text, and an LSTM that reads exactly as many characters, and compare both with the table. Bits per
# *piece* would have to be converted first (all bits, divided by the number of characters), so here all models read characters.
# In the evaluation, each predicted character has at least half a window of context. *Held-out text* is used for the curves and
# for choosing the length of the runs; *new text*, other paragraphs, is used only for the numbers that we report.
#
# First, two tests of the untrained model: its loss is that of a uniform guess, and no state depends on later tokens.

# %% tags=["nbval-check-output"]
import math

from course_lib.fast import fused_causal_attention
from course_lib.models import GPT
from course_tools.lectures.lecture_07.character_model import gradient_by_position

T = 64
sizes = at_scale(
    cpu=Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2), gpu=Sizes(128, 4, 512, 3)
)
torch.manual_seed(SEEDS[0])
gpt = GPT(len(characters), T, sizes, fused_causal_attention).to(device())
window = new[None, :T].to(device())
ratio = next_token_loss(gpt(window), window).item() / math.log(len(characters))
claim("07.c", ratio=ratio)
gradient = gradient_by_position(gpt, window, T // 2)
values = [
    gradient[T // 2 + 1 :].max().item(),
    (gradient[: T // 2 + 1] > 0).all().item(),
]
claim("07.d", values=values)

# %% [markdown] tags=["predict"]
# **Predict.** The budget is a third of a million characters and 700 updates, half a minute to three minutes on one core. Which
# model needs the fewest bits on new text *at this budget*?
#
# <details><summary>A. GPT.</summary>
#
# With twice the width and more updates, a GPT overtakes this table (07.i). Here it must learn by gradient descent what the
# table simply counts: which character follows which.</details>
# <details><summary>B. The LSTM.</summary>
#
# It is ahead of GPT for most of this budget (not at the first point of the curves); at the end the two are close. A possible
# reason is that a recurrence knows which token comes last; GPT must learn this from its position vectors.</details>
# <details><summary>C. The table.</summary>
#
# Yes, at this budget. Look at the slopes: the curves of the networks are still falling, while the table has already counted the
# whole text.</details>

# %%
from functools import partial

from course_tools.lectures.lecture_07.character_model import (
    fit_text,
    show_held_out_bits,
)

steps = at_scale(cpu=700, gpu=4_000)
fit = partial(
    fit_text,
    known=known,
    valid=valid[:8_000],
    loss=next_token_loss,
    T=T,
    steps=steps,
    seed=SEEDS[0],
)
gpt, gpt_curve = fit(gpt, lr=at_scale(cpu=8e-3, gpu=3e-3))
torch.manual_seed(SEEDS[0])
lstm, lstm_curve = fit(
    Recurrent(len(characters), 32, at_scale(cpu=128, gpu=256)).to(device()),
    lr=at_scale(cpu=1e-2, gpu=4e-3),
)
show_held_out_bits(
    {"GPT": gpt_curve, "LSTM": lstm_curve},
    T,
    across={
        f"table of runs of {n}": bits_by_counts(table, valid[:8_000], n)
        for n in (3, best)
    },
)

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_07.character_model import WINDOWS, bits_per_character
from course_tools.notebook.study_scores import print_scores, second_half_gain

needs = {
    "GPT": bits_per_character(gpt, new, T),
    "LSTM": bits_per_character(lstm, new, T),
    "table": on_new[best - 1],
}
print(
    f"bits per character on new text after {steps} updates: "
    + ", ".join(f"{name} {bits:.2f}" for name, bits in needs.items())
)
claim("07.h", difference=on_new[2] - needs["GPT"])
least = min(curve[steps // 2] - curve[steps] for curve in (gpt_curve, lstm_curve))
claim("07.g", least=least)

longer = show_study("07_updates")
print_scores(longer, "bits")
claim("07.i", difference=longer.mean("table", "bits") - longer.mean("GPT", "bits"))
lead = second_half_gain(longer, "GPT") - second_half_gain(longer, "LSTM")
claim("07.jj", lead=lead)

# %% [markdown]
# In our training the table needs fewer bits, and the curves of both networks are still falling. The study `07_updates`
# repeats the comparison on the same text with a GPT of twice the width, an LSTM of as many parameters and
# 2,500 updates, and adds the counts of Kneser and Ney (section 11). Both networks overtake the table of section 4, but neither
# overtakes Kneser and Ney's counts. GPT learns more slowly at first, and gains more in the second half of the updates (07.jj).
# Each network has one learning rate; no others were tried.

# %% [markdown]
# ## 6 Sampling
#
# A language model generates text as follows: sample a token, append it, predict again. The logits are first divided by the
# **temperature** τ. Near 0, only the most likely token remains (greedy decoding); at 1, the probabilities are the model's own.
# In this section you write two ways to choose the tokens that may be sampled.
#
# They are needed because of the tail of the distribution. If a hundred characters are each very unlikely, one of them is still
# sampled quite often, and one wrong character affects everything after it. **Top-k** (Fan et al.) keeps the $k$ most likely
# tokens and sets all other logits to $-\infty$. Exactly $k$ tokens must remain, even if several have the $k$-th largest logit;
# which of these remain is up to you.
#
# | name | shape |
# | --- | --- |
# | `logits`, result | (…, n_tokens): each row keeps `k` of its own |

# %%
from course_lib.shapes import Logits

# %% exercise="07.2" difficulty="●○○" minutes=8
from course_lib.generation import top_k

# %% tags=["nbval-check-output"]
top_k = check("07.2", top_k)

# %% [markdown]
# But how large should $k$ be? Within a word, one character may be certain; after a full stop, twenty are plausible. The
# **nucleus** (top-p, Holtzman et al.) keeps as many as are needed: *the smallest set of the most likely tokens whose
# probabilities sum to $p$ or more*.
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
# <details><summary>B. It does not keep the most likely tokens: it takes tokens in the order of the vocabulary.</summary>
#
# Yes. It removes likely tokens with a high index and keeps unlikely ones with a low index. Where the vocabulary is sorted by
# frequency, the mistake is harder to see.</details>
# <details><summary>C. The removed logits should be 0, not -∞.</summary>
#
# A logit of 0 belongs to an ordinary token. -∞ is right.</details>

# %% tags=["nbval-check-output"]
suspect = check("07.3", suspect)

# %% exercise="07.3" difficulty="●●○" minutes=12
from course_lib.generation import top_p

# %% tags=["nbval-check-output"]
top_p = check("07.3", top_p)

# %%
from course_tools.lectures.lecture_07.character_model import (
    nucleus_sizes,
    show_nucleus_sizes,
)

show_nucleus_sizes(nucleus_sizes(gpt, new, T, top_p, p=0.9), p=0.9, k=10)

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_07.character_model import word_fractions

prompts = new[: 100 * 200].view(100, 200)[:, : T // 4]
manners = {
    "greedy": lambda logits: top_k(logits, 1),
    "nucleus of 0.8": lambda logits: top_p(logits, 0.8),
    "temperature 1": lambda logits: logits,
    "temperature 1.5": lambda logits: logits / 1.5,
}
of_words = {
    manner: word_fractions(
        gpt, prompts, 3 * T // 4, adjust, characters, text.train, SEEDS[0]
    )
    for manner, adjust in manners.items()
}
for manner, (real, different) in of_words.items():
    print(
        f"{manner:16} {real:.0%} of its words occur in the training text; "
        f"{different:.0%} are distinct"
    )
lead = of_words["nucleus of 0.8"].real - of_words["temperature 1"].real
claim("07.k", lead=lead)
lead = of_words["temperature 1"].different - of_words["greedy"].different
claim("07.l", lead=lead)

# %% [markdown]
# Greedy decoding gives the largest fraction of real words, but it repeats itself. Sampling from the model's own probabilities
# is more varied and makes more errors. The next figure shows which characters our model considers likely.
#
# Our model has read very little. The cell after the figure shows how a larger GPT, trained on Shakespeare on a GPU in
# section 11, continues one scene in the four ways, as recorded. (`course_lib.pretrained` can read GPT-2's published weights.)

# %% tags=["interactive"]
from course_tools.lectures.lecture_07.character_model import next_character_figure

explore(
    next_character_figure(gpt, characters, "The following stateme", top_k, top_p),
    temperature=(0.2, 2.0, 0.1),
    k=(1, 40),
    p=(0.1, 1.0, 0.05),
)

# %%
texts = recorded("07_text", device="cuda").of("GPT, 4.2 million")[0].texts
for manner in manners:
    print(f"--- {manner}\n\n{texts[manner].strip()} …\n")

# %% [markdown]
# ## 7 The key-value cache
#
# So far, the model recomputes all $t$ tokens to generate token $t+1$. For $T$ tokens it computes $(T+1)/2$ times as many
# projections as it needs, and it repeats the attention of all earlier queries. But no token attends to a later one, so what was
# computed for earlier tokens remains valid. In this section you write a step that stores the **keys and values** of the past
# and computes only the new row (section 3.2.3 of Vaswani et al., one token at a time):
#
# $$K_t = [K_{t-1};\, x_t W^K] \qquad V_t = [V_{t-1};\, x_t W^V] \qquad \mathrm{head} = \mathrm{softmax}\!\left(\frac{x_t W^Q K_t^\top}{\sqrt{d_k}}\right) V_t$$
#
# | name | shape |
# | --- | --- |
# | `x` | (B, d_in): only the new token |
# | `keys`, `values` | (B, h, T, d_k), (B, h, T, d_v): h heads, T past tokens, 0 in the beginning |
# | `W_q`, `W_k`, `W_v`, `W_o` | (h · d_k, d_in), the same, (h · d_v, d_in), (d_model, h · d_v) |
# | result | `CachedStep(output (B, d_model), keys, values)`, the caches one token longer |
#
# ![](diagram:key_value_cache)

# %%
from einops import rearrange

from course_lib.attention import CachedStep, attend

# %% exercise="07.4" difficulty="●●●" minutes=15
from course_lib.attention import cached_step

# %% tags=["nbval-check-output"]
cached_step = check("07.4", cached_step)

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_07.cached_generation import (
    StepwiseGPT,
    compare_with_recomputed,
)

lengths = [8, 16, 32, 64]
saved, difference = compare_with_recomputed(cached_step, lengths, SEEDS[0])
show(
    plots.curves(
        {
            "measured": (lengths, saved),
            "projections alone: (T + 1) / 2": (lengths, [(n + 1) / 2 for n in lengths]),
        },
        "tokens generated",
        "multiply-adds, recomputed over cached",
        log="xy",
    ),
    alt="Multiply-adds saved by the cache in one layer of width 32, a factor of "
    f"{saved[0]:.1f} at {lengths[0]} tokens and {saved[-1]:.1f} at {lengths[-1]}.",
)
claim("07.m", difference=difference)
claim("07.n", saved=round(saved[-1], 1))

# %% tags=["nbval-check-output"]
from course_lib.fast import CachedGPT
from course_lib.generation import generate

models = {
    "without a cache": gpt,
    "by the cached step of 07.4": StepwiseGPT(gpt, cached_step),
    "CachedGPT": CachedGPT(gpt),
}
generated = {
    name: generate(
        model, new[None, : T // 4].to(device()), 3 * T // 4, lambda x: x.argmax(-1)
    )
    for name, model in models.items()
}
claim("07.o", same=torch.equal(generated["without a cache"], generated["CachedGPT"]))
same = torch.equal(generated["by the cached step of 07.4"], generated["CachedGPT"])
claim("07.o-step", same=same)

# %% [markdown]
# ## 8 Number of parameters
#
# In this section you count the parameters of a GPT and then check the numbers on a slide. A block of width $d$ has four
# projections $d \times d$ (queries, keys, values, and the output projection) and a network $d \to 4d \to d$. All six matrices
# have a bias. The block also has two norms, each with a gain and a bias. Before the blocks there are two embeddings (tokens and
# positions), and after them one more norm. The output matrix *is* the token embedding, so it adds nothing.
#
# | name | GPT-2 | GPT-3 |
# | --- | --- | --- |
# | `n_tokens`, `T_max` | 50,257 and 1,024 | 50,257 and 2,048 |
# | `d_model`, `n_layers` | 1,600 and 48 | 12,288 and 96 |
# | `n_norms_at_the_end` | 1 | 1 |

# %% exercise="07.5" difficulty="●●○" minutes=12
from course_lib.metrics import gpt_parameters

# %% tags=["nbval-check-output"]
gpt_parameters = check("07.5", gpt_parameters)

# %% [markdown] tags=["predict"]
# The next cell recomputes the table "Scaling Up Transformer" of the deck CSE 891, row by row, from the layers and widths on the
# slide and the vocabularies of the published models (for Turing-NLG, that of GPT-2). Training costs about six floating-point
# operations for each parameter and token: two forward, four backward (Kaplan et al. 2020). The slide has, among others:
# Transformer-Base, 12 layers of width 512, 65M; BERT-Large and XLNet-Large, 24 layers of width 1,024, 340M each; GPT-3, 96
# layers of width 12,288, 175B.
#
# **Predict.** One count on the slide is wrong by more than four percent. Which one?
#
# <details><summary>A. GPT-3: a round 175 billion cannot be exact.</summary>
#
# It is rounded, but correct to within a few parts in a thousand.</details>
# <details><summary>B. XLNet-Large: the same 340M, layers and width as BERT-Large.</summary>
#
# Yes. XLNet differs from BERT: its positions are relative, and they need another projection in each block.</details>
# <details><summary>C. Transformer-Base: 12 layers of width 512 have fewer than 65M.</summary>
#
# Twelve *encoder* blocks have fewer. But half of the blocks are decoder blocks, which have a second attention.</details>

# %%
from course_lib.metrics import GPT_2, GPT_3, training_operations
from course_tools.lectures.lecture_07.errata import print_counts, scaling_table

rows = scaling_table(gpt_parameters)
print_counts(rows)

here = sum(p.numel() for p in gpt.parameters())
gpt3 = training_operations(rows["GPT-3"].counted, 300e9)
ours = training_operations(here, steps * WINDOWS * T)
print(
    f"\nGPT-3: {gpt3:.2e} operations, {gpt3 / ours:.0e} times the training above; its "
    "cache for a text of 2,048 tokens: "
    f"{2 * GPT_3.n_layers * GPT_3.d_model * 2_048 * 2 / 1e9:.1f} GB at 16 bits"
)

# %% tags=["nbval-check-output"]
claim("07.p", count=sum(abs(row.ratio - 1) <= 0.04 for row in rows.values()))
lead = here - gpt_parameters(len(characters), T, sizes.d_model, sizes.n_layers)
claim("07.q", lead=lead)
claim("07.r", ratio=gpt3 / 3.14e23)

# %% [markdown]
# ## 9 Prompting
#
# GPT-3 is used through a **prompt**: a text that states the task, shows a few solved examples ("shots") and ends with an
# unsolved one. The model's continuation is the answer (Brown et al., section 2 and figure 2.1). Without a shot this is called
# *zero-shot*, with one *one-shot*. In this section you write a function that builds such prompts, by two rules:
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

# %%
from collections.abc import Sequence

# %% exercise="07.6" difficulty="●●○" minutes=12
from course_lib.generation import few_shot_prompt

# %% tags=["nbval-check-output"]
few_shot_prompt = check("07.6", few_shot_prompt)

# %% [markdown]
# Now we prompt the model of section 3. It has never seen a list of examples in training. Its vocabulary is eight letters; the
# other characters of a prompt are dropped. The task is: *which letter comes next in my order?* Each example
# shows one step of the order. One of the examples, at a random position, shows the letter that the question asks about, so a
# prompt with examples contains the answer.

# %%
from course_tools.lectures.lecture_07.in_context_orders import (
    answers_by_shots,
    print_next_letter,
    questions,
    show_answers,
)

test_orders = [task.test_orders[:300] for task in tasks]
print(questions(test_orders[0][:1], 3, SEEDS[0], few_shot_prompt)[0].prompt)

# %% [markdown] tags=["predict"]
# **Predict.** How does the two-layer GPT answer with no example, with one, with four, and with four *false* ones, each of which
# shows the letter after the next?
#
# <details><summary>A. It needs dozens of examples: a few are too few to learn from.</summary>
#
# They are too few for gradient descent. Here nothing is trained: the answer is in the prompt, and the model only needs to find
# it.</details>
# <details><summary>B. Hardly any right without an example, nearly all with one, fewer with four; and it follows the false examples.</summary>
#
# Yes. It finds the letter of the question among the examples and outputs what follows it there.</details>
# <details><summary>C. With false examples it answers by the true order: it has learned orders.</summary>
#
# It has learned that *there is* an order and how to find it in the prompt. It outputs what the prompt shows.</details>

# %%
before = [[p.clone() for p in model.parameters()] for model in gpts]
true = answers_by_shots(gpts, test_orders, few_shot_prompt)
false = answers_by_shots(gpts, test_orders, few_shot_prompt, false=True)
show_answers(true, false)

# %% tags=["nbval-check-output"]
claim("07.aa", least=min(found.accuracy for found in true[1]))
lead = min(found.accuracy for found in true[1]) - max(
    found.accuracy for found in true[0]
)
claim("07.z", lead=lead)
claim("07.bb", least=min(found.accuracy for found in true[4]))
claim("07.ee", least=min(found.follows_examples for found in false[4]))
claim("07.cc", least=min(found.follows_examples - found.accuracy for found in false[4]))
claim("07.ff", least=min(found.accuracy_where(False) for found in true[4]))
least = min(
    found.accuracy_where(False) - found.accuracy_where(True) for found in true[4]
)
claim("07.gg", least=least)
same = all(
    torch.equal(p, q)
    for old, model in zip(before, gpts, strict=True)
    for p, q in zip(old, model.parameters(), strict=True)
)
claim("07.dd", same=same)

# %% [markdown]
# **Why do more examples hurt?** GPT-3 improves with more examples. But our model reads only the letters of a prompt, not the
# line breaks or labels that distinguish an input from an answer. If the letter of the question is also the *answer* of another
# example, the first letter of the next example follows it, like a second answer. On such prompts the model is less accurate
# (07.ff, 07.gg). Without any example it is right less often than a guess would be (see the figure): such a step was never a
# target in training, and a head that finds no earlier copy may return the letter of the question itself, which is never the
# answer.

# %% [markdown] tags=["try-it"]
# **Try it.** Change the examples, each two letters from A to H, and the letter of the question. Invent an order, or a rule that
# is no order at all (every letter is followed by A?). Give contradictory examples. Ask for a letter that no example shows.

# %% tags=["try-it"]
examples, question = ["AC", "CE", "EG", "GB"], "C"
print_next_letter(
    gpts[0],
    few_shot_prompt([tuple(shot) for shot in examples], question, ("letter", "next")),
)

# %% [markdown]
# ## 10 Build it
#
# **Build task (30 minutes, 12 points).** So far you have written parts of a GPT. Now write the whole model and its training
# loop, starting from an empty cell: write it anew, even if you repaired such a model in 05.8. Define the classes and functions
# that you need above `train_gpt`, in the same cell. You may use torch's layers, `nn.TransformerEncoder` included, but not the
# library's `GPT`.
#
# The check calls `train_gpt(text, n_tokens, n_steps)` once, with 100,000 characters of the language reference (27 tokens: the
# lower-case letters and the space) and `n_steps=400`. It evaluates the returned model on held-out text. The function has at
# most 60 seconds of processor time; a good answer needs about five. First call your function yourself with `n_steps=20`: that
# finds most errors in a second.
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
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 2 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="07.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_07.train_gpt import train_gpt

# %% tags=["nbval-check-output"]
train_gpt = check("07.7", train_gpt)

# %% [markdown]
# The next cell trains this model once more, on letters and spaces only, and lets it generate text. The first 16 characters are
# the prompt, taken from the training text. Expect many invented words after it.

# %%
from course_tools.notebook.authorship import whose
from course_tools.lectures.lecture_07.character_model import (
    letters_and_spaces,
    sampled_text,
)
from course_tools.notebook.training_curve import trained_with_losses

alphabet, small = letters_and_spaces(text.train, 100_000)
torch.manual_seed(SEEDS[0])
built = trained_with_losses(
    lambda: train_gpt(small, len(alphabet), 400),
    f"{whose(train_gpt)} model",
    "nats per character",
)
tokens = sampled_text(built, small[:16], 120, 32, lambda logits: top_p(logits, 0.5))
print(
    f"{whose(train_gpt)} model, nucleus of 0.5:\n"
    + "".join(alphabet[token] for token in tokens)
)

# %% [markdown]
# ## 11 More text, more time
#
# **Kneser and Ney** improved the counts: a short run is counted not by how often it occurs, but by how many *different*
# characters precede it.

# %% tags=["nbval-check-output"]
from course_lib.models import KneserNey

better = KneserNey(known.unfold(0, 8, 1), len(characters))
needs["Kneser-Ney"] = bits_by_counts(better, new, 8)
claim("07.hh", difference=needs["table"] - needs["Kneser-Ney"])

# %% [markdown] tags=["predict"]
# In section 5, the networks read a third of a million characters, about twice. The study `07_text` gives all
# models 4.2 million characters of Shakespeare's plays. The GPT and the LSTM, with 0.4 million weights each, take 24,000
# updates, so they read each character about six times; the counts read it once. (Two more rivals, in the table below, mix these
# counts with counts of the new text: of the earlier characters of the window, which the networks see, too, or of all new text
# before, earlier plays included, which is more than they see.)
#
# **Predict.** Which of GPT, the LSTM and the counts alone needs the fewest bits on plays that no model has seen?
#
# <details><summary>A. GPT, clearly: it has learned from more text than in section 5.</summary>
#
# So have the counts, and they use all of it at once.</details>
# <details><summary>B. The counts, clearly: the networks need at least 0.1 bits more.</summary>
#
# After 6,000 of the updates, the counts were 0.25 bits ahead on the held-out plays. At the end they are 0.07 bits ahead of GPT
# there and 0.05 ahead of the LSTM, and level with GPT on the plays for testing.</details>
# <details><summary>C. GPT and the counts need about as many.</summary>
#
# Yes, on the three plays for testing, after 24,000 updates and with both seeds: 2.09 each. The LSTM needs 2.13 there,
# and 0.02 fewer than GPT on the held-out plays; both are still improving, the LSTM faster. GPT needs 0.4 million weights and
# about 20 minutes for it, the counts 2.2 million entries and 7 seconds.</details>

# %% tags=["nbval-check-output"]
study = show_study("07_text")
print_scores(study, "bits", "held-out bits")
counts, *networks = (f"{kind}, 4.2 million" for kind in ("counts", "GPT", "LSTM"))
mixed = [f"counts and {kind}, 4.2 million" for kind in ("window", "all before")]
bits_of = {name: study.mean(name, "bits") for name in study.names}
claim("07.ii", difference=bits_of[networks[0]] - bits_of[counts])
claim("07.ii-before", difference=bits_of[networks[0]] - bits_of[mixed[1]])
claim("07.kk", difference=bits_of[networks[1]] - bits_of[networks[0]])
for name in networks:
    print(
        f"{name}: the second half of the updates gains "
        f"{second_half_gain(study, name):.2f} bits on the held-out plays"
    )

# %% [markdown]
# On the plays for testing, GPT needs as many bits as the counts (07.ii), and the LSTM slightly more (07.kk). On the held-out
# plays, which also served to choose the settings, both networks need slightly more than the counts; there, the LSTM needs 0.02 bits
# fewer than GPT. At this scale no network is clearly better than Kneser and Ney's counts of the same text: they are the
# baseline to beat. Mixed with counts of the window, 32 to 63 characters, they need 0.01 bits fewer. Mixed with counts of all new
# text before, they are 0.14 bits ahead of GPT (07.ii-before). A network, too, could be mixed with such counts, be trained further
# on the text that it has read or, if it is an LSTM, keep its state from window to window: we have tried none of these.
#
# Does a larger network beat the counts, alone or mixed?

# %% [markdown] tags=["predict"]
# The same study on a GPU has the same plays, but 4.8 million weights instead of 0.4 million, six blocks instead of two, windows
# of 256 characters, dropout of 0.1, and 65 million characters read instead of 25 million, so each about 16 times instead of
# six. The LSTM has as many weights and the same dropout, and reads the same batches.
#
# **Predict.** Which of GPT, the LSTM and the counts alone needs the fewest bits on plays that no model has seen?
#
# <details><summary>A. Still the counts: a network that reads each character 16 times memorises the known plays.</summary>
#
# Not within these updates: the bits on the held-out plays fall until the end or nearly so. (Whether that is due to the dropout
# we have not tested.) Both networks are ahead of these counts (07.ll).</details>
# <details><summary>B. GPT, clearly: attention profits from more weights and a longer window, the LSTM does not.</summary>
#
# GPT beats the counts, and so does the LSTM, by about as much (07.mm).</details>
# <details><summary>C. GPT and the LSTM, about equally few.</summary>
#
# Yes: 1.92 and 1.93; the counts need 2.09.</details>

# %% tags=["nbval-check-output"]
larger = show_study("07_text", device="cuda")
print_scores(larger, "bits", "held-out bits", costs=["parameters"])
bits_of_larger = {name: larger.scores(name, "bits") for name in (*networks, counts)}
lead = max(max(bits_of_larger[name]) for name in networks) - min(bits_of_larger[counts])
claim("07.ll", lead=lead)
of_mixed = [larger.mean(name, "bits") for name in mixed]
lead = of_mixed[0] - max(max(bits_of_larger[name]) for name in networks)
claim("07.ll-window", lead=lead)
claim("07.ll-before", difference=of_mixed[1] - mean(bits_of_larger[networks[0]]))
lead = mean(bits_of_larger[networks[1]]) - mean(bits_of_larger[networks[0]])
claim("07.mm", lead=lead)

# %% [markdown]
# With each seed, both networks now need 0.15 to 0.18 bits fewer than the counts (07.ll), and GPT about as many as the LSTM
# (07.mm). Size, window, dropout and the number of passes have changed together: the study does not show which of them it takes
# to beat the counts, but attention is not required.
#
# The counts see seven earlier characters, the networks 128 to 255. Mixed with counts of the same 128 to 255 characters, they
# need 0.05 bits fewer on the plays for testing, more than a quarter of the lead, and 0.11 fewer on the held-out plays, about 70 %
# of it; both networks stay ahead (07.ll-window), on the held-out plays by 0.02 bits or more.
#
# Mixed with counts of all new text before, up to 364,000 characters, they need 0.15 and 0.25 bits fewer. On the plays for testing
# this is 0.02 bits more than GPT (07.ll-before), less than its two seeds differ; on the held-out plays it is 0.09 fewer. So the
# networks are ahead of counts that see as much of the new text as they do, but not of counts that see all of it.
#
# Of three learning rates, tried for 300 updates each, both networks took the highest: higher ones may be better. The counts took
# runs of eight, the longest in the study; in a trial, runs of nine needed 0.006 bits more on the held-out plays. In the second
# half of the updates GPT gains 0.09 bits on the held-out plays and the LSTM 0.03; more updates were not tried.
#
# What do texts of these models look like? The next cell prints one by each, sampled at a temperature of 0.75, GPT first.

# %%
for name in (*networks, counts):
    print(f"--- {name} characters, {bits_of_larger[name][0]:.2f} bits\n")
    print(larger.of(name)[0].texts["sample"][:600].strip(), "…\n")

# %% [markdown] tags=["quiz"]
# ## 12 Exit quiz
#
# **Question 1.** A GPT reaches 0.02 bits per character on new text. What do you check first?
#
# <details><summary>A. The learning rate: the model has learned exceptionally well.</summary>
#
# No model can predict English text so well: Shannon's (1951) estimates are 0.6 to 1.3 bits per letter.</details>
# <details><summary>B. The mask and the shift: the target has leaked into the input.</summary>
#
# Right. Either a position attends to the token after it, or the loss asks for the token that was just read.</details>
# <details><summary>C. Whether the new text is in the training text.</summary>
#
# Check that, too: repeated paragraphs were removed for this reason. But even then, a model of this size cannot memorise the
# whole text.</details>
#
# **Question 2.** What does the cache *not* save?
#
# <details><summary>A. The attention of the new token over the whole past.</summary>
#
# Right: each new token still attends to every key, so the cost per token grows with the length. Lecture 14 removes
# this.</details>
# <details><summary>B. The projections of the past.</summary>
#
# These are exactly what it saves.</details>
# <details><summary>C. Memory: it needs less.</summary>
#
# It needs more: all keys and values of all layers are stored. In large models this limits the batch size.</details>
#
# **Question 3.** Your prompt fits into the window and works. You change the order of the examples, and it fails. What does that
# show?
#
# <details><summary>A. The model learned the task from the examples by gradient descent.</summary>
#
# No weight changes when a model reads a prompt.</details>
# <details><summary>B. A prompt is read as a sequence, and the position of an example matters.</summary>
#
# Right. The model predicts a continuation. Evaluate a prompt with several orders of its examples before you trust it.</details>
# <details><summary>C. The window is too short.</summary>
#
# All examples fit, in either order. (If they did not, another order would cut off another example.)</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A newspaper writes: "The model understands instructions; it has learned to learn." Which
# findings of this lecture would you repeat on a model that you can inspect, and how, before you agree or disagree?*
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

# %% [markdown] tags=["companion"]
# ## 13 Ledger
#
# **Errata of the deck *CS* (CSE 891), "Scaling Up Transformer".** The sizes confirm nine of ten counts and correct one (07.p;
# the next cell has a claim for each row).
#
# - *XLNet-Large, 340M*: its relative positions need a fifth projection in each block; it has 360M.
# - *GPT-2, heads "?"*: 25 heads of 64 features each, according to the released configuration. Its paper counts 1542M (table 2);
#   computed from the sizes it is 1,558M.
# - *GPT-3, 694GB*: the number is not in the paper, which gives 570 GB for 410 billion tokens of filtered web text, one of five
#   parts with 499 billion tokens in all. (In proportion, all five would have 694 GB.) The model was trained on 300 billion
#   tokens.
# - *CS*, "Programming by Prompt": the last line of the prompt repeats "Poor English input"; as printed, the prompt does not ask
#   for an answer.
#
# **Remarks.** *Transformer-Base, Large, 12 layers*: 6 encoder and 6 decoder blocks; twelve encoder blocks would have fewer than
# 65M. *EE* (EE-559 13.2): "more than 10X the parameters" of GPT is confirmed. *IT* (ITMO lecture 7) calls GPT a "decoder": it
# is a decoder without cross-attention, which would make each block larger by a third.
#
# **Limits of this lecture.** The decks show GPT-3 writing a newspaper article, correcting English and parodying Hemingway. Our
# models cannot do this: none of their texts makes sense. Our model solves a single task in context, the task that *all* its
# training texts had; GPT-3's texts were not made for any task. Whether the in-context learning of *large* models uses this
# mechanism and no other is an open question. The LSTM of section 3 is still improving after 450 updates and was trained
# for 1,350 at most. We do not fine-tune GPT on labelled tasks; lecture 08 fine-tunes BERT.
#
# ## 14 Papers and decks
#
# **Papers.** Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training*, eqs. 1 and 2
# (https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf) · Radford et al. 2019,
# *Language Models are Unsupervised Multitask Learners*, section 2
# (https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) · Brown et al. 2020,
# *Language Models are Few-Shot Learners*, sections 2 to 2.4, table 2.1 (https://arxiv.org/abs/2005.14165) · Fan, Lewis, Dauphin
# 2018, section 5 (https://arxiv.org/abs/1805.04833) · Holtzman et al. 2020, section 3 (https://arxiv.org/abs/1904.09751) ·
# Elhage et al. 2021, *A Mathematical Framework for Transformer Circuits*
# (https://transformer-circuits.pub/2021/framework) · Olsson et al. 2022, *In-context Learning and Induction Heads*
# (https://arxiv.org/abs/2209.11895) · Kaplan et al. 2020, *Scaling Laws for Neural Language Models*
# (https://arxiv.org/abs/2001.08361). [docs/papers.md](../docs/papers.md) lists those of Sennrich et al. (byte pairs), Witten
# and Bell, and Kneser and Ney (counts).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** EE-559 13.2 · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Transformers trained on NLP tasks: GPT | 2 Predict the next token | `course_lib.models.GPT` |
# | IT | Transformer-based models for text problems: GPT | 2 Predict the next token | `course_lib.models.GPT` |
# | CS | Generated Text from GPT-3 | 6 Sampling | `course_lib.generation.sample`, `course_lib.generation.generate` |
# | GA | GPT-2 and GPT-3 examples | 6 Sampling | `course_lib.pretrained.load_gpt2` |
# | CS | Scaling Up Transformer | 8 Number of parameters | `course_lib.metrics.gpt_parameters`, `course_lib.metrics.bert_parameters` |
# | CS | GPT-3: Programming by Prompt | 9 Prompting | `course_lib.generation.few_shot_prompt` |
# | CS | GPT-3: Literary Style Transfer | 9 Prompting | `course_lib.generation.few_shot_prompt` |
#
# </details>

# %% tags=["nbval-check-output"]
from course_lib.metrics import GPT_1, block_parameters

for name, row in rows.items():
    claim(f"07.CS-{name}", ratio=row.ratio)
claim("07.CS-base", ratio=(12 * block_parameters(512, 2048) + 37_000 * 512) / 65e6)
deck = few_shot_prompt(
    [("I eated the purple berries.", "I ate the purple berries.")],
    "I'd be more than happy",
    ("Poor English input", "Good English output"),
)
claim("07.CS-prompt", splitlines=deck.splitlines()[-1])
ratio = rows["GPT-2"].counted / gpt_parameters(
    40_478, 512, GPT_1.d_model, GPT_1.n_layers, n_norms_at_the_end=0
)
claim("07.EE", ratio=ratio)
ratio = block_parameters(GPT_2.d_model, GPT_2.d_ff, n_attentions=2) / block_parameters(
    GPT_2.d_model, GPT_2.d_ff
)
claim("07.IT", ratio=ratio)

# %% tags=["ledger"]
ledger()
