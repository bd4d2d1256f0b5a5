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
# A GPT is trained to predict the next token; in doing so it can learn to infer a rule from its prompt and to apply it.
#
# ![](diagram:gpt)
#
# You will write the loss, top-k and nucleus sampling, a key-value cache, the parameter count and a few-shot prompt, and train
# GPTs on sequences with a hidden rule and on real text.
#
# **Prerequisites:** lectures 04 (self-attention) and 05 (the Transformer). **Time:** about 90 minutes. {measured}


# %%
from course_lib.datasets import secret_orders, walks
from course_tools.notebook import at_scale, check, claim, ledger, plots, predict
from course_tools.notebook.in_context_orders import LETTERS, accuracy_of_counts

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 A rule that only the text itself contains
#
# The paper on GPT-3 is known for *in-context learning*: the prompt shows the model something new, and the model uses it at
# once, without any change of its weights.
#
# Here is a small task that needs it. Each text has a **secret circular order** of eight letters. Each letter of the text is
# followed by its successor in this order, except that the text sometimes jumps to a random letter, at a rate that differs from
# text to text. We score only steps that the text has shown before. The orders of the test never occur in training, so a model
# cannot memorise them; it must find the order in the text. With the order A → D → B → C → A of only four letters, a text might
# read `A D B C A D* B* …`, where a star marks the scored steps.
#
# The baseline is an **n-gram**, a table of counts: it predicts the letter that most often followed the last four letters in all
# training texts.


# %% [markdown] tags=["predict"]
# **Predict.** The table has counted 8,000 texts. What fraction of the scored steps of new texts does it predict correctly? A
# guess among eight letters is right in one case of eight (0.125).
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
secret = {s: secret_orders(3_000, 100, 1_000, len(LETTERS), seed=s) for s in SEEDS}
train_texts = {s: walks(secret[s].train, 8_000, seed=s) for s in SEEDS}
test_texts = {s: walks(secret[s].test, 500, seed=100 + s) for s in SEEDS}
for row, flags in zip(
    *(part[:3].tolist() for part in test_texts[SEEDS[0]]), strict=True
):
    print(*(LETTERS[i] + "*" * flag for i, flag in zip(row, flags, strict=True)))
print("* = the text has shown this step before; only these are scored")

# %%
from statistics import mean

counted = [accuracy_of_counts(train_texts[s], test_texts[s]) for s in SEEDS]
print(
    f"a table that has counted all training texts predicts {mean(counted):.2f} of "
    "these steps; a guess among 8 would predict 0.12"
)

# %% [markdown]
# ## 2 Predict the next token
#
# In this section you write the loss of a GPT. GPT is the decoder of lecture 05 without an encoder: blocks of causal
# self-attention and a feed-forward network, pre-norm, and learned positions. The embedding matrix $E$ is used a second time at
# the output:
#
# $$h_0 = E[x] + P \qquad h_l = \mathrm{Block}_l(h_{l-1}) \qquad p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(E\,\mathrm{Norm}(h_L)_t)$$
#
# All positions are trained at once, and the causal mask hides the targets. The loss is the mean of $-\log p(x_{t+1} \mid x_{\le
# t})$. Sometimes not every token is a target (padding, a prompt); `counts` states which tokens are.
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
# How can a Transformer solve the task of section 1? With two heads in successive layers (Elhage et al. 2021, Olsson et al.
# 2022). A head of the **first** layer copies the *preceding* token into each token. A head of the **second** layer attends to
# the token that was preceded by the current letter, that is, to the token that followed this letter last time. Such a pair is
# called an *induction head*. We now train a GPT with two layers, one with a single layer, and an LSTM. The loss counts only the
# scored steps: those that the text has shown before.
#
# ![](diagram:induction_heads)
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
from course_tools.notebook.in_context_orders import Recurrent, accuracy_on_orders
from course_tools.notebook.in_context_orders import fit_on_orders, order_gpt

two, one = (
    Sizes(d_model=32, n_heads=4, d_ff=128, n_layers=2),
    Sizes(d_model=32, n_heads=4, d_ff=324, n_layers=1),
)
kinds = {
    "GPT, two layers": lambda: order_gpt(two),
    "GPT, one layer": lambda: order_gpt(one),
    "LSTM": lambda: Recurrent(len(LETTERS), 32, 64),
}
readers, right = {}, {kind: [] for kind in kinds}
for kind, make in kinds.items():
    for seed in SEEDS:
        readers[kind, seed] = fit_on_orders(
            make, train_texts[seed], next_token_loss, seed
        )
        right[kind].append(accuracy_on_orders(readers[kind, seed], test_texts[seed]))
show_losses(
    {kind: [readers[kind, seed] for seed in SEEDS] for kind in kinds},
    "nats per scored step, mean of the seeds",
)

# %%
from course_tools.notebook import show

right["table"] = counted
show(
    plots.seeds(right, "accuracy", across={"a guess among 8": 1 / 8}),
    alt="Accuracy on steps shown before in new texts, one point per seed: "
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
    "07.t",
    "accuracy of a two-layer GPT on steps that a new text has shown: worst of the "
    "seeds",
    min(right["GPT, two layers"]),
    at_least=0.7,
)
claim(
    "07.u",
    "one layer of as many parameters and updates: best of the seeds",
    max(right["GPT, one layer"]),
    at_most=0.45,
)
claim(
    "07.v",
    "a table of all training texts: best of the seeds",
    max(right["table"]),
    at_most=0.4,
)
claim(
    "07.w",
    "two-layer GPT less an LSTM of as many updates: worst against best of the seeds",
    min(right["GPT, two layers"]) - max(right["LSTM"]),
    at_least=0.05,
)

# %% [markdown]
# A table of counts made for each text alone would be induction programmed by hand (we do not measure it here). GPT has learned
# a similar rule by gradient descent.

# %% [markdown] tags=["predict"]
# ### Attention maps of the two heads
#
# Does the trained model contain the two heads? The next cell measures their attention weights with every seed, and draws one
# head of each layer. In the second layer, the right positions for a letter are those just after its earlier copies; they are
# outlined in the figure.
#
# **Predict.** Where does that head attend when a letter occurs for the first time?
#
# <details><summary>A. Nowhere: there is no earlier copy.</summary>
#
# A softmax cannot attend "nowhere": each row of weights sums to one.</details>
# <details><summary>B. To itself, as the token that is most similar to it.</summary>
#
# The head compares the current letter with what *precedes* each token, and this token is preceded by another letter. (Only the
# first token of the text has no choice.)</details>
# <details><summary>C. To some other positions; the result is not useful.</summary>
#
# Yes: see the rows of letters that are new. These positions are no targets of the loss.</details>

# %%
from matplotlib.patches import Rectangle

from course_tools.notebook.in_context_orders import after_copies, head_weights
from course_tools.notebook.in_context_orders import weights_of_layers

gpts = {seed: readers["GPT, two layers", seed] for seed in SEEDS}
measured = {seed: head_weights(gpts[seed], two, test_texts[seed]) for seed in SEEDS}
tokens = test_texts[SEEDS[0]].tokens[:1, :16]
copied = after_copies(tokens)[0]
first, second = (w[0] for w in weights_of_layers(gpts[SEEDS[0]], two, tokens))
heads = [
    weights[weights.mul(where).sum((-1, -2)).argmax()]
    for weights, where in ((first, torch.eye(16).roll(-1, 1).tril()), (second, copied))
]
letters = [LETTERS[letter] for letter in tokens[0].tolist()]
on_copies = (heads[1] * copied).sum(-1)[copied.any(-1)].mean()
figure = plots.attention_maps(
    {"layer 1: the token before": heads[0], "layer 2: after earlier copies": heads[1]},
    letters,
    letters,
)
for query, key in copied.nonzero().tolist():
    figure.axes[1].add_patch(
        Rectangle((key - 0.5, query - 0.5), 1, 1, fill=False, edgecolor="tab:red")
    )
show(
    figure,
    alt="One head of each layer over a new text of 16 letters. The first puts "
    f"{heads[0].diagonal(-1).mean():.2f} of its weight on the token just before; "
    f"the second {on_copies:.2f} on tokens after an earlier copy of the same letter, "
    "which are outlined.",
)

# %% tags=["nbval-check-output"]
claim(
    "07.x",
    "weight that the best head of layer 1 puts on the token before: least of the seeds",
    min(heads.previous.max().item() for heads in measured.values()),
    at_least=0.2,
)
claim(
    "07.y",
    "weight that the best head of layer 2 puts after earlier copies: least of the "
    "seeds",
    min(heads.induction.max().item() for heads in measured.values()),
    at_least=0.4,
)

# %% [markdown]
# The induction head of layer 2 is clearly visible with every seed (07.y). The previous-token head of layer 1 is less clear: with
# the worst seed, the best head puts only about a third of its weight on the preceding token (07.x).
#
# ## 4 A table of counts
#
# Now we turn to real text, and begin with a baseline. Shannon's language model counts which characters followed the last few
# characters elsewhere in the text. Such an **n-gram** table counts runs of $n$ characters, so its context has $n-1$ characters.
# Where a run is rare or new, its probability is interpolated with that of the shorter run (Witten and Bell).
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
# <details><summary>C. Four or five characters, hardly more.</summary>
#
# Yes: see the curve; its runs include the predicted character. With more text, the minimum moves to longer runs.</details>

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

# %%
from course_lib.models import NGram
from course_tools.notebook.character_model import bits_by_counts

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

# %% tags=["nbval-check-output"]
runs = {text.train[i : i + 8] for i in range(len(text.train) - 7)}
never_seen = mean(text.test[i : i + 8] not in runs for i in range(len(text.test) - 7))
claim(
    "07.a",
    "runs of 8 characters of new text that the training text does not contain",
    never_seen,
    at_least=0.25,
)
lost = on_new[-1] - on_new[best - 1]
claim(
    "07.b",
    "bits per character, runs of 8 less runs of the best length",
    lost,
    at_least=0.04,
)

# %% tags=["nbval-check-output"]
import math

from course_lib.attention import fused_causal_attention
from course_lib.models import GPT
from course_tools.notebook import device

T = 64
sizes = at_scale(
    cpu=Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2), gpu=Sizes(128, 4, 512, 3)
)
torch.manual_seed(SEEDS[0])
untrained = GPT(len(characters), T, sizes, fused_causal_attention).to(device())
window = new[None, :T].to(device())
first_loss = next_token_loss(untrained(window), window).item() / math.log(
    len(characters)
)
claim(
    "07.c",
    "loss before training over ln n_tokens, a uniform guess",
    first_loss,
    between=(0.9, 1.1),
)

x = (untrained.tokens(window) + untrained.positions(T)).detach().requires_grad_()
states = untrained.stack(x)
(gradient,) = torch.autograd.grad(states[:, T // 2].square().sum(), x)
claim(
    "07.d",
    "gradient of the state at position t with respect to later inputs, and whether "
    "there is one for those up to t",
    [
        gradient[:, T // 2 + 1 :].abs().max().item(),
        gradient[:, : T // 2 + 1].abs().amin(1).max().item() > 0,
    ],
    equals=[0.0, True],
)

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
# Yes. In the worst case it is spelled character by character. No information is lost, and frequent words cost one
# token.</details>
# <details><summary>C. It is replaced by the most similar word.</summary>
#
# Then two different texts could get the same tokens, and the original could not be restored.</details>

# %%
from course_lib.datasets import BytePairs

pieces = BytePairs.learn([text.train], n_merges=1_000)
known_words = set(text.train.split())
for word in [
    word
    for word in dict.fromkeys(text.test.split())
    if word.isalpha() and word not in known_words
][:4]:
    print(f"{word:>16} → {pieces.cut(word)}")

# %% tags=["nbval-check-output"]
cut, one_line = pieces.cut(text.test), " ".join(text.test.split())
claim(
    "07.e",
    "new text, joined from its pieces, equals the original, line breaks aside",
    pieces.join(cut) == one_line,
    equals=True,
)
claim(
    "07.f",
    "characters of new text per piece: a window covers this much more text",
    len(one_line) / len(cut.split()),
    at_least=2.2,
)

# %% [markdown]
# ## 5 GPT on real text
#
# We train a GPT on the text, and an LSTM that reads exactly as many characters, and compare both with the table. Bits per
# *piece* cannot be compared with bits per character, so all models read characters. In the evaluation, each predicted character
# has at least half a window of context.
#
# *Held-out text* is used for the curves of the training and for choosing the length of the runs; *new text* is used only for
# the numbers that we report. They are different paragraphs, so the same model has different bits on the two. The figure of the
# next training uses only the first 8,000 held-out characters.

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
# After 44,000 characters it needs more bits than GPT, then fewer; at the end of this budget the two are close. A possible
# reason for its lead is that a recurrence knows which token comes last; GPT must learn this from its position
# vectors.</details>
# <details><summary>C. The table.</summary>
#
# Yes, at this budget. Look at the slopes: the curves of the networks are still falling, while the table has already counted the
# whole text.</details>

# %%
from functools import partial

from course_tools.notebook.character_model import bits_per_character, fit_text

steps = at_scale(cpu=700, gpu=4_000)
learn = partial(
    fit_text,
    known=known,
    valid=valid[:8_000],
    loss=next_token_loss,
    T=T,
    steps=steps,
    seed=SEEDS[0],
)
torch.manual_seed(SEEDS[0])
gpt, gpt_curve = learn(
    GPT(len(characters), T, sizes, fused_causal_attention).to(device()),
    lr=at_scale(cpu=8e-3, gpu=3e-3),
)
torch.manual_seed(SEEDS[0])
lstm, lstm_curve = learn(
    Recurrent(len(characters), 32, at_scale(cpu=128, gpu=256)).to(device()),
    lr=at_scale(cpu=1e-2, gpu=4e-3),
)
rungs = {
    f"table of runs of {n}": bits_by_counts(table, valid[:8_000], n) for n in (3, best)
}
show(
    plots.curves(
        {
            name: (
                [round(16 * T * step / 1_000) for step in curve],
                list(curve.values()),
            )
            for name, curve in (("GPT", gpt_curve), ("LSTM", lstm_curve))
        },
        "characters read in training, in thousands",
        "bits per character, held-out text",
        log="x",
        across=rungs,
    ),
    alt="Bits per character while the networks train: GPT falls to "
    f"{gpt_curve[steps]:.2f}, the LSTM to {lstm_curve[steps]:.2f}; "
    + "; ".join(f"{name} needs {height:.2f}" for name, height in rungs.items())
    + ".",
)

# %% tags=["nbval-check-output"]
from course_tools.notebook import show_study

needs = {
    "GPT": bits_per_character(gpt, new, T),
    "LSTM": bits_per_character(lstm, new, T),
    "table": on_new[best - 1],
}
print(
    f"bits per character on new text after {steps} updates: "
    + ", ".join(f"{name} {n:.2f}" for name, n in needs.items())
)
claim(
    "07.h",
    "bits per character, a table of runs of three less GPT, one seed",
    on_new[2] - needs["GPT"],
    at_least=0.2,
)
fall = (
    gpt_curve[steps // 2] - gpt_curve[steps],
    lstm_curve[steps // 2] - lstm_curve[steps],
)
claim(
    "07.g",
    "bits that the second half of the updates gains: the lesser of GPT and LSTM, both "
    "still falling, one seed of each",
    min(fall),
    at_least=0.05,
)

longer = show_study("07_updates")
n_seeds = len(longer.of("GPT"))
print(
    "bits per character on new text, as recorded, "
    + ("one seed: " if n_seeds == 1 else f"mean of {n_seeds} seeds: ")
    + ", ".join(f"{name} {longer.mean(name, 'bits'):.2f}" for name in longer.names)
)
claim(
    "07.i",
    "bits per character of new text, as recorded after 2,500 updates, mean of the "
    "seeds: the table less GPT",
    longer.mean("table", "bits") - longer.mean("GPT", "bits"),
    at_least=0.1,
)
(updates, by_gpt), (_, by_lstm) = longer.curve("GPT"), longer.curve("LSTM")
half = updates.index(updates[-1] // 2)
claim(
    "07.jj",
    "bits on held-out text that the second half of these updates gains, mean of the "
    "seeds: GPT less LSTM",
    (by_gpt[half] - by_gpt[-1]) - (by_lstm[half] - by_lstm[-1]),
    at_least=0.05,
)

# %% [markdown]
# In our training the table needs fewer bits, and the curves of both networks are still falling. The study `07_updates`
# (docs/studies.md) repeats the comparison on the same text with a GPT of twice the width, an LSTM of as many parameters and
# 2,500 updates, and adds the counts of Kneser and Ney, which section 11 explains. The numbers of bits are printed above: both
# networks overtake the table of section 4, but neither overtakes Kneser and Ney's counts. Each network has one learning rate;
# the cell prints the number of seeds. Within these 2,500 updates, GPT learns more slowly at first and its curve falls faster
# later (07.jj); in the longer training of section 11 the LSTM gains more in the second half.

# %% [markdown] tags=["predict"]
# **Predict.** Have GPT and the table learned *the same*? To find out, we average their probabilities. How many bits does the
# mixture need?
#
# <details><summary>A. A number between those of the two.</summary>
#
# For each character, its probability lies between theirs, but its *mean* number of bits need not. Where one of the two is
# confident and right, the mixture needs at most one bit more, even if the other is badly wrong.</details>
# <details><summary>B. As many as the better one.</summary>
#
# That would be so if both were wrong in the same places.</details>
# <details><summary>C. Fewer than either.</summary>
#
# Yes: they are often wrong in different places. A possible reason, not tested here, is that the table has memorised long runs,
# and GPT generalises to similar ones. Two GPTs of different seeds might gain something, too.</details>

# %% tags=["nbval-check-output"]
windows = new.unfold(0, T, T // 2)
with torch.no_grad():
    predicted = gpt(windows.to(device()))[:, :-1].softmax(-1).cpu()
by_gpt = predicted.gather(-1, windows[:, 1:, None])[:, T // 2 - 1 :, 0]
by_table = table.probability(
    windows.unfold(1, best, 1)[:, T // 2 - best + 1 :].flatten(0, 1)
).view_as(by_gpt)
mixed = -((by_gpt + by_table) / 2).log2().mean().item()
gain = min(-by_gpt.log2().mean().item(), -by_table.log2().mean().item()) - mixed
claim(
    "07.j",
    "bits per character, the better of the two less their mixture, one model",
    gain,
    at_least=0.01,
)

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
# **Bug hunt.** The version below runs, and it keeps about $p$ of the probability. Decide what is wrong, then run the check, and
# write it correctly.

# %% exercise="07.3" bug="does_not_sort"
from course_tools.bank.lecture_07.top_p import does_not_sort as suspect

# %% [markdown] tags=["predict"]
# **Which property does it violate, and when would you have noticed?**
#
# <details><summary>A. The sum of the probabilities does not reach p.</summary>
#
# It does. A cumulative sum over all tokens reaches p in any order.</details>
# <details><summary>B. It does not keep the most likely tokens: it takes tokens in the order of the vocabulary.</summary>
#
# Yes. It removes likely tokens with a high index and keeps unlikely ones with a low index. Many vocabularies are sorted by
# frequency, and with such a vocabulary the mistake is hard to see.</details>
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
n_kept = (
    (top_p(predicted[:200, T // 2 :].log(), 0.9) > -torch.inf)
    .sum(-1)
    .flatten()
    .sort()
    .values
)
places = torch.linspace(0, 1, 101)
show(
    plots.curves(
        {"nucleus of 0.9": (places, n_kept[(places * (len(n_kept) - 1)).long()])},
        "quantile of the positions in new text",
        "characters that are left",
        across={"top-k, k = 10": 10},
    ),
    alt=f"Characters left by the nucleus of 0.9 in {len(n_kept):,} positions of new "
    f"text, in order: {n_kept[len(n_kept) // 10]} or fewer in a tenth of them, "
    f"{n_kept[len(n_kept) // 2]} in the middle one, "
    f"{n_kept[len(n_kept) * 9 // 10]} or more in another tenth.",
)

# %% tags=["nbval-check-output"]
from course_tools.notebook.character_model import continuations

prompts = new[: 100 * 200].view(100, 200)[:, : T // 4]
manners = {
    "greedy": lambda logits: top_k(logits, 1),
    "nucleus of 0.8": lambda logits: top_p(logits, 0.8),
    "temperature 1": lambda logits: logits,
    "temperature 1.5": lambda logits: logits / 1.5,
}
words = {word for word in text.train.split() if word.isalpha()}
real, different = {}, {}
for manner, adjust in manners.items():
    whole = [
        word
        for line in continuations(
            gpt, prompts, 3 * T // 4, adjust, characters, SEEDS[0]
        )
        for word in line.split()[1:-1]
        if word.isalpha()
    ]
    real[manner] = mean(word in words for word in whole)
    different[manner] = len(set(whole)) / len(whole)
    print(
        f"{manner:16} {real[manner]:.0%} of its words occur in the training text; "
        f"{different[manner]:.0%} are different words"
    )

by_nucleus, as_it_is, greedily = "nucleus of 0.8", "temperature 1", "greedy"
claim(
    "07.k",
    "fraction of real words, nucleus less temperature 1, one model",
    real[by_nucleus] - real[as_it_is],
    at_least=0.03,
)
claim(
    "07.l",
    "fraction of different words, temperature 1 less greedy, one model",
    different[as_it_is] - different[greedily],
    at_least=0.1,
)

# %% [markdown]
# Greedy decoding gives the largest fraction of real words, but it repeats itself. Sampling from the model's own probabilities
# is more varied and has more errors. (`course_lib.pretrained` can read GPT-2's published weights.)
#
# Our model has read very little. The study of section 11 trains a larger GPT on Shakespeare; the next cell shows how that model
# continues one scene in these four ways, as recorded. It imitates the layout of a play, with verse
# lines and speakers' names, but its sentences make no sense, and greedy decoding repeats one phrase. The figure after it shows
# which next characters our model considers likely.

# %%
from course_tools.notebook import recorded

texts = recorded("07_text").of("GPT, 4.2 million")[0].texts
for manner in manners:
    print(f"--- {manner}\n\n{texts[manner].strip()} …\n")


# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_next(temperature=1.5, k=5, p=1.0):
    """Draw the probabilities of the next character after some words, with temperature,
    top-k and top-p."""
    words = "The following stateme"
    with torch.no_grad():
        logits = gpt(torch.tensor([characters.encode(words)], device=device()))[
            0, -1
        ].cpu()
    odds, ranks = top_p(top_k(logits / temperature, k), p).softmax(-1), range(1, 11)
    drawn = {
        name: (ranks, shares.topk(10).values)
        for name, shares in (
            ("with temperature, k and p", odds),
            ("the model's own", logits.softmax(-1)),
        )
    }
    show(
        plots.curves(drawn, "rank of the character", "probability"),
        alt=f"After {words!r}: {(odds > 0).sum()} characters are left, the likeliest "
        f"is {characters.symbols[odds.argmax()]!r} with {odds.max():.2f}.",
    )


explore(draw_next, temperature=(0.2, 2.0, 0.1), k=(1, 40), p=(0.1, 1.0, 0.05))

# %% [markdown]
# ## 7 The key-value cache
#
# So far, the model computes all $t$ tokens again to generate token $t+1$. But no token attends to a later one, so what was
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

# %%
from course_tools.notebook.cached_generation import StepwiseGPT, one_by_one, recomputed
from course_tools.notebook.layer_costs import multiply_adds

step_by_step = partial(one_by_one, step=cached_step)
generator = torch.Generator().manual_seed(SEEDS[0])
W = [torch.randn(32, 32, generator=generator) / 32**0.5 for _ in range(4)]
lengths = [8, 16, 32, 64]
texts = [torch.randn(1, n, 32, generator=generator) for n in lengths]
saved = [
    multiply_adds(recomputed, x, W, 4) / multiply_adds(step_by_step, x, W, 4)
    for x in texts
]
show(
    plots.curves(
        {
            "measured": (lengths, saved),
            "(T + 1) / 2": (lengths, [(n + 1) / 2 for n in lengths]),
        },
        "tokens generated",
        "multiply-adds, recomputed over cached",
        log="xy",
    ),
    alt="Multiply-adds saved by the cache in one layer of width 32, a factor of "
    f"{saved[0]:.1f} at {lengths[0]} tokens and {saved[-1]:.1f} at {lengths[-1]}.",
)

# %% tags=["nbval-check-output"]
import time

from course_lib.generation import CachedGPT, generate

gap = (step_by_step(texts[-1], W, 4) - recomputed(texts[-1], W, 4)).abs().max().item()
claim(
    "07.m",
    "the cached step of 07.4, token by token, less attention over the whole text: "
    "largest difference",
    gap,
    at_most=1e-4,
)
claim(
    "07.n",
    "multiply-adds over 64 tokens in one layer: recomputed over cached",
    round(saved[-1], 1),
    between=(32.5, 60.0),
)

prompt = new[None, : T // 4].to(device())
models = {
    "without a cache": gpt,
    "by the cached step of 07.4": StepwiseGPT(gpt, cached_step),
    "CachedGPT": CachedGPT(gpt),
}
generated, seconds = {}, {}
for name, model in models.items():
    started = time.process_time()
    generated[name] = generate(model, prompt, 3 * T // 4, lambda x: x.argmax(-1))
    seconds[name] = time.process_time() - started
claim(
    "07.o",
    "the whole model generates the same text with a cache as without",
    torch.equal(generated["without a cache"], generated["CachedGPT"]),
    equals=True,
)
claim(
    "07.o-step",
    "the whole model generates the same text by the cached step of 07.4, biases "
    "included, as CachedGPT does",
    torch.equal(generated["by the cached step of 07.4"], generated["CachedGPT"]),
    equals=True,
)

# %%
print(
    "seconds of processor time, here and now: "
    + ", ".join(f"{name} {spent:.3f}" for name, spent in seconds.items())
)

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
# | `n_norms_at_the_end` | 1 | 1 (0 in GPT-1) |

# %%
from functools import partial

from course_lib.metrics import BERT_BASE, BERT_LARGE, GPT_2, GPT_3, TRANSFORMER_BASE
from course_lib.metrics import TRANSFORMER_BIG, bert_parameters, training_operations
from course_lib.metrics import transformer_parameters, xlnet_parameters

# %% exercise="07.5" difficulty="●●○" minutes=12
from course_lib.metrics import gpt_parameters

# %% tags=["nbval-check-output"]
gpt_parameters = check("07.5", gpt_parameters)

# %% [markdown] tags=["predict"]
# The next cell recomputes the table "Scaling Up Transformer" of the deck CSE 891, row by row, from the layers and widths on the
# slide. The slide's 12 layers of a Transformer are six of an encoder and six of a decoder. The vocabulary sizes are those of
# the published models. Turing-NLG's was never published, so we use GPT-2's instead. Training costs about six operations for
# each parameter and token: two forward, four backward (Kaplan et al. 2020).
#
# **Predict.** One count on the slide is wrong by more than four percent. Which one?
#
# <details><summary>A. GPT-3: a round 175 billion cannot be exact.</summary>
#
# It is rounded, and right to a few parts in a thousand.</details>
# <details><summary>B. XLNet-Large: the same 340M, layers and width as BERT-Large.</summary>
#
# Yes. XLNet differs from BERT: its positions are relative, and they need another projection in each block.</details>
# <details><summary>C. Transformer-Base: 12 layers of width 512 have fewer than 65M.</summary>
#
# Twelve *encoder* blocks have fewer. But half of the blocks are decoder blocks, which have a second attention.</details>

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
    print(
        f"{name:18} {stated:>15,.0f} on the slide {counted:>16,} from the sizes   "
        f"{counted / stated - 1:+.1%}"
    )

here = sum(p.numel() for p in gpt.parameters())
gpt3 = training_operations(rows["GPT-3"][1], 300e9)
ours = training_operations(here, steps * 16 * T)
cache = 2 * GPT_3.n_layers * GPT_3.d_model * 2_048 * 2
print(
    f"\nGPT-3: {gpt3:.2e} operations, {gpt3 / ours:.0e} times the training above; its "
    f"cache for a text of 2,048 tokens: {cache / 1e9:.1f} GB at 16 bits"
)

# %% tags=["nbval-check-output"]
confirmed = [
    name
    for name, (stated, counted) in rows.items()
    if abs(counted / stated - 1) <= 0.04
]
claim(
    "07.p", "rows of the table confirmed within 4 %, of ten", len(confirmed), equals=9
)
formula = gpt_parameters(len(characters), T, sizes.d_model, sizes.n_layers)
claim(
    "07.q",
    "parameters of this notebook's GPT less those of the formula of 07.5",
    here - formula,
    equals=0,
)
claim(
    "07.r",
    "operations to train GPT-3 on its 300 billion tokens, over the 3.14e23 of its "
    "paper",
    gpt3 / 3.14e23,
    between=(0.99, 1.01),
)

# %% [markdown]
# ## 9 Prompting
#
# GPT-3 is used through a **prompt**: a text that states the task, shows a few solved examples ("shots") and ends with an
# unsolved one. The model's continuation is the answer (Brown et al., section 2 and figure 2.1). Without a shot this is called
# *zero-shot*, with one *one-shot*. In this section you write a function that builds such prompts, by two rules:
#
# - The prompt ends **exactly** where the answer begins: an extra space is a token that no training text has at this position.
# - The prompt must fit into the model's context window. If it does not, drop whole examples, the oldest first, but never the
#   question.
#
# | name | what |
# | --- | --- |
# | `shots` | pairs (input, answer), the oldest first |
# | `names` | labels before the input and before the answer, such as `("English", "French")` |
# | `task` | a first line, if any |
# | `room` | the largest number of characters of the prompt; None = no limit |

# %%
from collections.abc import Sequence

# %% exercise="07.6" difficulty="●●○" minutes=12
from course_lib.generation import few_shot_prompt

# %% tags=["nbval-check-output"]
few_shot_prompt = check("07.6", few_shot_prompt)

# %% [markdown]
# Now we prompt the model of section 3. It was trained on walks and has never seen a list of examples. Its vocabulary is eight
# letters, and the other characters of a prompt are dropped. The task is: *which letter comes next in my order?* Each example
# shows one step of the order. One of the examples, at a random position, shows the letter that the question asks about, so the
# prompt always contains the answer.

# %%
from course_tools.notebook.in_context_orders import answers, next_letter, questions


def answers_to(seed, n_shots, false=False):
    """The answers of the GPT of this seed to 300 questions with so many examples."""
    orders = secret[seed].test[:300]
    return answers(gpts[seed], questions(orders, n_shots, seed, few_shot_prompt, false))


def share(flags):
    """The fraction of prompts for which it holds."""
    return flags.float().mean().item()


print(questions(secret[SEEDS[0]].test[:1], 3, SEEDS[0], few_shot_prompt)[0].prompt)

# %% [markdown] tags=["predict"]
# **Predict.** How does it answer with no example, with one, with four, and with four *false* ones, each of which shows the
# letter after the next?
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
before = {seed: [p.clone() for p in gpts[seed].parameters()] for seed in SEEDS}
numbers = range(len(LETTERS) + 1)
true_shots, false_shots = (
    [[answers_to(seed, n, false) for seed in SEEDS] for n in numbers]
    for false in (False, True)
)
curve, by_order_all_the_same = (
    [mean(share(flags[0]) for flags in of_seeds) for of_seeds in shots]
    for shots in (true_shots, false_shots)
)
believed = [mean(share(flags[1]) for flags in of_seeds) for of_seeds in false_shots]
show(
    plots.curves(
        {
            "true examples: answer by the order": (numbers, curve),
            "false examples: answer by the order": (numbers, by_order_all_the_same),
            "false examples: answer as they show": (numbers[1:], believed[1:]),
        },
        "examples in the prompt",
        "fraction of the answers",
        across={"a guess among 8": 1 / 8},
    ),
    alt=f"Answers by the true order against the number of examples: {curve[0]:.2f} "
    f"with none, {curve[1]:.2f} with one, {curve[4]:.2f} with four, "
    f"{curve[-1]:.2f} with {len(LETTERS)}; with false examples "
    f"{by_order_all_the_same[1]:.2f} with one and {by_order_all_the_same[4]:.2f} "
    f"with four. Answers as the false examples show: {believed[1]:.2f} with one, "
    f"{believed[4]:.2f} with four.",
)

# %% tags=["nbval-check-output"]
least, most = (
    [f(share(by_order) for by_order, _, _ in of_seeds) for of_seeds in true_shots]
    for f in (min, max)
)
by_false = [[share(flags[which]) for flags in false_shots[4]] for which in (0, 1)]
claim(
    "07.z",
    "accuracy, zero-shot: best of the seeds; a guess has 0.125",
    most[0],
    at_most=0.12,
)
claim("07.aa", "accuracy, one-shot: worst of the seeds", least[1], at_least=0.8)
claim(
    "07.bb",
    "accuracy, four shots, one of which answers the question: worst of the seeds",
    least[4],
    at_least=0.6,
)
claim(
    "07.cc",
    "four false shots: answers by the true order, best of the seeds",
    max(by_false[0]),
    at_most=0.25,
)
claim(
    "07.ee",
    "four false shots: answers as the examples show, worst of the seeds",
    min(by_false[1]),
    at_least=0.6,
)
once, twice = (
    [share(by_order[also == twice]) for by_order, _, also in true_shots[4]]
    for twice in (False, True)
)
claim(
    "07.ff",
    "accuracy, four shots, the letter of the question is no example's answer: worst "
    "of the seeds",
    min(once),
    at_least=0.9,
)
claim(
    "07.gg",
    "accuracy lost where the letter of the question is another example's answer: "
    "least of the seeds",
    min(a - b for a, b in zip(once, twice, strict=True)),
    at_least=0.1,
)
same = all(
    torch.equal(p, q)
    for seed in SEEDS
    for p, q in zip(before[seed], gpts[seed].parameters(), strict=True)
)
claim(
    "07.dd",
    "the weights are the same before and after all these prompts",
    same,
    equals=True,
)

# %% [markdown]
# **Why do more examples hurt?** GPT-3 improves with more examples. But our model reads only the eight letters of a prompt, not
# the line breaks or the labels that distinguish an input from an answer. Suppose that the letter of the question is also the
# *answer* of some example. Then the first letter of the next example follows it and looks like an answer, too. On such prompts
# the model is less accurate (07.ff, 07.gg); with eight examples, every letter occurs twice. Without any example the model is
# worse than guessing, perhaps because such a step was never a target in training.

# %% [markdown] tags=["try-it"]
# **Try it.** Invent an order, or a rule that is no order at all (every letter is followed by A?). Give contradictory examples.
# Ask for a letter that no example shows.


# %% tags=["try-it"]
def ask(shots, question):
    """Prompt the model of the first seed with your examples, each two letters from A to
    H, and show its probabilities."""
    prompt = few_shot_prompt(
        [(shot[0], shot[1]) for shot in shots],
        question,
        ("letter", "next"),
        "Say the next letter.",
        room=220,
    )
    odds = next_letter(gpts[SEEDS[0]], [prompt])[0]
    print(
        prompt,
        " ".join(
            f"{letter} {p:.2f}"
            for letter, p in zip(LETTERS, odds.tolist(), strict=True)
        ),
    )


ask(["AC", "CE", "EG", "GB"], "C")

# %% [markdown]
# ## 10 Build it
#
# **Build task (30 minutes, 12 points).** So far you have written parts of a GPT. Now write the whole model and its training
# loop, starting from an empty cell. Define the classes and functions that you need above `train_gpt`, in the same cell. Only
# the library's `GPT` is not allowed.
#
# The check calls `train_gpt(text, n_tokens, n_steps)` once, with 100,000 characters of the language reference (27 tokens: the
# lower-case letters and the space) and `n_steps=400`. It evaluates the returned model on held-out text. The function has at
# most 60 seconds of processor time; a good answer needs about five.
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
# The next cell trains this model once more, for 400 updates on letters alone, and lets it generate text. The first 16
# characters are the prompt, taken from the training text. Expect many invented words after it.

# %%
from course_tools.notebook.character_model import sampled_text
from course_tools.notebook.authorship import whose

alphabet = " abcdefghijklmnopqrstuvwxyz"
plain = "".join(c if c in alphabet else " " for c in text.train.lower()).split()
small = torch.tensor([alphabet.index(c) for c in " ".join(plain)[:100_000]])
torch.manual_seed(SEEDS[0])
built = train_gpt(small, len(alphabet), 400)
tokens = sampled_text(built, small[:16], 120, 32, lambda logits: top_p(logits, 0.5))
print(f"{whose(train_gpt)} model, nucleus of 0.5:")
print("".join(alphabet[token] for token in tokens))

# %% [markdown]
# ## 11 More text, more time
#
# **Kneser and Ney** improved the counts: a short run is counted not by how often it occurs, but by how many *different*
# characters precede it.

# %% tags=["nbval-check-output"]
from course_lib.models import KneserNey

better = KneserNey(known.unfold(0, 8, 1), len(characters))
needs["Kneser-Ney"] = bits_by_counts(better, new, 8)
claim(
    "07.hh",
    "bits per character of new text, the table of section 4 less Kneser-Ney's counts",
    needs["table"] - needs["Kneser-Ney"],
    at_least=0.2,
)

# %% [markdown] tags=["predict"]
# In section 5, the networks read a third of a million characters many times. The study `07_text` (docs/studies.md) gives all
# models 4.2 million characters of Shakespeare's plays. The GPT and the LSTM, of 0.4 million weights each, take 24,000 updates,
# so they read each character about six times; the counts read it once.
#
# **Predict.** Which needs the fewest bits on plays that no model has seen?
#
# <details><summary>A. GPT, clearly: it has learned from more text than in section 5.</summary>
#
# So have the counts, and they use all of it at once.</details>
# <details><summary>B. The counts, clearly: the networks need at least 0.1 bits more.</summary>
#
# After 6,000 of the updates, the counts were 0.2 bits ahead on the held-out plays. At the end they are 0.05 ahead there, and
# level with GPT on the plays for testing.</details>
# <details><summary>C. GPT and the counts need about as many; the LSTM needs more.</summary>
#
# Yes, on the three plays for testing, after 24,000 updates and with one seed: 2.09, 2.09 and 2.14. On the held-out plays the
# LSTM needs no more than GPT. GPT needs 0.4 million weights and 23 minutes for it, the counts 2.2 million entries and 7
# seconds.</details>

# %% tags=["nbval-check-output"]
study = show_study("07_text")
print(study.cost)
counts, *networks = (f"{kind}, 4.2 million" for kind in ("counts", "GPT", "LSTM"))
bits_of = {name: study.mean(name, "bits") for name in (counts, *networks)}
gains = []
for name in networks:
    updates, values = study.curve(name)
    gains.append(values[updates.index(updates[-1] // 2)] - values[-1])
print(
    "bits per character of plays never seen: "
    + "; ".join(f"{name} {cost:.2f}" for name, cost in bits_of.items())
)
claim(
    "07.ii",
    "bits per character of unseen plays, as recorded, one seed: GPT less Kneser-Ney's "
    "counts",
    bits_of[networks[0]] - bits_of[counts],
    between=(-0.02, 0.02),
)
claim(
    "07.kk",
    "the same, one seed, after 24,000 updates: LSTM, still improving, less GPT",
    bits_of[networks[1]] - bits_of[networks[0]],
    at_least=0.02,
)
print(
    "bits on held-out plays that the second half of the updates gains: "
    + "; ".join(f"{name} {x:.2f}" for name, x in zip(networks, gains, strict=True))
)

# %% [markdown]
# On the three plays for testing, GPT needs as many bits as the counts, and the LSTM 0.06 more than GPT. On the held-out plays,
# by which the learning rates, the weights and the length of the runs were chosen, both networks need 0.04 to 0.05 more than the
# counts. So the ranking differs between the two sets of plays. In no comparison of this lecture in which all models learn from
# the same text is a network clearly better than Kneser and Ney's counts: at this scale, a network's number of bits should be
# compared with theirs.
#
# Has training ended? In the second half of the updates GPT gains 0.07 bits and the LSTM 0.18; in the last eighth, 0.00 and
# 0.01. But the learning rate falls to 0 at the end, so this does not show what a longer training would reach. The rates were
# chosen among three by trainings of 800 updates, GPT's is the lowest of its three, and others may be better over 24,000. Each
# network has one seed. A larger network was not trained: the study has a setting for a GPU.
#
# How good is a text at these numbers of bits? The next cell prints a text generated by each model: GPT, the LSTM, then the counts.

# %%
for name in (*networks, counts):
    sample = study.of(name)[0].texts["sample"][:600].strip()
    print(f"--- {name} characters, {bits_of[name]:.2f} bits\n\n{sample} …\n")

# %% [markdown] tags=["quiz"]
# ## 12 Exit quiz
#
# **Question 1.** A GPT reaches 0.02 bits per character on new text. What do you check first?
#
# <details><summary>A. The learning rate: the model has learned exceptionally well.</summary>
#
# No model can predict English text so well.</details>
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
# of these findings would you repeat on a model that you can inspect, and how, before you agree or disagree?*
#
# | points | what earns them |
# | --- | --- |
# | 1 | distinguishes what is stored in weights from what is read from the prompt, by a test with unseen rules |
# | 1 | asks for a control: no examples, false examples, examples of another task |
# | 1 | asks for a baseline without attention or with one layer, or a table |
# | 1 | looks for the mechanism (which head attends where), not only at the answer |
# | 1 | says what would *not* follow from it, and is clear and short |

# %% [markdown] tags=["companion"]
# ## 13 Ledger
#
# **Errata of the deck *CS* (CSE 891), "Scaling Up Transformer".** The next cell has a claim for each row: the sizes confirm
# nine of ten counts and correct one. In detail:
#
# - *XLNet-Large, 340M*: its relative positions need a fifth projection in each block; it has 360M.
# - *GPT-2, heads "?"*: 25 heads of 64 features each, according to the released configuration. Its paper counts 1542M (table 2);
#   computed from the sizes it is 1,558M.
# - *GPT-3, 694GB*: the number is not in the paper, which gives 570 GB for 410 billion tokens of filtered web text, one of five
#   parts of 499 billion in all. (570 · 499 / 410 is 694; whether the slide's number comes from this is a guess.) The model was
#   trained on 300 billion tokens.
# - *CS*, "Programming by Prompt": the last line of the prompt repeats "Poor English input"; as printed, the prompt does not ask
#   for an answer.
#
# **Remarks.** *Transformer-Base, Large, 12 layers*: 6 encoder and 6 decoder blocks; twelve encoder blocks would have fewer than
# 65M. *EE* (EE-559 13.2): "more than 10X the parameters" of GPT is confirmed. *IT* (ITMO lecture 7) calls GPT a "decoder": it
# is a decoder without cross-attention, which would make each block larger by a third.
#
# **Limits of this lecture.** The decks show GPT-3 writing a newspaper article, correcting English and parodying Hemingway. Our
# models cannot do this: depending on the sampling, many words of the generated text are invented, and none of the texts makes sense. Our
# model solves a single task in context, the task that *all* its training texts had; GPT-3's texts were not made for any task.
# Whether the in-context learning of *large* models uses this mechanism and no other is discussed in the literature, not here.
# The LSTM of section 3 fails at *this* budget, not in principle. GPT's fine-tuning on labelled tasks is not trained; lecture 08
# fine-tunes BERT.
#
# ## 14 Papers and decks
#
# **Papers.** Radford et al. 2018, *Improving Language Understanding by Generative Pre-Training*, eqs. 1 and 2
# (https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf) · Radford et al. 2019,
# *Language Models are Unsupervised Multitask Learners*, section 2
# (https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf) · Brown et al. 2020,
# *Language Models are Few-Shot Learners*, sections 2 to 2.4, table 2.1 (https://arxiv.org/abs/2005.14165) · Fan, Lewis, Dauphin
# 2018, section 5 (https://arxiv.org/abs/1805.04833) · Holtzman et al. 2020, section 3 (https://arxiv.org/abs/1904.09751) ·
# Olsson et al. 2022, *In-context Learning and Induction Heads* (https://arxiv.org/abs/2209.11895).
#
# [docs/headlines.md](../docs/headlines.md) compares the results of these papers with ours.
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

for name, (stated, counted) in rows.items():
    within = (1.05, 1.07) if name == "XLNet-Large" else (0.96, 1.04)
    claim(
        f"07.CS-{name}",
        f"parameters of {name}: counted from its sizes, over the slide's",
        counted / stated,
        between=within,
    )

block = 12 * block_parameters(512, 2048) + 37_000 * 512
claim(
    "07.CS-base",
    "twelve encoder blocks of width 512 and their vocabulary, over 65 million",
    block / 65e6,
    at_most=0.9,
)
claim(
    "07.CS-heads",
    "features of each of GPT-2's 25 heads, which share 1,600",
    1_600 / 25,
    equals=64.0,
)
claim(
    "07.CS-data",
    "570 GB over 410 billion tokens, times 499 billion: GB",
    round(570 / 410 * 499),
    equals=694,
)
deck = few_shot_prompt(
    [("I eated the purple berries.", "I ate the purple berries.")],
    "I'd be more than happy",
    ("Poor English input", "Good English output"),
)
claim(
    "07.CS-prompt",
    "what the deck's prompt should end with",
    deck.splitlines()[-1],
    equals="Good English output:",
)
times = rows["GPT-2"][1] / gpt_parameters(
    40_478, 512, GPT_1.d_model, GPT_1.n_layers, n_norms_at_the_end=0
)
claim("07.EE", "parameters of GPT-2 over those of GPT", times, at_least=10)
ratio = block_parameters(GPT_2.d_model, GPT_2.d_ff, n_attentions=2) / block_parameters(
    GPT_2.d_model, GPT_2.d_ff
)
claim(
    "07.IT",
    "a decoder block with its second attention over one of GPT",
    ratio,
    between=(1.3, 1.4),
)

# %% tags=["ledger"]
ledger()
