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
# BERT learns from unlabelled text by predicting masked tokens from the context on both sides; then it is fine-tuned with a few
# labels.
#
# ![](diagram:bert_heads)
#
# You will write ELMo's mixture and BERT's masking, input, loss and heads, pre-train a small BERT on names without labels,
# fine-tune it to recognise eight languages from five labels each, and find out where the gain comes from.
#
# **Prerequisites:** lectures 04 (self-attention), 05 (the Transformer) and 07 (GPT). **Time:** {minutes}. {measured}


# %%
import math
from statistics import mean

from course_lib.datasets import display_names
from course_lib.datasets.display_names import LANGUAGES
from course_tools.notebook import check, claim, explore, ledger, predict
from course_tools.notebook import show_study

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 Both sides of a gap
#
# Software displays the names of places and time zones in many languages: *heure normale d'Europe centrale*, *keskinen
# normaaliaika*. Take such a name and hide one letter. GPT reads from left to right and can use only what comes **before** the
# letter. A human reader uses both sides.
#
# Two count tables, as in lecture 07, measure the difference. Both have a context of four letters: one uses the four letters
# before the gap, the other two before it and two after it.

# %% [markdown] tags=["predict"]
# **Predict.** Both contexts have four letters. Does it take as many bits, fewer or more to predict the missing letter from two
# letters on either side than from the four letters before it?
#
# <details><summary>A. About as many: four letters are four letters.</summary>
#
# A letter depends most on its direct neighbours: the two letters after it tell more than the third and fourth before it
# (08.a).</details>
# <details><summary>B. Clearly fewer.</summary>
#
# Yes. Both contexts have the two letters before the gap; the two after it tell more than the third and fourth before
# it.</details>
# <details><summary>C. More: languages are written from left to right.</summary>
#
# They are written in that direction, but the statistics of neighbouring letters do not depend on it.</details>

# %%
names = display_names(5, 60, seed=SEEDS[0])
texts = [name.text for name in names.train]
print(
    f"{len(names.train):,} names to learn from, {len(names.test)} to test on, in "
    f"{len(LANGUAGES)} languages"
)
for name in names.train[::250]:
    print(f"{LANGUAGES[name.language]}  {name.text}")

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_08.name_languages import bits_of_a_missing_letter

new_texts = [name.text for name in names.test]
one_side = bits_of_a_missing_letter(texts, new_texts, order=(0, 1, 2, 3, 4))
both_sides = bits_of_a_missing_letter(texts, new_texts, order=(0, 4, 1, 3, 2))
claim("08.a", difference=one_side - both_sides)

# %%
print(
    f"a missing letter costs {one_side:.2f} bits from the four before it, "
    f"{both_sides:.2f} from two on either side"
)

# %% [markdown]
# ## 2 ELMo: two language models
#
# Why not train one language model on both sides? It would see its target: from the second layer on, the states of the
# neighbours of a word contain information about the word itself. **ELMo** therefore trains *two* language models, LSTMs that
# read in opposite directions, and concatenates their states for each word. A task then uses all layers $j$ of a word $k$, mixed
# by learned weights $s_j$ and scaled by a learned $\gamma$ (Peters et al., eq. 1):
#
# $$\mathrm{ELMo}_k = \gamma \sum_{j} s_j\, h_{k,j} \qquad s = \mathrm{softmax}(w) \qquad h_{k,j} = [\overrightarrow{h}_{k,j};\ \overleftarrow{h}_{k,j}]$$
#
# | name | shape |
# | --- | --- |
# | `layers` | (…, n_layers, d): the embedding and each layer, for each word |
# | `w`, `gamma` | (n_layers,), () |
# | result | (…, d) |
#
# ![](diagram:elmo)

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.models import ELMo

# %% exercise="08.1" difficulty="●○○" minutes=8
from course_lib.models import scalar_mix

# %% tags=["nbval-check-output"]
scalar_mix = check("08.1", scalar_mix)

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_08.experiments import changes_with_the_future

torch.manual_seed(SEEDS[0])
elmo = ELMo(50, 16, 2)
changed = changes_with_the_future(elmo, scalar_mix, SEEDS[0])
claim("08.b", logits=changed.logits)
claim("08.c", n_features=changed.n_features)

# %% [markdown]
# Each direction is a deep network, but the two are combined only at the output. Half of the features depend on one side, half
# on the other, and no layer combines a word on the left with one on the right.
#
# ## 3 Masked language modelling
#
# **BERT** uses both sides in every layer and hides the target by *removing* it from the input. Of the tokens (subword pieces),
# 15 % are **chosen**, and the model predicts only these. The table shows what replaces a chosen token:
#
# | fraction of the chosen tokens | becomes | `fate` |
# | --- | --- | --- |
# | 80 % | [MASK] | < 0.8 |
# | 10 % | a random token | 0.8 … 0.9 |
# | 10 % | itself, unchanged | ≥ 0.9 |
#
# All randomness is passed in as tensors of numbers between 0 and 1: a token is chosen where `choice` is below `rate`, and
# `fate` decides what it becomes. The special tokens [CLS] and [SEP] (section 4) and padding are not `eligible`.

# %%
from jaxtyping import Bool

from course_lib.datasets import BytePairs, Vocabulary
from course_lib.losses import Masked
from course_lib.shapes import Tokens

# %% exercise="08.2" difficulty="●●○" minutes=12
from course_lib.losses import corrupt

# %% tags=["nbval-check-output"]
corrupt = check("08.2", corrupt)

# %% [markdown] tags=["predict"]
# **Predict.** The deck EE-559 writes: "[15 % of] words which have been replaced with a MASK token." What percentage of the
# tokens of a text *are* [MASK] after this procedure?
#
# <details><summary>A. 15 %.</summary>
#
# This is the percentage of tokens that are chosen.</details>
# <details><summary>B. 12 %.</summary>
#
# Yes, 80 % of 15 %. In total, about 13.5 % differ from the original text; it can be slightly less, since a random token may
# happen to be the right one.</details>
# <details><summary>C. 80 %.</summary>
#
# That is the percentage among the chosen tokens.</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_08.experiments import NamePretraining, corrupted

pieces = BytePairs.learn(texts, 600)
words = Vocabulary.of([pieces.cut(text) for text in texts], between=" ")
MASK = len(words)
print(pieces.cut(texts[300]), "|", pieces.cut("mitteleuropäische normalzeit"))

torch.manual_seed(SEEDS[0])
whole_text = torch.tensor(words.encode(pieces.cut(" ".join(texts))))[None]
masked = corrupted(corrupt, whole_text, MASK, rate=0.15)
claim("08.d", average=masked.chosen.float().mean())
claim("08.e", average=(masked.tokens == MASK).float().mean())

# %% [markdown]
# The loss is the cross-entropy of the *true* tokens, averaged over the set $C$ of all chosen positions of the batch, including
# those left unchanged:
#
# $$L = -\frac{1}{|C|} \sum_{(b,t) \in C} \log p(x_{b,t} \mid \text{corrupted text})$$
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens); the logits at t predict the token *at* t |
# | `tokens` | (B, T): the true tokens |
# | `chosen` | (B, T) bool |

# %%
import torch.nn.functional as F

# %% exercise="08.3" difficulty="●○○" minutes=6
from course_lib.losses import mlm_loss

# %% tags=["nbval-check-output"]
mlm_loss = check("08.3", mlm_loss)

# %% [markdown]
# ## 4 Sentence pairs
#
# Many tasks have *two* input texts: a question and a passage, or a claim and its evidence. BERT reads them as one sequence,
# `[CLS] first [SEP] second [SEP]`, and adds to every token an embedding of the segment it belongs to (Devlin et al., figure 2):
#
# $$h_0 = \mathrm{Norm}(E_{\text{token}} + S_{\text{segment}} + P_{\text{position}})$$
#
# `begin` is the index of [CLS], `separate` that of [SEP]. The result is `Segmented(tokens, segments)`, integer tensors of shape
# (T,): the segments are 0 up to and including the [SEP] after the first sentence, and 1 after it. The second sentence may be
# missing (None) or empty.
#
# ![](diagram:bert_input)

# %%
from jaxtyping import Int

from course_lib.losses import Segmented, SentencePairs

# %% exercise="08.4" difficulty="●●○" minutes=10
from course_lib.losses import segment_input

# %% tags=["nbval-check-output"]
segment_input = check("08.4", segment_input)

# %% [markdown]
# ### Bug hunt
#
# The function below searches for the boundary between the sentences, and its result is right for ordinary texts. What is
# wrong with it, and which text would show this? Decide before you run the check.

# %% exercise="08.4" bug="looks_for_the_separator"
from course_tools.bank.lecture_08.segment_input import (
    looks_for_the_separator as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("08.4", suspect)

# %% [markdown]
# BERT has a second task, **next-sentence prediction**: half of the pairs are consecutive sentences, and half have a random
# second sentence. Each sentence $i$ that is followed by another one in its document is the first of a pair. If the coin of the
# pair is below ½, the second is sentence $i+1$; otherwise it is number $\lfloor \text{pick} \cdot M \rfloor$ of the $M$
# sentences of all *other* documents (the last one if pick is 1).
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

# %%
from course_tools.lectures.lecture_08.data import NameTexts

made = NameTexts(pieces, words, segment_input, nsp_pairs)
made.print_pairs(names.train, SEEDS[0], 6)

# %% [markdown]
# ## 5 Pre-training
#
# We compare three kinds of pre-training on the same names, without labels: only masked tokens; masked tokens and next-sentence
# prediction (section 7); and masked tokens where every chosen token becomes [MASK] (section 10). In the first and the third,
# the second passage is always the true next one. Sections 6 and 7 add controls. The training calls your `corrupt` and your
# `mlm_loss`. The masking rate is 40 %, not 15 %: with only a few hundred steps, each step must have more targets. (Wettig et
# al. recommend higher rates for *large* models; we did not compare 15 % for ours.)

# %% [markdown] tags=["predict"]
# **Predict.** A masked piece is one of about six hundred, so in the first steps the loss is about $\ln 600 = 6.4$ nats. What is
# it at the end of training?
#
# <details><summary>A. Below 1: with context on both sides, a missing piece is nearly certain.</summary>
#
# In a long English sentence it often is. Here it is not, although the neighbours contain more information than the model learns
# to use: in a trial, a table of counts of neighbouring pieces within a name needed fewer nats than this model does after 500
# steps.</details>
# <details><summary>B. Between 4 and 5.5: the model learns which pieces are likely in the language of the passage, and little more.</summary>
#
# Yes. A single language has far fewer pieces to choose from than all eight together. At this budget the model learns little
# more, but this is exactly what section 6 needs.</details>
# <details><summary>C. The same as at the start: there is nothing to learn in names.</summary>
#
# There is: *▁heure* nearby makes *▁de* likely and *-zeit* unlikely.</details>

# %%
from course_lib.blocks import Sizes

sizes = Sizes(64, 4, 128, 2)
training = NamePretraining(made, corrupt, mlm_loss, sizes, steps=500, lr=4.5e-3)
pairs = {seed: made.pairs(names.train, seed, strangers=False) for seed in SEEDS}
masked_only = [training.pretrain(pairs[seed], seed) for seed in SEEDS]
training.show_losses({"masked pieces": masked_only})

# %% tags=["nbval-check-output"]
first, last = (
    mean(losses)
    for losses in zip(*((p.first_loss, p.last_loss) for p in masked_only), strict=True)
)
claim("08.f", ratio=first / math.log(MASK + 1))
claim("08.g", difference=first - last)

# %% tags=["try-it"]
# Try it: a piece of your choice is masked; the five likeliest predictions.
training.print_predictions(masked_only[0].model, "mitteleuropäische normalzeit", 4)

# %% [markdown]
# ## 6 Fine-tuning on five labels per language
#
# The task is to recognise the language of a name. **Fine-tuning** adds a small head on [CLS], whose state represents the whole
# text, and trains *all* weights on the few labels (Devlin et al., section 3.2):
#
# $$\text{logits} = W \tanh(W_p\, h_{[\mathrm{CLS}]} + b_p) + b$$
#
# | name | shape, as `torch.nn.Linear` stores it |
# | --- | --- |
# | `states` | (B, T, d_model): [CLS] is first |
# | `W_p`, `b_p` | (d_p, d_model), (d_p,) |
# | `W`, `b` | (n_classes, d_p), (n_classes,) |

# %%
from course_lib.models.bert_heads import BertStates

# %% exercise="08.6" difficulty="●○○" minutes=6
from course_lib.models import classification_head

# %% tags=["nbval-check-output"]
classification_head = check("08.6", classification_head)


# %%
from functools import partial

from course_tools.lectures.lecture_08.name_languages import fine_tune

tune = partial(fine_tune, classification_head)

# %% [markdown] tags=["predict"]
# **Predict.** There are forty labelled names, five in each of eight languages; chance is one in eight. Rank these models from
# worst to best: a BERT trained from scratch, a linear model on TF-IDF of letter n-grams, and a pre-trained BERT. BERT is
# trained for 150 steps from scratch, and fine-tuned for 60 steps after pre-training.
#
# <details><summary>A. The two BERTs, then TF-IDF: forty labels are too few for a network.</summary>
#
# For a network without pre-training, they are.</details>
# <details><summary>B. BERT from scratch, TF-IDF, pre-trained BERT.</summary>
#
# Yes. But a fair comparison gives the baselines the unlabelled names, too: we add TF-IDF followed by an SVD of the passages,
# and a naive Bayes classifier that knows which names share a document.</details>
# <details><summary>C. TF-IDF is far ahead of both: languages are recognised by their letters.</summary>
#
# They are, but forty names contain only a few of the letter groups that distinguish them.</details>

# %%
from course_tools.lectures.lecture_08.data import labelled, mixed_documents

mixed = mixed_documents(names.train, SEEDS[0])
one_name_each = made.one_name_each(names.train)
controls = {
    "mixed passages": [
        training.pretrain(made.pairs(mixed, seed, strangers=False), seed)
        for seed in SEEDS[:2]
    ],
    "one name each": [
        training.pretrain(one_name_each, seed, batch_size=8 * 16) for seed in SEEDS[:2]
    ],
}
training.show_losses({"passages of one language": masked_only[:2]} | controls)

# %%
from course_tools.notebook.fitting import show_losses
from course_tools.lectures.lecture_08.name_languages import with_shuffled_labels

draws = [labelled(names.train, seed) for seed in SEEDS]
few = {seed: made.alone(forty) for seed, forty in zip(SEEDS, draws, strict=True)}
models = {
    "from scratch": [
        tune(training.new_bert(seed), few[seed], seed, steps=150) for seed in SEEDS
    ]
}
for name, pretrained in ({"pre-trained": masked_only} | controls).items():
    models[name] = [
        tune(each.model.bert, few[seed], seed)
        for seed, each in zip(SEEDS, pretrained, strict=False)
    ]
models["labels shuffled"] = [
    tune(each.model.bert, with_shuffled_labels(few[seed], seed), seed)
    for seed, each in zip(SEEDS, masked_only, strict=True)
]
show_losses(models, "nats per name, fine-tuning")

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_08.name_languages import (
    CharacterNgrams,
    language_accuracy,
)
from course_tools.notebook.seed_scores import paired_differences, show_seeds

test = made.alone(names.test)
results = CharacterNgrams(names.train).accuracies(draws, names.test) | {
    name: [language_accuracy(model, test) for model in tuned]
    for name, tuned in models.items()
}
show_seeds(results, "accuracy on new names", across={"chance": 1 / len(LANGUAGES)})

of = {name: mean(scores) for name, scores in results.items()}
claim("08.h", of=of["pre-trained"])
least = min(paired_differences(results["pre-trained"], results["from scratch"]))
claim("08.i", least=least)
claim("08.j", difference=of["pre-trained"] - of["TF-IDF"])
claim("08.v", of=of["TF-IDF + SVD"])
least = min(paired_differences(results["pre-trained"], results["labels shuffled"]))
claim("08.k", least=least)
claim("08.w", difference=mean(results["pre-trained"][:2]) - of["mixed passages"])
claim("08.y", difference=mean(results["pre-trained"][:2]) - of["one name each"])
claim("08.x", of=of["naive Bayes + documents"])

# %% [markdown] tags=["predict"]
# **Where does the gain come from?** Pre-training reads passages of names from one document, all in one language, so it can
# learn which pieces occur *together* in a language. Two controls remove this: the names are shuffled across documents before
# pre-training (08.w), or the model reads one name at a time (08.y). In the figure, the gain then disappears: with the same two
# seeds, neither control is better in the mean than BERT from scratch, although the model that reads single names ends with the
# lowest masked loss: a low masked loss does not mean a useful state. The information lies in the document boundaries. Simpler
# methods use them, too: TF-IDF with an SVD of the same passages comes close to BERT (08.v, 08.h), and a naive Bayes classifier
# that first labels whole documents was better in the mean of our seeds, about 0.8 (08.x) against 0.7 (08.h). So the experiment
# shows *that* masked pre-training extracts this structure from unlabelled text, not that it extracts more than simpler methods
# do.
#
# ELMo uses a pre-trained model differently: the weights of the model stay fixed, the states of its layers become *features*
# (here their mean over the pieces), and only your mixture and a linear map are trained.
#
# **Predict.** Which layer gets the smallest weight in the mixture: the embedding, the middle layer or the top layer?
#
# <details><summary>A. The top layer: it is specialised in predicting masked tokens.</summary>
#
# This is often the case in deep models, whose middle layers serve other tasks better. Our model has only two layers.</details>
# <details><summary>B. The embedding.</summary>
#
# Yes. The embedding identifies the piece but contains nothing about its context.</details>
# <details><summary>C. All weights are equal.</summary>
#
# They are equal only at the start.</details>


# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_08.name_languages import fit_mixture

mixtures = [
    fit_mixture(scalar_mix, each.model.bert, few[seed], seed)
    for seed, each in zip(SEEDS, masked_only, strict=True)
]
untrained = [
    fit_mixture(scalar_mix, training.new_bert(seed), few[seed], seed) for seed in SEEDS
]
show_losses({"pre-trained": mixtures, "untrained": untrained}, "nats per name")
frozen, control = (
    mean(language_accuracy(mixture, test) for mixture in each)
    for each in (mixtures, untrained)
)
claim("08.l", frozen=frozen)
claim("08.l-untrained", difference=frozen - control)
weights = torch.stack([mixture.w.softmax(0) for mixture in mixtures]).mean(0)
print(
    "weight of each layer in the mixture:",
    ", ".join(f"{weight:.2f}" for weight in weights.tolist()),
    "\nfine-tuning all weights less frozen layers, mean of the seeds: "
    f"{of['pre-trained'] - frozen:.2f}",
)

# %% [markdown]
# ## 7 Next-sentence prediction
#
# We now pre-train on masked tokens and next-sentence prediction: a head on [CLS] predicts whether the second passage follows
# the first. A control has the same random passages without this prediction.

# %% [markdown] tags=["predict"]
# **Predict.** A random second passage comes from another document, which is nearly always in another *language*. So
# next-sentence prediction seems to need the same knowledge as the task of section 6. How does it change the accuracy on that
# task?
#
# <details><summary>A. It helps a lot: [CLS] learns to represent the language.</summary>
#
# It learns whether *two* passages belong together. For this, [CLS] need not represent which language they are in.</details>
# <details><summary>B. It helps a little: more training signal.</summary>
#
# The additional signal may have a cost: half of the passages now have a random neighbour. The third training of the next cell
# has such neighbours without the additional loss. What the loss itself changes is printed last; two seeds are too few to say
# whether other seeds would show it, too.</details>
# <details><summary>C. It does not help here.</summary>
#
# Yes: there is no gain; with both seeds and every draw of labels the accuracy is lower, by 0.12 in the mean (08.o). The
# published BERT kept the task; the authors of RoBERTa tested it again, on full-length text, and dropped it (Liu et al., table
# 2).</details>

# %%
kinds = {
    "masked tokens only": masked_only[:2],
    "masked tokens and next sentence": [
        training.pretrain(made.pairs(names.train, seed), seed, next_sentence=True)
        for seed in SEEDS[:2]
    ],
    "masked tokens only, random neighbours": [
        training.pretrain(made.pairs(names.train, seed), seed) for seed in SEEDS[:2]
    ],
}
training.show_losses(kinds)

# %%
six_draws = [
    [made.alone(labelled(names.train, 10 * seed + i)) for i in range(3)]
    for seed in SEEDS[:2]
]
by_kind = {
    kind: [
        tune(each.model.bert, draw, i)
        for each, of_seed in zip(pretrained, six_draws, strict=True)
        for i, draw in enumerate(of_seed)
    ]
    for kind, pretrained in kinds.items()
}
show_losses(by_kind, "nats per name, fine-tuning")
languages = {
    kind: [language_accuracy(model, test) for model in tuned]
    for kind, tuned in by_kind.items()
}
show_seeds(languages, "accuracy on new names", "two seeds, three draws of labels each")

# %% tags=["nbval-check-output"]
average = mean(
    training.next_sentence_accuracy(each.model, names.test, 99)
    for each in kinds["masked tokens and next sentence"]
)
claim("08.n", average=average)
difference = mean(languages["masked tokens and next sentence"]) - mean(
    languages["masked tokens only"]
)
claim("08.o", difference=difference)
of_the_loss = paired_differences(
    languages["masked tokens and next sentence"],
    languages["masked tokens only, random neighbours"],
)
print(
    "accuracy on new names, with next sentence less random neighbours without it: "
    f"mean {mean(of_the_loss):+.3f}, by seed and draw",
    ", ".join(f"{gap:+.3f}" for gap in of_the_loss),
)

# %% [markdown]
# ## 8 A head for each task
#
# The encoder stays the same and the head changes with the task (Devlin et al., figure 4). You have already seen a **sentence**
# head and a **pair** head. A **tag** head classifies every token (CoNLL: of which kind of name, if any, is this word part?). A
# **span** head predicts where an answer starts and where it ends (SQuAD), with two learned vectors $S$ and $E$ whose dot
# products with each token's final state $T_i$ give the scores:
#
# $$p(\text{tag of } i) = \mathrm{softmax}(W T_i + b) \qquad p(\text{start} = i) = \mathrm{softmax}_i(S \cdot T_i) \quad p(\text{end} = i) = \mathrm{softmax}_i(E \cdot T_i)$$
#
# For both tasks, the text consists of two names in two languages, one after the other. In the tag task, the label of *each*
# piece is its language. In the span task, the question is the code of a language, such as `fi`, and the answer is the name in
# *that* language. The tags are learned from the forty labelled names, the spans from all names of the training set with their
# languages. We compare a pre-trained encoder with an untrained one after the same number of steps.

# %% [markdown] tags=["predict"]
# **Predict.** Which of the two tasks gains from pre-training?
#
# <details><summary>A. Only the span task: in the tag task, every piece of a text has a label.</summary>
#
# Every piece has a label, but forty names contain few pieces, and an untrained encoder has no information about the
# others.</details>
# <details><summary>B. Both.</summary>
#
# Yes, with the one seed that we tried. One possible reason, not tested here: a pre-trained encoder knows which pieces occur
# together in a language.</details>
# <details><summary>C. Neither: the heads are untrained in both cases.</summary>
#
# The heads are only a small part of the model.</details>


# %%
from course_lib.models import SpanHead, TagHead
from course_tools.lectures.lecture_08 import experiments

torch.manual_seed(SEEDS[0])
tasks = {
    "tags": (
        TagHead(sizes.d_model, len(LANGUAGES)),
        *(experiments.tag_loss, made.two_names(draws[0], 1_000, 1), 100),
    ),
    "spans": (
        SpanHead(sizes.d_model),
        *(experiments.span_loss, made.two_names(names.train, 4_000, 1), 200),
    ),
}
starts = {
    "from scratch": training.new_bert(SEEDS[0]),
    "pre-trained": masked_only[0].model.bert,
}
headed = {
    (task, start): experiments.fit_with_head(bert, *parts, seed=SEEDS[0], label=task)
    for task, parts in tasks.items()
    for start, bert in starts.items()
}
show_losses(
    {", ".join(name): model for name, model in headed.items()},
    "nats per tag, or per pair of ends",
)

# %% tags=["nbval-check-output"]
two_names = made.two_names(names.test, 300, 2)
score = {"tags": experiments.tag_accuracy, "spans": experiments.span_accuracy}
found = {name: score[name[0]](model, two_names) for name, model in headed.items()}
show_seeds(
    {", ".join(name): [accuracy] for name, accuracy in found.items()},
    "accuracy on new texts of two names",
)
claim("08.p", difference=found["tags", "pre-trained"] - found["tags", "from scratch"])
claim("08.q", difference=found["spans", "pre-trained"] - found["spans", "from scratch"])

# %% [markdown]
# The pair head is that of next-sentence prediction: the head of exercise 08.6 on [CLS]. All nine tasks of GLUE use a
# sentence head or a pair head.
#
# ## 9 What heads attend to
#
# Clark et al. analysed all 144 heads of BERT-base and summarised each by a few numbers. Let $\alpha_{ij}$ be the weight with
# which token $i$ attends to token $j$, and $D$ the set of delimiters, such as [SEP]. Each statistic is averaged over the real
# tokens of a batch:
#
# $$\text{previous } \alpha_{i,i-1} \quad \text{current } \alpha_{i,i} \quad \text{following } \alpha_{i,i+1} \quad \text{delimiters } \sum_{j \in D} \alpha_{ij} \quad \text{entropy } -\sum_j \alpha_{ij} \log \alpha_{ij}$$
#
# | name | shape |
# | --- | --- |
# | `weights` | (B, h, T, T); rows of padding may contain anything and do not count |
# | `delimiters`, `lengths` | (B, T) bool, (B,) |
# | result | `HeadStatistics(previous, current, following, delimiters, entropy)`, (h,) each; previous and following are averaged over the tokens that have such a neighbour |

# %%
from course_lib.analysis import HeadStatistics
from course_lib.shapes import Lengths

# %% exercise="08.7" difficulty="●●●" minutes=20
from course_lib.analysis import head_statistics

# %% tags=["nbval-check-output"]
head_statistics = check("08.7", head_statistics)

# %% [markdown]
# If you have the weights of a published BERT, set `CHECKPOINT` to the path of its folder (`bert-base-uncased`: config.json,
# model.safetensors, vocab.txt). The files are read without running any code from them, and the figures below then show that
# model. Otherwise they show our small model.


# %%
from course_tools.lectures.lecture_08.figures import (
    attention_heads,
    head_map,
    show_head_statistics,
)

CHECKPOINT = ""
heads = attention_heads(
    experiments.published_bert(CHECKPOINT, segment_input)
    if CHECKPOINT
    else training.inspected(masked_only[0].model, names.test),
    f"the published BERT in {CHECKPOINT}" if CHECKPOINT else "our small BERT",
    head_statistics,
)
show_head_statistics(heads)

# %% tags=["interactive"]
explore(
    head_map(heads),
    layer=(1, len(heads.weights)),
    head=(1, heads.weights[0].shape[1]),
    text=(1, len(heads.shown.tokens)),
)

# %% [markdown]
# In BERT-base, Clark et al. found heads that put at least half of their weight on the previous token, others that put it on the
# next token, and others, in the middle layers, on [SEP]. Our small model has no such heads: on average its heads attend
# broadly, as some do in BERT's lower layers; the head in the map above puts much of its weight on [CLS], which is not counted
# as a delimiter here. It has learned little about neighbouring pieces (section 5).

# %% [markdown] tags=["predict"]
# ## 10 Always [MASK]
#
# **Predict.** A model trained with *every* chosen token replaced by [MASK] also learns to predict masked tokens. What does it
# predict at a token that it can *see*? (The two losses in the next figure cannot be compared: with 80/10/10, a tenth of the
# chosen pieces stay visible and are easy to predict.)
#
# <details><summary>A. That token, because the model sees it.</summary>
#
# The model sees the token but was never trained to predict it there. Nothing in the loss relates the last state at a visible
# token to that token.</details>
# <details><summary>B. Another token, with little probability for the true one.</summary>
#
# Yes. The loss is computed only at [MASK]. The unchanged and the random tokens of the 80/10/10 rule force the model to predict
# at visible tokens too. The texts of a downstream task contain no [MASK]. How much accuracy this costs after fine-tuning is
# another question, which one model of each kind does not answer.</details>
# <details><summary>C. Nothing useful anywhere: it does not train.</summary>
#
# It trains: where a token is hidden, both models give the true one a little probability, as the figure shows. They differ far
# more where the token is visible: there, the loss of the second model has no targets.</details>


# %%
rules = {
    "80/10/10": masked_only[0],
    "always [MASK]": training.pretrain(pairs[SEEDS[0]], SEEDS[0], always=True),
}
training.show_losses({rule: [each] for rule, each in rules.items()})

# %% tags=["nbval-check-output"]
visible, hidden = (
    {
        rule: training.probability_of_truth(each.model, names.test, 99, hide)
        for rule, each in rules.items()
    }
    for hide in (False, True)
)
show_seeds(
    {f"visible, {rule}": [p] for rule, p in visible.items()}
    | {f"hidden, {rule}": [p] for rule, p in hidden.items()},
    "probability of the true piece",
)
ratio = visible["80/10/10"] / visible["always [MASK]"]
claim("08.t", ratio=ratio)
claim("08.u", ratio=ratio / (hidden["80/10/10"] / hidden["always [MASK]"]))

# %% [markdown]
# ## 11 WordPiece and running text
#
# So far the pieces were byte pairs, which are merged in the order in which they were learned. BERT uses **WordPiece** (Wu et
# al., section 4.1), which cuts a word from left to right and takes the longest piece of its vocabulary each time. A piece that
# continues a word is marked by `##`. The next cell cuts two names in both ways, with the same pieces. (This version, that of
# the uncased BERT, also drops accents.)

# %%
from course_lib.datasets import word_pieces
from course_tools.lectures.lecture_08.data import word_piece_vocabulary

vocabulary = word_piece_vocabulary(words.symbols[4:])
for text in ("mitteleuropäische normalzeit", "keskinen normaaliaika"):
    print("byte pairs ", pieces.cut(text))
    print("WordPiece  ", " ".join(word_pieces(text, vocabulary)), "\n")

# %% [markdown] tags=["predict"]
# Lists of names are not running text. The study `08_word_pieces` pre-trains a small BERT on plays by
# Shakespeare and fine-tunes it to recognise which of eight plays a passage of 64 word pieces comes from, with 5 or 10 labelled
# passages of each play. The vocabulary is learned from other plays, so many characters' names are cut into several pieces. The
# rivals are the same BERT without pre-training, the same BERT pre-trained on passages whose pieces are in random order, and
# logistic regression on TF-IDF, with and without an SVD of all unlabelled passages.
#
# **Predict.** Which order do you expect with ten labels per play, from the lowest accuracy to the highest?
#
# <details><summary>A. BERT from scratch, TF-IDF, pre-trained BERT.</summary>
#
# The pre-trained model has read all unlabelled passages, but a bag of words remains ahead (08.z-words). Perhaps plays differ
# most in names and other rare words, which TF-IDF counts directly.</details>
# <details><summary>B. BERT from scratch, pre-trained BERT, TF-IDF.</summary>
#
# Yes. On average, pre-training helps the network (08.z), but a bag of words remains ahead (08.z-words).</details>
# <details><summary>C. TF-IDF, then both BERTs at about the same accuracy.</summary>
#
# TF-IDF leads both BERTs, and on average pre-training adds to the accuracy of the network (08.z).</details>

# %% tags=["nbval-check-output"]
from course_tools.notebook.study_scores import print_scores, second_half_gain

plays = show_study("08_word_pieces")
print_scores(plays, "5 labels", "10 labels")
print(
    "loss of the masked pieces that the second half of the pre-training gains: "
    f"{second_half_gain(plays, 'pre-trained'):.2f} nats"
)
of_plays = {name: plays.mean(name, "10 labels") for name in plays.names}
least = min(
    paired_differences(
        plays.scores("pre-trained", "5 labels"),
        plays.scores("from scratch", "5 labels"),
    )
)
claim("08.z-five", least=least)
claim("08.z", difference=of_plays["pre-trained"] - of_plays["from scratch"])
difference = of_plays["pre-trained"] - of_plays["pre-trained, random order"]
claim("08.z-order", difference=difference)
claim("08.z-words", difference=of_plays["TF-IDF + SVD"] - of_plays["pre-trained"])

# %% [markdown]
# With five labels per play, the network gains a little from masked pre-training on every seed (08.z-five); with ten, it gains
# 0.10 and 0.08 with two seeds and nothing with the third (08.z). It gains less after pre-training on pieces in random order
# (08.z-order). This does not show that pre-training learned word order: its loss ends at the same value with and without the
# order of the pieces, and the control is fine-tuned on text unlike that of its pre-training.
#
# Logistic regression on TF-IDF is ahead of both BERTs (08.z-words). A possible reason, not tested here, is that passages of one
# play share names and other rare words, which TF-IDF counts directly. Our pre-training is short: 600 updates with 16 passages
# each, from eight plays. The published BERT learned from 3.3 billion words. This study does not show whether longer
# pre-training on more text would overtake TF-IDF. Each training used a single learning rate.
#
# ## 12 Build it
#
# **Build task (30 minutes, 12 points).** Starting from an empty cell, write a small encoder, the masking, the pre-training loop
# and the fine-tuning. A row of tokens is [CLS] (index 1), pieces (3 or larger), [SEP] (2) and padding (0), without segments.
# The check has a smaller vocabulary than the lecture, so [MASK] is `n_tokens - 1`, not `MASK`. Choose 15 % of the pieces. You
# may use `torch.nn`, but not the library's `BERT` or `PretrainingBERT`.
#
# The check calls `train_bert(passages, names, labels, known, n_tokens, n_classes, n_steps)` once: about 2,000 passages, 240
# names with 40 known labels, and `n_steps=460` updates, of which at least the first three quarters are pre-training. **The
# labels of the other 200 names are false on purpose.** Your function never gets the held-out names. It has at most 60 seconds
# of processor time; a good answer needs about ten.
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
# | 1 | *attention*: the logits depend on attention weights, which sum to 1 over the keys; with equal weights in their place they change |
# | 1 | accuracy on new names: at least 0.25, twice that of a guess |
# | 1 | accuracy on new names: at least that of naive Bayes on the pieces of the 40 labelled names, 0.4 to 0.5 |

# %% exercise="08.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_08.train_bert import train_bert

# %% tags=["nbval-check-output"]
train_bert = check("08.8", train_bert)

# %% [markdown]
# The next cell trains your BERT once more, on the passages and the forty labelled names of section 6 (first seed), and draws
# which languages it confuses; the correct answers are outlined. The models of section 6 were pre-trained on pairs of passages,
# with a masking rate of 40 %.

# %%
from course_tools.notebook.authorship import whose
from course_tools.lectures.lecture_08.name_languages import show_confusion
from course_tools.notebook.training_curve import trained_with_losses

tokens, _, _, labels = (part.cpu() for part in few[SEEDS[0]])
torch.manual_seed(SEEDS[0])
built = trained_with_losses(
    lambda: train_bert(
        made.unpaired(names.train),
        tokens,
        labels,
        torch.ones(len(labels), dtype=torch.bool),
        MASK + 1,
        len(LANGUAGES),
        460,
    ),
    f"{whose(train_bert)} BERT",
    "loss, nats",
)
with torch.no_grad():
    guesses, answers = built(test[0].cpu()).argmax(1), test[3].cpu()
show_confusion(guesses, answers, f"{whose(train_bert)} BERT")
print(
    f"accuracy: {whose(train_bert)} BERT {(guesses == answers).float().mean():.2f}; "
    + ", ".join(
        f"{name} {results[name][0]:.2f}"
        for name in ("pre-trained", "TF-IDF", "from scratch")
    )
)

# %% [markdown] tags=["quiz"]
# ## 13 Exit quiz
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
# **Question 2.** In each step, GPT learns from every token and BERT from 15 % of the tokens. What does BERT get in return?
#
# <details><summary>A. A model that generates better text.</summary>
#
# It is not trained to generate from left to right: it expects tokens on both sides.</details>
# <details><summary>B. States that depend on both sides of each token, in every layer.</summary>
#
# Right. Tasks on a given text need such states; the price is more training steps.</details>
# <details><summary>C. Fewer parameters.</summary>
#
# The blocks have the same parameters.</details>
#
# **Question 3.** With shuffled labels, the accuracy of your fine-tuned BERT is at chance. What does that tell you?
#
# <details><summary>A. That its accuracy with the right labels comes from these labels.</summary>
#
# Right: with the same network, texts and steps, but without the right labels, the accuracy is far lower (08.k). This control
# cannot reveal whether test names are among the labelled names: they, too, would be learned with wrong labels.</details>
# <details><summary>B. That pre-training was useless.</summary>
#
# No network can learn what the labels do not contain.</details>
# <details><summary>C. That forty labels are too few.</summary>
#
# With the right labels it did well.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague pre-trains BERT on the support emails of your company and fine-tunes it to
# classify them; it is no better than TF-IDF. Write what you would measure, in order, to find out why.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | inspects the masked-token loss on *held-out* emails: has the model learned anything in pre-training, and is the loss still falling? |
# | 1 | compares with the same network trained from scratch, over several random choices of the labelled examples, before believing a difference |
# | 1 | varies the number of labels: pre-training pays off where labels are few |
# | 1 | asks whether single words decide the task, so that a bag of words suffices, and which simple method could use the unlabelled emails |
# | 1 | checks the pipeline (pieces, [CLS], segments, learning rate), and is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 14 Ledger
#
# **Errata of the decks** (*EE* is EE-559 13.2, *RK* RKMVERI, *CS* CSE 891, *IT* ITMO lecture 7, *GA* Gaïffas lecture 8):
#
# - *RK*: QQP asks "if two questions are semantically *different*". It asks whether they are the *same*: class 1 is a duplicate
#   (Devlin et al., appendix B.1, "semantically equivalent"). The difference matters for F1, which counts only one class.
# - *RK* and the figure in *EE*: the two models of ELMo "are trained independently". They share the embedding and the output
#   matrix and are trained on the sum of both losses; only their layers are independent.
# - *CS* on ELMo: "Concatenate final layer output". It mixes all layers by a softmax (eq. 1); the concatenation is that of the
#   two directions.
# - *EE*: 15 % of the words "have been replaced with a MASK token". In fact 12 % have (08.e). *GA* states the percentages
#   correctly.
# - *IT*: BERT masks "random words (N-grams/sentences)". In fact it masks subword pieces, each independently (08.IT). Whole
#   words and spans came later, and whole sentences in other models (PEGASUS).
# - *CS* cites BERT as EMNLP 2018. It appeared at NAACL 2019.
#
# **Remark.** *RK*: "a random sentence from the corpus": if sentences are drawn from *all* documents, some come from the same
# document (08.RK-NSP), and occasionally one is the true next sentence. The published code draws from another document, as your
# function does.
#
# **Limits of this lecture.** Two thousand names and eight plays are very small corpora, and the heads show none of the patterns
# that Clark et al. found. Pre-training on names gains because each document is in one language, and a simpler method with the
# same information was better in the mean of our seeds (08.x, 08.h). That next-sentence prediction does not help was measured on
# *these* passages only, where a random passage is nearly always in another language. Neither the tag task nor the span task is
# solved: both heads are trained for only a few steps.
#
# ## 15 Papers and decks
#
# **Papers.** Peters et al. 2018, *Deep contextualized word representations*, eq. 1 (https://arxiv.org/abs/1802.05365) · Devlin,
# Chang, Lee, Toutanova 2019, *BERT*, sections 3 to 4, figures 2 and 4, appendix A (https://arxiv.org/abs/1810.04805) · Clark,
# Khandelwal, Levy, Manning 2019, *What Does BERT Look At?*, section 3 (https://arxiv.org/abs/1906.04341) · Wettig et al. 2023,
# *Should You Mask 15 % in Masked Language Modeling?* (https://arxiv.org/abs/2202.08005) · Wu et al. 2016, *Google's Neural
# Machine Translation System*, section 4.1 (https://arxiv.org/abs/1609.08144) · Liu et al. 2019, *RoBERTa*, section 4.2
# (https://arxiv.org/abs/1907.11692).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | RK | Earlier models | 2 ELMo: two language models | `course_lib.models.ELMo` |
# | CS | Transformer Variants: GPT, ELMo, BERT | 2 ELMo: two language models | `course_lib.models.ELMo`, `course_lib.models.scalar_mix` |
# | RK | Pre-training BERT: Task 1 | 3 Masked language modelling | `course_lib.losses.mask_tokens`, `course_lib.losses.mlm_loss` |
# | GA | Self-supervised learning: masked language modeling | 3 Masked language modelling | `course_lib.losses.corrupt` |
# | IT | Transformer-based models for text problems: BERT | 3 Masked language modelling | `course_lib.models.PretrainingBERT` |
# | RK | Input representation | 4 Sentence pairs | `course_lib.losses.segment_input` |
# | RK | Pre-training BERT: Task 2 | 4 Sentence pairs | `course_lib.losses.nsp_pairs` |
# | RK | BERT | 5 Pre-training | `course_lib.models.BERT` |
# | EE | Transformers trained on NLP tasks: BERT | 5 Pre-training | `course_lib.models.BERT` |
# | CS | The Transformer: Transfer Learning | 6 Fine-tuning on five labels per language | `course_lib.models.classification_head` |
# | RK | Pre-training → Fine-Tuning | 6 Fine-tuning on five labels per language | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: fine-tuning | 8 A head for each task | `course_lib.models.TagHead`, `course_lib.models.SpanHead` |
# | RK | GLUE Benchmark | 8 A head for each task | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: what BERT's heads look at | 9 What heads attend to | `course_lib.analysis.head_statistics` |
#
# </details>

# %% tags=["nbval-check-output"]
f1 = [2 * share * 0.8 / (2 * share * 0.8 + 0.2) for share in (0.37, 0.63)]
claim("08.RK-QQP", difference=f1[1] - f1[0])


def n_parameters(module):
    """The number of parameters."""
    return sum(p.numel() for p in module.parameters())


both_ways, backwards = n_parameters(elmo), n_parameters(elmo.backwards)
once_more = elmo.tokens.weight.numel() + elmo.bias.numel()
claim("08.RK-ELMo", added=2 * (both_ways - backwards) - both_ways, once_more=once_more)
layers = elmo(torch.randint(4, 50, (1, 9)), torch.tensor([9]))
lowest, top = (
    scalar_mix(layers, w, torch.ones(()))
    for w in torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
)
claim("08.CS", gap=(lowest - top).abs().max())
claim("08.RK-NSP", same_document_rate=made.same_document_rate(names.train))
asked = corrupted(corrupt, whole_text, MASK, rate=0.15).chosen[0]
quotient = (
    asked[1:] & asked[:-1]
).float().mean().item() / asked.float().mean().item() ** 2
claim("08.IT", quotient=quotient)

# %% tags=["ledger"]
ledger()
