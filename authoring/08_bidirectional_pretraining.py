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
# # 08 · Bidirectional pre-training: ELMo, BERT
#
# BERT learns from text without labels by filling gaps from both sides; then a few labels are enough to fine-tune it.
#
# You will write BERT's masking, loss and head, train a small BERT beside a GPT of the same size, let it write dates, gap by
# gap, and fine-tune it on labels in one language for texts in five others.
#
# **Prerequisites:** lectures 04 (self-attention), 05 (the Transformer) and 07 (GPT). **Time:** {minutes}. {measured}
#
# ![](diagram:bert_heads)

# %%
import math
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.analysis import HeadStatistics
from course_lib.blocks import Sizes, draw_weights, encoder_stack
from course_lib.datasets import END, word_pieces
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.generation import fill_surest
from course_lib.losses import Masked, Segmented, SentencePairs, next_token_loss
from course_lib.models import GPT, ELMo
from course_lib.models.bert_heads import BertStates
from course_lib.primitives import padding_mask
from course_lib.shapes import Lengths, Tokens
from course_lib.training import batches, train
from course_tools.lectures.lecture_08 import checkpoint, date_pairs, figures, rivals
from course_tools.lectures.lecture_08 import written_dates
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import recorded, show_study, source
from course_tools.notebook.fit import fit
from course_tools.notebook.seed_scores import show_seeds

# %% [markdown]
# ## 1 A gap that the left does not explain
#
# Here is a text with two sentences. Both name the same day, in two languages, and one token is hidden:
#
# > 5 . **[?]** 2050 · December 5 , 2050
#
# You know that the hidden word means December, because of a word to its *right*. A GPT reads from left to right and cannot know
# it. Nor do counts of neighbouring tokens help: beside the gap stand only `.` and `2050`.
#
# Our texts are days of the years 1900 to 2099, each written in two of six languages: English, German, French, Polish, Finnish and
# Turkish. A token is a word, a number or a punctuation mark.

# %%
known, new = date_pairs.date_pairs(n_train=16_000, n_test=1_000, seed=0)
for pair in known[:5]:
    print(pair.first, " · ", pair.second)

# %% [markdown] tags=["predict"]
# **Predict.** A table of counts fills the gap from the neighbours on both sides, as the table of lecture 07 did from the tokens
# before it. The hidden token is a *year*, one of 200. How many nats does the table need?
#
# <details><summary>A. Nearly none: the year stands in the other sentence, too.</summary>
#
# It does, several tokens away. A table of neighbours never looks there.</details>
# <details><summary>B. About 5.3, the logarithm of 200.</summary>
#
# Yes: ln 200 = 5.3. The month or comma beside a year does not tell which year it is.</details>
# <details><summary>C. About 2.5, the logarithm of 12.</summary>
#
# That is what a hidden month costs, if the table knows the language.</details>

# %% [markdown]
# ## 2 Why the answer must be hidden
#
# Why not train one language model without its causal mask? Each position would see the very word that it must predict. What
# if each word is hidden from its own position only?

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). A text has three words. Each layer replaces the state of each word by the mean of the states of
# the *other* two. With what weight is the first word, $x_1$, in its own state after two layers?
#
# <details><summary>0.5</summary>
#
# After one layer, the neighbours are $h_2 = (x_1 + x_3) / 2$ and $h_3 = (x_1 + x_2) / 2$. Their mean is $x_1 / 2 + x_2 / 4 +
# x_3 / 4$: they hand the hidden word back, with the largest weight.</details>
# <details><summary>0</summary>
#
# That is true of one layer: $h_1 = (x_2 + x_3) / 2$. But the second layer reads the states of the neighbours, and these have
# seen $x_1$.</details>
# <details><summary>0.25</summary>
#
# That is the weight of each *other* word: each is in only one of the two states that are averaged.</details>

# %% [markdown]
# So the answer must be hidden from *every* position. **ELMo** (2018) did it by two language models, stacks of LSTMs that read in
# opposite directions, and put their states side by side: no feature combines a word on the left with one on the right (*Going
# further*). BERT found a way to combine them.
#
# ## 3 Hide the answer, not the context
#
# **BERT** (2018) uses both sides in *every* layer and hides the answer by removing it from the input. Of the tokens, 15 % are
# **chosen** at random, and only these are predicted. A chosen token becomes one of three things:
#
# | fraction of the chosen tokens | becomes | `fate` |
# | --- | --- | --- |
# | 80 % | [MASK] | < 0.8 |
# | 10 % | a random token | 0.8 … 0.9 |
# | 10 % | itself, unchanged | ≥ 0.9 |
#
# Why not always [MASK]? Most later tasks have texts without it. Because of the last two rows, the model must also predict tokens that
# it sees: any of them may be false. (Today one takes more than 15 %, and often [MASK] alone: Wettig et al. 2023.)
#
# The function gets all random numbers as arguments: a token is chosen where `choice` is below `rate`, and `fate` decides what it
# becomes. The special tokens [CLS] and [SEP] (section 4) and padding are not `eligible`.
#
# **By hand**, with a rate of 0.15:
#
# | token | [CLS] | 3 | mars | 1987 | [SEP] | March |
# | --- | --- | --- | --- | --- | --- | --- |
# | `choice` | 0.02 | 0.62 | 0.04 | 0.11 | 0.70 | 0.09 |
# | `fate` | 0.50 | 0.10 | 0.35 | 0.93 | 0.40 | 0.85 |
# | chosen | no: special | no | yes | yes | no | yes |
# | becomes | [CLS] | 3 | [MASK] | 1987 | [SEP] | its replacement |

# %% exercise="08.2" difficulty="●●○" minutes=12
from course_lib.losses import corrupt

# %% tags=["nbval-check-output"]
corrupt = check("08.2", corrupt)

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). 15 % of the tokens of a long text are chosen. What percentage of its tokens *are* [MASK] after this
# procedure?
#
# <details><summary>12</summary>
#
# It is 80 % of 15 %. In total, 13.5 % differ from the text, or slightly less, since a random token may be the right
# one.</details>
# <details><summary>15</summary>
#
# This is the percentage of tokens that are chosen.</details>
# <details><summary>80</summary>
#
# That is the percentage among the chosen tokens.</details>
# <details><summary>13.5</summary>
#
# So many differ from the text, but some of them have become a random token.</details>

# %%
texts = date_pairs.DateTexts.of(known)
torch.manual_seed(0)
long_text = torch.randint(4, texts.mask, (100, 1_000))
text = date_pairs.mask_batch(long_text, texts.mask, 0.15, corrupt)[0]
masked = (text == texts.mask).float().mean()
print(f"{masked:.1%} of the tokens are [MASK]")

# %% tags=["guard", "nbval-check-output"]
claim("08.masked", masked=masked)

# %% [markdown]
# The loss is the cross-entropy of the *true* tokens, averaged over the set $C$ of all chosen positions of the batch, including
# those left unchanged:
#
# $$L = -\frac{1}{|C|} \sum_{(b,t) \in C} \log p(x_{b,t} \mid \text{corrupted text})$$
#
# **By hand.** If the model gives `mars` a probability of 0.5, `1987` 0.9 and `March` 0.2, the loss is the mean of 0.69, 0.11 and
# 1.61: 0.80 nats. Unlike GPT's, the logits at a position predict the token *at* this position; nothing is shifted.
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens) |
# | `tokens` | (B, T): the true tokens |
# | `chosen` | (B, T) bool |

# %% exercise="08.3" difficulty="●○○" minutes=6
from course_lib.losses import mlm_loss

# %% tags=["nbval-check-output"]
mlm_loss = check("08.3", mlm_loss)

# %% [markdown]
# ## 4 Two sentences as one
#
# Many tasks have *two* texts: a question and a passage, a claim and its evidence. BERT reads them as one sequence,
# `[CLS] first [SEP] second [SEP]`, and adds to every token an embedding of the segment that it belongs to:
#
# $$h_0 = \mathrm{Norm}(E_{\text{token}} + S_{\text{segment}} + P_{\text{position}})$$
#
# The segments are 0 up to and including the [SEP] after the first sentence, and 1 after it. (RoBERTa and ModernBERT do without their
# embedding.)
#
# ![](diagram:bert_input)

# %% [markdown]
# ## 5 A whole BERT, trained beside a GPT
#
# The encoder is that of lecture 05: no causal mask, only padding is masked out. Then `transform`, a small network with a norm, and the
# embedding matrix, as in GPT, turn each final state into logits. We choose 25 % of the tokens instead of 15 %: our texts are short,
# and each update then has more targets.


# %%
SIZES = Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2)


class SmallBERT(nn.Module):
    """From tokens and segments (B, T) and lengths (B,) to states (B, T, d_model)."""

    def __init__(self, n_tokens, T_max=date_pairs.T_MAX, sizes=SIZES):
        super().__init__()
        d_model = sizes.d_model
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.segments = nn.Embedding(2, d_model)
        self.positions = nn.Embedding(T_max, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.blocks = encoder_stack(sizes, fused_scaled_dot_product_attention, F.gelu)
        self.transform = nn.Sequential(
            nn.Linear(d_model, d_model), nn.GELU(), nn.LayerNorm(d_model)
        )
        self.bias = nn.Parameter(torch.zeros(n_tokens))
        draw_weights(self, d_model)  # small random numbers

    def forward(self, tokens, segments, lengths):
        T = tokens.shape[1]
        x = self.tokens(tokens) + self.segments(segments) + self.positions.weight[:T]
        return self.blocks(self.norm(x), padding_mask(lengths, T))

    def logits(self, *text):
        return self.transform(self(*text)) @ self.tokens.weight.mT + self.bias


def masked_loss(model, batch):
    tokens, segments, lengths = batch
    text, chosen = date_pairs.mask_batch(tokens, texts.mask, 0.25, corrupt)
    return mlm_loss(model.logits(text, segments, lengths), tokens, chosen)


# %%
source(date_pairs.mask_batch)
texts = date_pairs.DateTexts.of(known)
inputs = [part.to(device()) for part in texts.pairs(known)]
torch.manual_seed(0)
bert = SmallBERT(texts.mask + 1).to(device())
_ = fit(
    bert,
    masked_loss,
    batches(*inputs, batch_size=64, seed=0),
    steps=1_000,
    lr=3e-3,
    warmup=300,
    show_loss=False,
)

# %% [markdown] tags=["predict"]
# The rival is a GPT with blocks of the same size. It reads the same texts equally often, and predicts *every* token from those to
# its left.
#
# **Predict.** The year stands in both sentences, as the same number. Where does the GPT need nearly as few nats for it as BERT?
#
# <details><summary>A. In both: it has read 16,000 texts.</summary>
#
# The year of a new day cannot be remembered. It must be found in the text.</details>
# <details><summary>B. In neither: it sees only one side.</summary>
#
# One side is enough if the answer stands on it.</details>
# <details><summary>C. Only in the second.</summary>
#
# Yes. When it comes to the second year it has read the first. In the first sentence, nothing to the left tells the year.</details>

# %%
torch.manual_seed(0)
gpt = GPT(texts.mask, date_pairs.T_MAX, SIZES, fused_causal_attention).to(device())
_ = fit(
    gpt,
    lambda model, batch: next_token_loss(model(batch[0]), batch[0], batch[0] > 0),
    batches(*inputs, batch_size=64, seed=0),
    steps=1_000,
    lr=3e-3,
    warmup=300,
    show_loss=False,
)

# %% [markdown]
# Now the test: in new days, one token at a time is hidden. (In training, a quarter of the tokens was hidden, at times the
# year in both sentences; so BERT needs fewer nats here.) Two more rivals have no network. "counts" is the table of section 1,
# smoothed as by Kneser and Ney; more neighbours than one on either side do not help. "words" is a softmax regression, which
# is told which words stand in either sentence and which beside the gap.

# %% tags=["nbval-check-output"]
source(date_pairs.nats_of_hidden)
asked = date_pairs.BERTInput(*(part.to(device()) for part in texts.pairs(new)))
hidden = date_pairs.nats_of_hidden(bert.logits, asked, texts.mask)
by = {
    "counts": date_pairs.nats_of_counts(
        texts.pairs(known), asked, hidden, (1, -1), texts.mask
    ),
    "words": rivals.nats_of_words(
        date_pairs.BERTInput(*inputs), asked, hidden, texts.mask
    ),
    "GPT": date_pairs.nats_from_the_left(gpt, asked, hidden),
    "BERT": hidden,
}
figures.show_kinds(by, texts, asked)
short = recorded("08_dates")
claim(
    "08.nats",
    **{name.lower(): each.mean() for name, each in by.items()},
    recorded=short.scores("BERT", "nats"),
)

# %% [markdown] tags=["try-it"]
# **Try it.** Let the table count two neighbours to the left: write `(-2, -1)` for `(1, -1)` and run the cell again.

# %% [markdown]
# A year costs the table no less than a guess, ln 200 = 5.3 nats. BERT finds it in the other sentence, on whichever side that is; GPT
# finds it only where that is to the left. And BERT has begun to *translate*: a hidden month costs it far less than ln 12 = 2.5 nats,
# although it never saw a dictionary.
#
# **The regression does about as well as most BERTs of 1,000 updates.** So the gain over the GPT comes from reading both sides, not from
# attention: in a date, each word means the same in every text, and a sum over the words is enough. (It would not be for the secret
# orders of lecture 07, where one letter says which other one counts.) BERT is still learning, and no one had to tell it where the
# answer stands.
# (A GPT can fill gaps, too, if the text is rearranged so that the gap comes last: *fill in the middle*, Bavarian et al. 2022.)
#
# ## 6 BERT writes
#
# Another BERT of this size was trained on 30,000 pairs, for six times as many updates. Its training was recorded and its weights are
# part of the course; the next cell reads them. The regression, the dashed line, has learned from the same pairs in as many updates.

# %% tags=["nbval-check-output"]
study = show_study("08_checkpoint")
expected = study.of("BERT")[0].texts["digest"]
read, unread = date_pairs.date_pairs(n_train=30_000, n_test=1_000, seed=0)
texts_of_study = date_pairs.DateTexts.of(read)
pretrained = checkpoint.load(texts_of_study, expected).to(device())
words = "regression on the words"
print("nats of a hidden  BERT          regression")
for kind in ("number", "month", "weekday"):
    each = (study.scores(name, f"nats of {kind}s") for name in ("BERT", words))
    print(f"{kind:<16}", *(f"{min(x):.2f} to {max(x):.2f}" for x in each), sep="  ")
claim(
    "08.checkpoint",
    nats=study.scores("BERT", "nats"),
    words=study.scores(words, "nats"),
    numbers=study.scores("BERT", "nats of numbers"),
    months=study.scores("BERT", "nats of months"),
    of_months=study.scores(words, "nats of months"),
    weekdays=study.scores("BERT", "nats of weekdays"),
    of_weekdays=study.scores(words, "nats of weekdays"),
)

# %% [markdown]
# Numbers are found almost without loss. **What must a month cost?** If the other sentence is English, `5 [?] 2050` may be French,
# Polish or Turkish: ln 3 = 1.1 nats. If it is French, ln 2 = 0.7. A weekday, which half of the dates have, tells the language: 0.
# The mean over the six languages is 0.33, and BERT needs 0.31 to 0.36 in three trainings. A weekday still costs ln 7: only a quarter
# of the texts have two, and neither BERT has found the link between them. The regression has begun to, so in all **it is a little
# ahead of BERT**, though not at months: to fill *one* gap in a date, attention is not needed. But the regression has learned
# to fill one gap between known words; BERT fills any number, and its states serve other tasks (section 7).
#
# BERT gives the probabilities of *each gap by itself*. What if a whole sentence is hidden?

# %% [markdown] tags=["predict"]
# **Predict.** The first sentence is `19 . huhtikuuta 1993`, four gaps follow, and each is filled with its likeliest token, all at once.
# What is most likely to be wrong with the second sentence?
#
# <details><summary>A. Nothing: the first one tells the day.</summary>
#
# It tells the day, but not the language and the order: `April 19 , 1993` or `19 . April 1993`?</details>
# <details><summary>B. Its words are of different languages and orders.</summary>
#
# Yes. Each gap has a likeliest token, but no gap knows what the others become. The model writes `19 19 , 1993`.</details>
# <details><summary>C. Its words say different days.</summary>
#
# The first sentence tells every gap the same day, month and year.</details>

# %% [markdown]
# So fill **one gap at a time, the surest first**, and ask the model again. After `2 . tammikuuta 1987`:
#
# | step | text | likeliest token of each gap, with its probability |
# | --- | --- | --- |
# | 1 | ? ? ? ? | January 0.17 · `.` 0.43 · `,` 0.39 · **1987 0.84** |
# | 2 | ? ? ? 1987 | 2 0.16 · **2 0.62** · janvier 0.52 |
# | 3 | ? 2 ? 1987 | January 0.22 · **janvier 0.74** |
# | 4 | ? 2 janvier 1987 | **vendredi 0.17** |
#
# All at once, it would have been `January . , 1987`.
#
# Your function takes one step, in every text of a batch. It compares probabilities, not logits, and never writes [MASK] itself.
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens) |
# | `tokens`, result | (B, T): a gap is where the token is `mask` |

# %% exercise="08.9" difficulty="●●○" minutes=10
from course_lib.generation import fill_surest

# %% tags=["nbval-check-output"]
fill_surest = check("08.9", fill_surest)

# %% [markdown]
# **Bug hunt.** The function below fills gaps, too, and often the surest. What is wrong? Decide before you run the check.

# %% exercise="08.9" bug="compares_logits"
from course_tools.bank.lecture_08.fill_surest import compares_logits as suspect

# %% tags=["nbval-check-output"]
suspect = check("08.9", suspect)


# %%
def fill_all(logits, tokens, mask):
    """Fill every gap at once."""
    return torch.where(tokens == mask, logits[..., :mask].argmax(-1), tokens)


def fill_first(logits, tokens, mask):
    """Fill the first gap of each text, as a GPT would."""
    gap = tokens == mask
    return fill_all(logits, tokens, mask).where(gap & (gap.cumsum(1) == 1), tokens)


@torch.no_grad()
def write(asked, fill):
    """Hide the second sentences, and fill them again."""
    hidden = (asked.segments == 1) & (asked.tokens > END)
    tokens = asked.tokens.masked_fill(hidden, texts_of_study.mask)
    while (tokens == texts_of_study.mask).any():
        logits = pretrained(tokens, asked.segments, asked.lengths).words
        tokens = fill(logits, tokens, texts_of_study.mask)
    return tokens


days = texts_of_study.pairs(unread)
days = date_pairs.BERTInput(*(part.to(device()) for part in days))
right = {}
for fill in (fill_all, fill_first, fill_surest):
    sentences = written_dates.second_sentences(write(days, fill), days, texts_of_study)
    right[fill.__name__] = written_dates.share_of_dates(sentences, unread)
    print(f"{fill.__name__:<12}", " · ".join(sentences[:4]))

# %% tags=["nbval-check-output"]
claim("08.write", **right)

# %% [markdown]
# What matters is to fill one gap at a time; here the order matters little. This is how **masked diffusion** models write:
# LLaDA (Nie et al. 2025) is trained by BERT's loss with a rate between 0 and 1, drawn anew for each text, starts from gaps
# alone and fills the surest first, several in a step. With 8 billion weights it rivals GPTs of its size.

# %% [markdown] tags=["try-it"]
# **Try it.** Let BERT write from gaps alone. Hide a word in the middle. Give the two sentences different years: does this change what
# the model writes for the month?

# %% tags=["try-it"]
written_dates.print_steps(
    pretrained,
    texts_of_study,
    "[MASK] [MASK] [MASK]",
    "[MASK] [MASK] , [MASK]",
    fill_surest,
)

# %% [markdown]
# **Where does it look?** The figure shows the head that puts most weight on the other sentence. Each row is a query, each column a
# key: *grudnia* looks at *Dezember*. Try the other texts.

# %% tags=["cover", "interactive"]
shown = texts_of_study.lay_out(
    [
        ("5 grudnia 2050", "5 . Dezember 2050"),
        ("mercredi 23 juin 2083", "Wednesday , June 23 , 2083"),
        ("13 Temmuz 1914", "13 . heinäkuuta 1914"),
    ]
)
shown = date_pairs.BERTInput(*(part.to(device()) for part in shown))
heads = figures.attention_heads(
    figures.inspected(pretrained, texts_of_study, shown), "the pre-trained BERT"
)
explore(figures.head_map(heads), layer=(1, 2), head=(1, 4), text=(1, 3))

# %% [markdown]
# ## 7 Fine-tuning: labels in one language
#
# A new task: is a date in winter, spring, summer or autumn? We have 96 labelled dates, eight for each month, *all in English*. The
# test dates are in the five other languages. Every number becomes [MASK]: what is left is the name of a month, in half of the dates
# with a weekday. So the task is to know the months of five languages from labels in a sixth.
#
# **Fine-tuning** adds a small head and trains *all* weights. BERT's head reads the state of [CLS], which attends to every
# token. (No loss of our pre-training used it; in the paper, next-sentence prediction did.)
#
# $$\text{logits} = W \tanh(W_p\, h_{[\mathrm{CLS}]} + b_p) + b$$
#
# | name | shape, as `torch.nn.Linear` stores it |
# | --- | --- |
# | `states` | (B, T, d_model): [CLS] is first |
# | `W_p`, `b_p` | (d_p, d_model), (d_p,) |
# | `W`, `b` | (n_classes, d_p), (n_classes,) |

# %% exercise="08.6" difficulty="●○○" minutes=6
from course_lib.models import classification_head

# %% tags=["nbval-check-output"]
classification_head = check("08.6", classification_head)

# %% [markdown] tags=["predict"]
# **Predict.** Three classifiers are trained on the 96 labels: logistic regression on TF-IDF of groups of one to four letters (groups
# that are rare among the dates count more), an untrained BERT, and the pre-trained one. A guess is right in a quarter of the cases.
# Which is most likely to know the season of *heinäkuuta*, July?
#
# <details><summary>A. None: no label was in Finnish.</summary>
#
# True of a classifier that has read nothing but the labelled dates. One of the three has read Finnish before.</details>
# <details><summary>B. TF-IDF: it finds the letters that both languages share.</summary>
#
# *Januar* shares letters with *January*, so TF-IDF is right more often than a guess. But what does *heinäkuuta* share with
# *July*?</details>
# <details><summary>C. The pre-trained BERT.</summary>
#
# Yes. It has learned to fill in *heinäkuuta* where the other sentence has *July*. If this has made their states similar, a head
# trained on one also fits the other.</details>


# %%
class DateReader(nn.Module):
    """A BERT with your head on [CLS]."""

    def __init__(self, bert, d_model=64, n_classes=4):
        super().__init__()
        self.bert = bert
        self.pool = nn.Linear(d_model, d_model)
        self.last = nn.Linear(d_model, n_classes)

    def forward(self, tokens, segments, lengths):
        states = self.bert(tokens, segments, lengths)
        pool, last = self.pool, self.last
        return classification_head(
            states, pool.weight, pool.bias, last.weight, last.bias
        )


def laid_out(part):
    rows = [(date_pairs.without_numbers(pair.first), None) for pair in part]
    return [each.to(device()) for each in texts_of_study.lay_out(rows)]


def tuned(bert, few, frozen=False):
    """Fine-tune a copy of a BERT, or its head alone, on a few dates, by Adam.

    10 % warm-up, linear decay, gradients clipped at 1.0, 100 updates of 24 dates.
    """
    lr = 1e-2 if frozen else 1e-3
    model = DateReader(deepcopy(bert).requires_grad_(not frozen)).to(device())
    labels = date_pairs.seasons(few).to(device())
    stream = batches(*laid_out(few), labels, batch_size=24, seed=0)

    def loss(model, batch):
        return F.cross_entropy(model(*batch[:3]), batch[3])

    for _ in train(model, stream, loss, steps=100, lr=lr, warmup=10):
        pass
    return model.eval()


# %% [markdown]
# Two more rows. *Frozen* trains the head alone: what is in the states already? And the pairs can be used without a network:
# an **SVD** of the table "which words occur on which day" gives each word a short vector, and words of the same days similar ones;
# logistic regression reads the sum of a date's vectors.

# %%
foreign = [pair for pair in unread if pair.languages[0] != "en"]
answers = date_pairs.seasons(foreign).to(device())


@torch.no_grad()
def accuracy(model):
    right = model(*laid_out(foreign)).argmax(-1) == answers
    return right.float().mean().item()


found = {}
for seed in range(3):
    torch.manual_seed(seed)
    few = date_pairs.labelled_dates(known, "en", n_each=8, seed=seed)
    untrained = checkpoint.new_bert(texts_of_study).bert
    scores = {
        "untrained BERT": accuracy(tuned(untrained, few)),
        "pre-trained, frozen": accuracy(tuned(pretrained.bert, few, frozen=True)),
        "pre-trained BERT": accuracy(tuned(pretrained.bert, few)),
    } | rivals.season_accuracies(few, known[:8_000], foreign)
    for name, score in scores.items():
        found.setdefault(name, []).append(score)

# %% tags=["nbval-check-output"]
show_seeds(found, "accuracy, five languages", across={"chance": 0.25})
claim(
    "08.season",
    bert=found["pre-trained BERT"],
    untrained=found["untrained BERT"],
    frozen=found["pre-trained, frozen"],
    words=found["TF-IDF"],
)
svd = [found[f"SVD, {n} directions"] for n in (12, 48)]
claim("08.svd", twelve=svd[0], more=svd[1])

# %% [markdown]
# Labels in one language, answers in five others. Most of it is in the frozen states: the pre-training has put the names that
# a month has in all languages side by side, and the labels only name the season.
#
# No network is needed to use the pairs: the SVD with 12 directions, as many as there are months, is always right and **better than
# BERT**; with 48, it is right in two of three dates, where TF-IDF is in one of two. BERT needs no such choice, and the same weights
# also write dates; but if one knows that only the month decides, one needs no BERT here.

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** Why can one not simply train a GPT without its causal mask, so that it uses both sides?
#
# <details><summary>A. It would be too slow.</summary>
#
# It would cost about the same.</details>
# <details><summary>B. Each position would see the very token that it must predict.</summary>
#
# Right. The target must be hidden: by a causal mask, or by [MASK].</details>
# <details><summary>C. Its positional encodings would no longer make sense.</summary>
#
# They would have the same meaning as in BERT.</details>
#
# **Question 2.** In each update, GPT learns from every token and BERT from 15 % of the tokens. What does BERT get in return?
#
# <details><summary>A. A model that generates better text.</summary>
#
# Trained at one rate, it has rarely seen a text of gaps alone. Masked diffusion (section 6) draws the rate at random to mend
# this.</details>
# <details><summary>B. States that depend on both sides of each token, in every layer.</summary>
#
# Right. Tasks on a given text profit from such states; the price is fewer targets in each update.</details>
# <details><summary>C. Fewer parameters.</summary>
#
# The blocks have the same parameters.</details>
#
# **Question 3.** A batch has 100 chosen tokens, of which 10 stay unchanged. Over how many does the loss average?
#
# <details><summary>A. 90: the others are visible.</summary>
#
# The model is not told which tokens are unchanged. They count, so that it learns to predict at visible tokens, too.</details>
# <details><summary>B. 100.</summary>
#
# Right. All chosen tokens count.</details>
# <details><summary>C. 80: only those that are [MASK].</summary>
#
# Random and unchanged tokens are in the loss on purpose.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague pre-trains BERT on the support emails of your company and fine-tunes it to
# classify them; it is no better than TF-IDF. Write what you would measure, in order, to find out why.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | inspects the masked-token loss on *held-out* emails: is it below that of neighbour counts, and still falling? |
# | 1 | compares with the same network trained from scratch, over several random choices of the labelled examples |
# | 1 | varies the number of labels: pre-training pays off where labels are few |
# | 1 | asks whether single words decide the task, and which simple method could use the unlabelled emails |
# | 1 | checks the pipeline (pieces, [CLS], segments, learning rate), and is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# BERT-large had 340 million parameters and was trained on 3.3 billion words; within a year most leading entries on benchmarks such as
# GLUE and SQuAD were built on it.
#
# - **More of the same.** RoBERTa (2019) trained longer on ten times the text, drew new masks each time, dropped next-sentence
#   prediction and was better on GLUE, SQuAD and RACE.
# - **Learning from every token.** In ELECTRA (2020) a small model replaces tokens, and a larger one predicts for *each* whether it was
#   replaced.
# - **Many languages.** Multilingual BERT transfers labels between languages as in section 7, even without parallel text (Pires et
#   al. 2019); XLM (2019) masks tokens in pairs of translations, as we did.
# - **Today.** Chatbots are GPTs. Where many texts need a label, a score or a vector (Sentence-BERT 2019), encoders remain in use because
#   they are small and fast: ModernBERT (2024) has rotary positions, gated feed-forward networks, local windows in two of three layers
#   and contexts of 8,192 tokens; it masks 30 % and has no next-sentence prediction.
#
# **Further reading.** Peters et al. 2018, *Deep contextualized word representations*, eq. 1 (https://arxiv.org/abs/1802.05365) ·
# Devlin et al. 2019, *BERT* (https://arxiv.org/abs/1810.04805) · Liu et al. 2019, *RoBERTa* (https://arxiv.org/abs/1907.11692) ·
# Clark et al. 2020, *ELECTRA* (https://arxiv.org/abs/2003.10555) ·
# Pires et al. 2019, *How Multilingual is Multilingual BERT?* (https://arxiv.org/abs/1906.01502) · Conneau and Lample 2019,
# *Cross-lingual Language Model Pretraining* (https://arxiv.org/abs/1901.07291) · Reimers and Gurevych 2019, *Sentence-BERT*
# (https://arxiv.org/abs/1908.10084) · Bavarian et al. 2022, *Efficient Training of Language Models to Fill in the Middle*
# (https://arxiv.org/abs/2207.14255) · Chang et al. 2022, *MaskGIT*, section 3.2 (https://arxiv.org/abs/2202.04200) · Nie et al. 2025,
# *Large Language Diffusion Models* (https://arxiv.org/abs/2502.09992) · Warner et al. 2024, *Smarter, Better, Faster, Longer*, on ModernBERT
# (https://arxiv.org/abs/2412.13663).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each can be read on its own, and their exercises give extra points.

# %% [markdown]
# ## ELMo: two language models
#
# **ELMo** (2018) trains *two* language models, stacks of LSTMs (lecture 01) that read in opposite directions, and concatenates their
# states for each word $k$. A task uses all layers $j$, mixed by weights $s_j$ and a scale $\gamma$ that are learned with the task:
#
# $$\mathrm{ELMo}_k = \gamma \sum_{j} s_j\, h_{k,j} \qquad s = \mathrm{softmax}(w) \qquad h_{k,j} = [\overrightarrow{h}_{k,j};\ \overleftarrow{h}_{k,j}]$$
#
# **By hand.** Two layers of one word are $(1, 0)$ and $(0, 4)$; $w = (0, \ln 3)$ and $\gamma = 2$. The weights are ¼ and ¾, and
# the mixture is $2 \cdot (0.25, 3) = (0.5, 6)$.
#
# | name | shape |
# | --- | --- |
# | `layers` | (…, n_layers, d): the embedding and each layer, for each word |
# | `w`, `gamma` | (n_layers,), () |
# | result | (…, d) |
#
# ![](diagram:elmo)

# %% exercise="08.1" difficulty="●○○" minutes=8
from course_lib.models import scalar_mix

# %% tags=["nbval-check-output"]
scalar_mix = check("08.1", scalar_mix)

# %% [markdown]
# Change the last three words of a sentence. Which features of the earlier words change?

# %%
torch.manual_seed(0)
elmo, sentence = ELMo(n_tokens=50, d_model=16, n_layers=2), torch.arange(4, 13)[None]
other, lengths = sentence.clone(), torch.tensor([9])
other[:, 6:] += 9
with torch.no_grad():
    before, after = (
        scalar_mix(elmo(text, lengths)[:, :6], torch.zeros(3), torch.ones(()))
        for text in (sentence, other)
    )
changed = ((before - after).abs() > 0).any(1)[0]  # for each feature
left, right = changed[:16].sum(), changed[16:].sum()
print(f"of the 16 features of each direction change: {left} and {right}")

# %% tags=["guard", "nbval-check-output"]
claim("08.elmo", left=left, right=right)

# %% [markdown]
# One half of the features depends on the word and what is to its left, the other half on the word and what is to its right. No
# feature combines a word on the left with one on the right.

# %% [markdown]
# ## The layout of two sentences
#
# Write what section 4 describes. `begin` is the index of [CLS], `separate` that of [SEP]. The result is `Segmented(tokens, segments)`,
# integers of shape (T,). The second sentence may be missing (None) or empty.

# %% exercise="08.4" difficulty="●●○" minutes=10
from course_lib.losses import segment_input

# %% tags=["nbval-check-output"]
segment_input = check("08.4", segment_input)

# %% [markdown]
# ## Next-sentence prediction
#
# BERT has a second task: half of the pairs are consecutive sentences, half have a random second one, and a head on [CLS] says
# which. Each sentence $i$ that is followed by another one in its document is the first of a pair. If the coin of the pair is below ½,
# the second is sentence $i+1$; otherwise it is number $\lfloor \text{pick} \cdot M \rfloor$ of the $M$ sentences of all *other*
# documents (the last one if pick is 1).
#
# | name | shape |
# | --- | --- |
# | `document` | (n,): the document of each sentence, any integers |
# | `coins`, `picks` | (n_pairs,) in 0…1 |
# | result | `SentencePairs(first, second, follows)`, (n_pairs,) each |
#
# You may assume that there are as many coins and picks as pairs and that there are at least two documents: the errors named in
# the docstring are not tested.

# %% exercise="08.5" difficulty="●●●" minutes=20
from course_lib.losses import nsp_pairs

# %% tags=["nbval-check-output"]
nsp_pairs = check("08.5", nsp_pairs)

# %% [markdown]
# For our texts, each day is a document of two sentences.

# %%
rows, follows = date_pairs.neighbours(known[:200], nsp_pairs, seed=0)
for (first, second), same in list(zip(rows, follows.tolist(), strict=True))[:4]:
    print("same day " if same else "other day", "|", first, "|", second)

# %% [markdown] tags=["predict"]
# **Predict.** One BERT trains on such pairs, with masked tokens and next-sentence prediction, another one on true pairs alone. Which
# of them has more texts from which it can learn to find a hidden *year*?
#
# <details><summary>A. The first: it has two tasks to learn from.</summary>
#
# The second task asks whether the days are the same, and not which year is hidden.</details>
# <details><summary>B. The second.</summary>
#
# Yes. In half of the first one's texts the other sentence is of another day, and the hidden year stands nowhere.</details>
# <details><summary>C. Neither: the texts are as many.</summary>
#
# As many, but half of the first one's do not contain the answer.</details>

# %% tags=["nbval-check-output"]
figures.show_long_trainings(study)
nats = {name: study.scores(name, "nats") for name in study.names}
follows = study.scores("next sentence", "follows")
print(f"new pairs that the head judges right: {min(follows):.1%} to {max(follows):.1%}")
claim(
    "08.next",
    bert=nats["BERT"],
    random=nats["random neighbours"],
    next=nats["next sentence"],
    follows=follows,
)

# %% [markdown]
# The control *random neighbours* reads the same pairs without the second loss, and fills gaps no better: **the random sentences
# alone cost as much**. Half of the texts do not hold the answer: five of the six trainings on such pairs fill gaps
# less well after 6,000 updates than any on true pairs after 1,000 (`08_dates`). The sixth, with the second loss, needs 0.38 nats, so
# what they cost is time. The cost is large because in our pairs the other sentence *is* the answer; in ordinary text it helps much less.
# RoBERTa found no gain from the task there, and dropped it.
#
# ## Always [MASK]
#
# What if *every* chosen token became [MASK]? The model would never be asked at a token that it sees.

# %% [markdown] tags=["predict"]
# **Predict.** Such a model reads a text without any gap. What does it predict *at* a token that it sees?
#
# <details><summary>A. That token, because the model sees it.</summary>
#
# It sees the token but was never trained to predict it there.</details>
# <details><summary>B. Often another token: its loss never asked there.</summary>
#
# Yes. Nothing in its training rewards it for repeating a token that it sees. It can still be right where the other tokens tell the
# answer. With the 80/10/10 rule every token may be a target.</details>
# <details><summary>C. [MASK].</summary>
#
# [MASK] is never a target.</details>

# %% tags=["nbval-check-output"]
with torch.no_grad():
    p = pretrained(*days).words.softmax(-1).gather(-1, days.tokens[..., None])[..., 0]
claim(
    "08.visible",
    rule=p[days.tokens > END].mean(),
    always=study.scores("always [MASK]", "visible"),
    gaps_rule=nats["BERT"],
    gaps=nats["always [MASK]"],
)

# %% [markdown]
# So it is not for want of training: both fill gaps equally well. (After 1,000 updates the second gave a visible token 0.16 to 0.27,
# in three trainings; where the other tokens tell the answer, it learns to give it.) Does this matter for a later task? Less than
# one might think. In the BERT paper (appendix C.2), fine-tuning is about as good after [MASK] alone; only frozen states get worse,
# by 0.9 points in named-entity recognition. Wettig et al. (2023, https://arxiv.org/abs/2202.08005) find [MASK] alone even better on
# most tasks.
#
# ## What heads attend to
#
# Clark et al. (2019, https://arxiv.org/abs/1906.04341) summarised each of the 144 heads of BERT-base by a few numbers. With weights $\alpha_{ij}$ of token $i$ on
# token $j$ and the set $D$ of delimiters, such as [SEP], averaged over the real tokens $i$ of a batch:
#
# $$\text{previous } \alpha_{i,i-1} \quad \text{current } \alpha_{i,i} \quad \text{following } \alpha_{i,i+1} \quad \text{delimiters } \sum_{j \in D} \alpha_{ij} \quad \text{entropy } -\sum_j \alpha_{ij} \log \alpha_{ij}$$
#
# | name | shape |
# | --- | --- |
# | `weights` | (B, h, T, T); rows of padding may contain anything and do not count |
# | `delimiters`, `lengths` | (B, T) bool, (B,) |
# | result | `HeadStatistics(previous, current, following, delimiters, entropy)`, (h,) each; previous and following are averaged over the tokens that have such a neighbour |

# %% exercise="08.7" difficulty="●●●" minutes=20
from course_lib.analysis import head_statistics

# %% tags=["nbval-check-output"]
head_statistics = check("08.7", head_statistics)

# %% [markdown]
# If you have the weights of a published BERT, set `CHECKPOINT` to the path of its folder (`bert-base-uncased`: config.json,
# model.safetensors, vocab.txt); no code from it is run. Otherwise the figure shows our pre-trained BERT.

# %%
CHECKPOINT = ""
looked_at = (
    figures.published_bert(CHECKPOINT, segment_input)
    if CHECKPOINT
    else figures.inspected(pretrained, texts_of_study, days)
)
figures.show_head_statistics(
    figures.attention_heads(looked_at, CHECKPOINT or "the pre-trained BERT"),
    head_statistics,
)

# %% [markdown]
# In BERT-base, some heads put more than half of their weight on the previous token, others on the next, and many of the middle layers
# on [SEP]. Clark et al. read the latter as doing nothing: there, changing the weight on [SEP] hardly changes the output.
#
# ## Heads for other tasks, and pieces of words
#
# The encoder stays and the head changes. A **tag** head classifies every token. A **span** head finds where an answer starts and
# ends in a passage (SQuAD), by the dot products of two learned vectors $S$ and $E$ with the final state $T_i$ of each token:
#
# $$p(\text{tag of } i) = \mathrm{softmax}(W T_i + b) \qquad p(\text{start} = i) = \mathrm{softmax}_i(S \cdot T_i) \quad p(\text{end} = i) = \mathrm{softmax}_i(E \cdot T_i)$$
#
# BERT's tokens are **word pieces** (Wu et al. 2016, section 4.1, https://arxiv.org/abs/1609.08144). A word is cut from left to right, each time by the longest piece of
# the vocabulary that fits; `##` marks a piece that continues a word. A word of which some part fits no piece becomes [UNK].

# %%
vocabulary = {"mar", "##s", "##ca", "##zo", "de", "##zem", "##ber", "##em", "##bre"}
for word in ("mars", "marca", "marzo", "dezember", "decembre"):
    print(word, "→", *word_pieces(word, vocabulary))

# %% [markdown]
# ## Build it
#
# **Build task (30 minutes, 12 points).** Starting from an empty cell, write a small encoder, the masking, the pre-training loop
# and the fine-tuning. A row of tokens is [CLS] (index 1), pieces (3 or larger), [SEP] (2) and padding (0), without segments.
# The texts are lists of display names in eight languages; [MASK] is `n_tokens - 1`. Choose 15 % of the pieces. You may use `torch.nn`, but not the library's `BERT` or `PretrainingBERT`.
#
# The check calls `train_bert(passages, names, labels, known, n_tokens, n_classes, n_steps)` once: about 2,000 passages, 240
# names with 40 known labels, and `n_steps=460` updates, of which at least the first three quarters are pre-training. **The
# labels of the other 200 names are false on purpose.** Your function never gets the held-out names. It has at most 60 seconds
# of processor time; a good answer needs about ten. Pre-train with batches of 24 to 64 and Adam at 0.001 to 0.01, warmed up over the
# first tenth and then lowered to 0, and fine-tune with 0.001 to 0.003. So few updates make the accuracy depend on the rate: the
# last point can therefore also be earned by the pre-training itself.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) to logits of the classes (B, n_classes) |
# | 1 | at most `n_steps` updates and at most 150,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during the pre-training (or the score is reached without it) |
# | 1 | the returned model gives the same logits for the same names |
# | 1 | [CLS], [SEP] and padding are never replaced, in the first 40 calls of the model |
# | 1 | in these calls 12 % of the pieces are [MASK] and 1.5 % another piece (whether another 1.5 % stay unchanged is not graded) |
# | 1 | the loss is averaged over the chosen tokens only: if it included visible tokens, it would fall far lower |
# | 1 | the logits of a name depend on neither padding nor the other names of the batch |
# | 1 | *attention*: the logits depend on attention weights, which sum to 1 over the keys; with equal weights in their place they change; no state is carried beside them |
# | 1 | accuracy on new names: at least 0.25, twice that of a guess |
# | 1 | the loss of the pre-training falls to that of the frequencies of the pieces, 5.4 nats (0.1 more is allowed), and the model that it trained is the one fine-tuned; or the accuracy is at least that of naive Bayes on the pieces of the 40 labelled names, 0.4 to 0.5 |

# %% exercise="08.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_08.train_bert import train_bert

# %% tags=["nbval-check-output"]
train_bert = check("08.8", train_bert)

# %% [markdown] tags=["companion", "guard"]
# ## Decks
#
# *EE* is EE-559 13.2, *RK* RKMVERI, *CS* CSE 891, *IT* ITMO lecture 7, *GA* Gaïffas lecture 8.
#
# **Errata of the decks.**
#
# - *RK*: QQP asks "if two questions are semantically *different*". It asks whether they are the *same*: class 1 is a duplicate
#   (Devlin et al., appendix B.1, "semantically equivalent"). The difference matters for F1, which counts only one class.
# - *RK* and the figure in *EE*: the two models of ELMo "are trained independently". They share the embedding and the output
#   matrix and are trained on the sum of both losses; only their layers are independent.
# - *CS* on ELMo: "Concatenate final layer output". It mixes all layers by a softmax (eq. 1); the concatenation is that of the
#   two directions.
# - *EE*: 15 % of the words "have been replaced with a MASK token". In fact 12 % have. *GA* states the percentages correctly.
# - *IT*: BERT masks "random words (N-grams/sentences)". In fact it masks subword pieces, each independently. Whole words and
#   spans came later, and whole sentences in other models (PEGASUS).
# - *CS* cites BERT as EMNLP 2018. It appeared at NAACL 2019.
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | RK | Earlier models | ELMo: two language models | `course_lib.models.ELMo` |
# | CS | Transformer Variants: GPT, ELMo, BERT | ELMo: two language models | `course_lib.models.ELMo`, `course_lib.models.scalar_mix` |
# | RK | Pre-training BERT: Task 1 | 3 Hide the answer, not the context | `course_lib.losses.mask_tokens`, `course_lib.losses.mlm_loss` |
# | GA | Self-supervised learning: masked language modeling | 3 Hide the answer, not the context | `course_lib.losses.corrupt` |
# | IT | Transformer-based models for text problems: BERT | 3 Hide the answer, not the context | `course_lib.models.PretrainingBERT` |
# | RK | Input representation | 4 Two sentences as one | `course_lib.losses.segment_input` |
# | RK | Pre-training BERT: Task 2 | Next-sentence prediction | `course_lib.losses.nsp_pairs` |
# | RK | BERT | 5 A whole BERT, trained beside a GPT | `course_lib.models.BERT` |
# | EE | Transformers trained on NLP tasks: BERT | 5 A whole BERT, trained beside a GPT | `course_lib.models.BERT` |
# | CS | The Transformer: Transfer Learning | 7 Fine-tuning: labels in one language | `course_lib.models.classification_head` |
# | RK | Pre-training → Fine-Tuning | 7 Fine-tuning: labels in one language | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: fine-tuning | Heads for other tasks, and pieces of words | `course_lib.models.TagHead`, `course_lib.models.SpanHead` |
# | RK | GLUE Benchmark | Heads for other tasks, and pieces of words | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: what BERT's heads look at | What heads attend to | `course_lib.analysis.head_statistics` |

# %% tags=["ledger"]
ledger()
