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
# # 03 · Looking and reading
#
# Attention replaces the mean of many vectors by a weighted mean, and a query chooses the weights.
#
# ![](diagram:show_attend_and_tell)
#
# **One question runs through this lecture: when is a mean enough, and when does it help to choose the weights?** We ask it of
# images that are described word by word, and of documents that are classified. You will write the attention of *Show, Attend
# and Tell*, soft and hard, a document model with attention over words and sentences, and a captioner that learns which of two
# digits is on the left.
#
# **Prerequisites:** lectures 01 (LSTM) and 02 (additive scores, teacher forcing). **Time:** {minutes}. {measured}


# %%
from course_tools.notebook import check, claim, explore, ledger, predict
from course_tools.lectures.lecture_03.captions import CaptionExperiment, caption_task

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 An image in one vector
#
# Each of our images contains two handwritten digits, side by side or one above the other, and a caption describes them. We
# compose the images ourselves, so the right caption and the position of each digit are known. *Show and Tell* (Vinyals et al.)
# has two parts. The **encoder** is a convolutional network, trained to recognise single objects, that turns the image into a
# feature map. The map is reduced to **one vector**. The **decoder** is an LSTM that reads this vector as if it were the first
# word and then generates the caption.
#
# The next cell trains our encoder on digits in small windows and then freezes it; its map has 6 × 6 regions. Each region is a
# vector of 66 numbers: 64 features, and the row and column of the region.

# %%
task = caption_task(seed=SEEDS[0])
captioning = CaptionExperiment(task, SEEDS)
task.show_examples(3)

# %% [markdown] tags=["predict"]
# **Predict.** The vector is the **mean** of the 36 regions. For how many of 500 new images is the caption exactly right?
#
# <details><summary>A. Nearly all: the vector has 66 numbers, and there are only 200 captions.</summary>
#
# The size of the vector is not the problem. In a mean, every region has the same weight, wherever it is, and the mean of all
# rows and columns is the same in every image.</details>
# <details><summary>B. About one in four.</summary>
#
# Yes. The mean usually reveals *which* two digits are present (03.a), but little about their order or their relation. If the
# rest were guessed, about a quarter of the captions with both digits would be right. The models do somewhat better than that,
# so the mean tells a little about order or relation.</details>
# <details><summary>C. None: a mean of features contains no information.</summary>
#
# It does: a feature such as "there is a seven somewhere" is still in the mean.</details>


# %% tags=["nbval-check-output"]
by_mean = captioning.from_one_vector(lambda regions: regions.mean(1), lr=1e-2)
claim("03.a", least=min(by_mean.names_both))
print(
    "exact match from the mean, one number per seed: "
    + ", ".join(f"{share:.2f}" for share in by_mean.exact_match)
)

# %%
from course_tools.notebook.fitting import show_losses

show_losses(
    {
        "captioner: mean": by_mean.models,
        "encoder, one model: name a digit": task.classifier,
    }
)

# %% [markdown]
# ## 2 Soft attention over regions
#
# The mean gives each region the same weight, so it hardly tells which digit comes first. Xu et al. keep the regions $a_1 \dots
# a_L$ separate and choose the weights again before each word: the decoder scores the regions with its state $h$. In this
# section you write this step. The score is the additive one of lecture 02, with the state as the only query:
#
# $$e_i = v^\top \tanh(W_h h + W_a a_i) \qquad \alpha = \mathrm{softmax}(e) \qquad z = \sum_i \alpha_i a_i$$
#
# | name | shape |
# | --- | --- |
# | `regions`, `h` | (B, L, d_a), (B, n) |
# | `W_a`, `W_h`, `v` | (m, d_a), (m, n), (m,), for m hidden units |
# | context $z$, weights $\alpha$ | (B, d_a), (B, L) |

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import Attended, attend
from course_lib.models.captioner import Regions

# %% exercise="03.1" difficulty="●●○" minutes=10
from course_lib.models import soft_attention

# %% tags=["nbval-check-output"]
soft_attention = check("03.1", soft_attention)

# %% [markdown]
# ### Bug hunt
#
# The version below runs, and its weights sum to 1, but it attends to the same regions before every word. What is wrong
# with it, and why does the decoder's state have no effect? Decide before you run the check.

# %% exercise="03.1" bug="has_no_tanh"
from course_tools.bank.lecture_03.soft_attention import has_no_tanh as suspect

# %% tags=["nbval-check-output"]
suspect = check("03.1", suspect)

# %% [markdown]
# The next cell measures how much the state matters. It computes the weights over the regions of all new images from two random
# states, by your function and by the version above.

# %% tags=["nbval-check-output"]
from course_tools.bank.lecture_03.soft_attention import has_no_tanh
from course_tools.lectures.lecture_03.figures import change_of_weights

claim("03.c", change=change_of_weights(soft_attention, task.new_regions, SEEDS[0]))
claim("03.d", change=change_of_weights(has_no_tanh, task.new_regions, SEEDS[0]))

# %% [markdown]
# ## 3 Doubly stochastic attention
#
# The softmax makes the weights of each *word* sum to 1 over the regions. So that no region is ignored, Xu et al. also encourage
# the weights of each *region* to sum to 1 over the words of a caption. In this section you write the penalty that they add to
# the loss (eq. 14). For each caption it is
#
# $$\sum_{i=1}^{L} \Bigl(1 - \sum_{t=1}^{T} \alpha_{ti}\Bigr)^2$$
#
# You return its mean over the batch; the loss contains this with a factor $\lambda$. A square matrix of non-negative numbers
# whose rows *and* columns sum to 1 is called doubly stochastic.
#
# | name | shape |
# | --- | --- |
# | `weights` | (B, T, L) |
# | penalty | a scalar |

# %% exercise="03.2" difficulty="●○○" minutes=5
from course_lib.models import doubly_stochastic_penalty

# %% tags=["nbval-check-output"]
doubly_stochastic_penalty = check("03.2", doubly_stochastic_penalty)

# %% [markdown] tags=["predict"]
# **Predict.** Xu's images have 14 × 14 = 196 regions. For a caption of ten words, how small can the penalty become?
#
# <details><summary>A. 0: training minimises it.</summary>
#
# The weights of ten words sum to ten. They cannot give each of 196 regions a sum of 1.</details>
# <details><summary>B. About 10.</summary>
#
# The penalty is a sum over the *regions*, and nearly all of them get weights near 0.</details>
# <details><summary>C. About 176.</summary>
#
# Yes: at best every region gets 10/196, and 196 · (1 - 10/196)² remains. The penalty cannot produce sums of 1. In practice it
# favours weights whose *sum over the words* is spread evenly over the regions; each word may still attend to 19 or 20 regions
# of its own.</details>

# %% tags=["nbval-check-output"]
import torch.nn.functional as F

evenly = torch.full((1, 10, 196), 1 / 196)
claim("03.e", value=doubly_stochastic_penalty(evenly))
sharply = F.one_hot(torch.arange(10), 196)[None].float()
difference = doubly_stochastic_penalty(sharply) - doubly_stochastic_penalty(evenly)
claim("03.f", difference=difference)

# %% [markdown]
# ## 4 The same question for text: attention pooling
#
# We now ask the question of section 1 about text: is the mean of the word vectors enough to *classify* a document? A captioner
# can choose new weights before each word. A classifier gives one answer, so one learned query $u$ is enough, the same for all
# texts (Yang et al.). You write this pooling:
#
# $$u_t = \tanh(W h_t + b) \qquad \alpha_t = \frac{\exp(u_t^\top u)}{\sum_{t'} \exp(u_{t'}^\top u)} \qquad s = \sum_t \alpha_t h_t$$
#
# Sentences in a batch are padded. Padding gets weight 0; for an empty sentence, the context and all weights are 0.
#
# | name | shape |
# | --- | --- |
# | `values`, `mask` | (…, T, d_v), (…, T) bool, True = a real word |
# | `W`, `b`, `u` | (d_a, d_v), (d_a,), (d_a,) |
# | context, weights | (…, d_v), (…, T) |

# %%
from jaxtyping import Bool

from course_lib.shapes import Values

# %% exercise="03.3" difficulty="●●○" minutes=10
from course_lib.attention import pool

# %% tags=["nbval-check-output"]
pool = check("03.3", pool)

# %% [markdown]
# ## 5 Hierarchical attention
#
# A document is a list of sentences, and each sentence is a list of words. A hierarchical model therefore pools twice, with two
# queries: first the words of each sentence into a sentence vector, then the sentence vectors into a document vector. The weight
# of a word in the document is the product of its weight in the sentence and the weight of the sentence. You write both levels
# with your `pool`.
#
# | name | shape |
# | --- | --- |
# | `states`, `mask` | (B, S, T, d), (B, S, T) |
# | `words`, `sentences` | (W, b, u) each |
# | vector, weights of sentences, of words | (B, d), (B, S), (B, S, T) |
#
# ![](diagram:hierarchical)

# %%
from course_lib.models import PooledDocument
from course_lib.models.hierarchical import PoolWeights

# %% exercise="03.4" difficulty="●●○" minutes=10
from course_lib.models import compose_document

# %% tags=["nbval-check-output"]
compose_document = check("03.4", compose_document)

# %% [markdown]
# Is a mean enough for real documents? We use the docstrings of NumPy, SciPy and scikit-learn on this machine; the task is to
# predict which sub-package a text comes from. The next cell compares three models: Yang's complete model (a bidirectional GRU
# before each pooling, which uses your `pool`), the same model with means instead of attention, and a bag of words, which is the
# mean of all word vectors. Each is trained for 150 steps with three seeds.

# %%
from functools import partial

from course_lib.attention import mean_pool
from course_lib.models import Hierarchical
from course_lib.fast import stacked_bidirectional_gru
from course_tools.lectures.lecture_03.documents import (
    BagOfWords,
    PoolByFunction,
    TwoLevels,
    TwoMeans,
    docstring_experiment,
)

documents = docstring_experiment(SEEDS)
yang = partial(Hierarchical, *documents.sizes, 32, 24, run=stacked_bidirectional_gru)
attention, means = partial(PoolByFunction, pool), lambda d_v, d_a: mean_pool
fit = partial(documents.fit, steps=150)
readers = {
    "hierarchical attention": fit(partial(yang, pooling=attention), lr=5e-3),
    "the same with means": fit(partial(yang, pooling=means), lr=5e-3),
    "bag of words": fit(partial(BagOfWords, *documents.sizes, 48), lr=2e-2),
}
real = documents.compare(readers)

# %% tags=["nbval-check-output"]
from statistics import mean

claim("03.g", average=mean(real["hierarchical attention"]))
difference = mean(real["hierarchical attention"]) - mean(real["the same with means"])
claim("03.h", difference=difference)
difference = mean(real["bag of words"]) - mean(real["hierarchical attention"])
claim("03.i", difference=difference)

# %% [markdown] tags=["predict"]
# Here attention and means in the same model differ by less than 0.08 in accuracy over three seeds (03.h), and the bag of words
# is *more* accurate than the whole hierarchy (03.i). After 150 steps the training loss of both hierarchies is still about twice
# that of the bag of words (see the curves), so this compares models at a small budget. Single words such as *spectral*
# often indicate the topic. They can occur anywhere in the document, so a mean captures them as well.
#
# **Predict.** Now we compose documents in which **one sentence decides**. Each consists of eight sentences from eight
# docstrings. The word *nota* precedes one of them, and the task is to predict which sub-package *that* sentence comes from. The
# models have no recurrence, only word vectors and pooling. How accurate is the model that averages all words?
#
# <details><summary>A. As accurate as before: all the words are still there.</summary>
#
# They are, and so are the words of seven other sentences, with equal weight. The mean does not show which sentence a word came
# from.</details>
# <details><summary>B. Near the accuracy of always choosing the most frequent topic.</summary>
#
# Yes: the document contains several topics, and only about an eighth of its words are in the sentence that decides.</details>
# <details><summary>C. More accurate, because *nota* marks the sentence.</summary>
#
# In the mean of all words, *nota* is one word among all. A model must treat the sentences separately before it averages
# them.</details>


# %%
marked = documents.marked(3_000, 500)
fit = partial(marked.fit, steps=600, lr=4e-2)
one_decides = {
    "two levels of attention": fit(partial(TwoLevels, compose_document, *marked.sizes)),
    "two means, ReLU between": fit(partial(TwoMeans, nn.ReLU, *marked.sizes)),
    "mean of all words": fit(partial(BagOfWords, *marked.sizes, 48)),
    "two means, no ReLU": fit(partial(TwoMeans, nn.Identity, *marked.sizes)),
}
by_two_levels, by_relu, by_bag, by_linear = marked.compare(one_decides).values()

# %% tags=["nbval-check-output"]
claim("03.j", least=min(by_two_levels))
claim("03.k", difference=min(by_two_levels) - max(by_bag))
claim("03.k-relu", difference=min(by_relu) - max(by_linear))
lead = mean(by_two_levels) - mean(by_relu)
claim("03.k-lead", lead=lead)
least = min(marked.weight_of_the_mark(one_decides["two levels of attention"]))
claim("03.l", least=least)

# %%
marked.show_weights(one_decides["two levels of attention"])

# %% [markdown]
# Attention is not the only way to find the marked sentence. (In trials, the loss of attention first stayed on a plateau, whose
# length depended on the seed: one of 36 models had not left it after 400 steps, and had after 600. With our seeds it is too
# short to be visible in the curves.) Two means with a ReLU layer between them are less accurate (03.k-lead; in trials also
# after 3,000 steps, 0.65 against 0.72, and less so at a width of 256, 0.68), but far more accurate than without the ReLU
# (03.k-relu): a unit of this layer can respond to a topic only in a sentence that contains *nota*. Without the ReLU everything
# is linear, and two means amount to one weighted mean of all words. After 600 steps, both linear models are no better on new
# documents than always choosing the most frequent topic, although their training loss falls: they memorise the training
# documents. What matters is that each sentence is processed separately, by a nonlinear function, *before* the mean over the
# sentences.
#
# ## 6 One step of the captioner
#
# For documents, the mean of all words is enough where the evidence is spread over the document, and not where one sentence
# decides. In a caption, each word depends on a *different* region, and here the query changes from word to word. We
# return to images, and you write one step of *Show, Attend and Tell*. First, the model attends with its previous state. A
# **gate** $\beta$ scales the context, because a word such as "of" needs no information from the image. The LSTM reads the
# previous word and the gated context. The logits depend on the word, the new state and the context.
#
# $$\beta = \sigma(f h_{t-1} + b) \quad \hat z = \beta \sum_i \alpha_i a_i \quad h_t, c_t = \mathrm{LSTM}([E y; \hat z], h_{t-1}, c_{t-1}) \quad \text{logits} = L_o\,(E y + L_h h_t + L_z \hat z)$$
#
# | name | shape |
# | --- | --- |
# | `y`, `h`, `c`, `regions` | (B, d_y), (B, n), (B, n), (B, L, d_a) |
# | `attention` | as in 03.1 |
# | `gate` f, b | (1, n), (1,) |
# | `cell` W, U, b | (4n, d_y + d_a), (4n, n), (4n,) |
# | `readout` L_h, L_z, L_o | (d_y, n), (d_y, d_a), (n_tokens, d_y) |
#
# `y` is already embedded: it is $E y$ in the formula. $L_o$, $L_h$ and $L_z$ are matrices; $L$ without an index is still the
# number of regions.

# %%
from course_lib.models import CaptionStep
from course_lib.models.captioner import HiddenState
from course_lib.primitives import lstm_step

# %% exercise="03.5" difficulty="●●●" minutes=20
from course_lib.models import caption_step

# %% tags=["nbval-check-output"]
caption_step = check("03.5", caption_step)


# %% [markdown] tags=["predict"]
# ## 7 The experiment
#
# The library's `ShowAttendAndTell` repeats this step for each word; its state is initialised from the mean of the regions. Here
# your `caption_step` takes every step of such a model, in training too; 03.m compares the two. Four captioners get the same
# regions: as their mean (section 1), concatenated into one vector, as *means weighted by position*, and with attention before
# each word. The concatenated vector contains all the information: each region has its own slot, which encodes its position. The
# weighted means are one vector, too: for each feature $a$, after a ReLU, the means of $a$, $a$ · row and $a$ · column. A fifth
# gets them as its only region: it reads them again before each word, but has no weights to choose.
#
# **Predict.** The images and the number of steps are the same; the learning rate is chosen for each captioner. How do they
# rank by exact match?
#
# <details><summary>A. Concatenation first: it has all the information at once, without a softmax.</summary>
#
# It has all the information, but it must learn each digit separately in each of the 36 slots.</details>
# <details><summary>B. Attention first, then the means weighted by position, and the plain mean last.</summary>
#
# Yes, at this number of steps. With attention, each digit is learned once for all positions. The weighted means contain the
# order of the digits as well (03.o-order); the plain mean tells little about it.</details>
# <details><summary>C. Attention and the mean are equally good: both have weights that sum to 1.</summary>
#
# The mean has the same weights before every word; attention changes them from word to word.</details>


# %%
from course_tools.lectures.lecture_03.captions import position_weighted_means

one_vector = partial(captioning.from_one_vector, lambda r: r.flatten(1), lr=2e-3)
attentive, concatenated = captioning.with_attention(caption_step), one_vector()
by_position = captioning.from_one_vector(position_weighted_means, lr=5e-3, width=64)
read_again = captioning.with_one_region(caption_step, position_weighted_means)
matches = captioning.compare(
    {
        "mean": by_mean,
        "concatenated": concatenated,
        "weighted by position": by_position,
        "the same, before each word": read_again,
        "attention": attentive,
    }
)

# %% tags=["nbval-check-output"]
claim("03.m", difference=captioning.difference_to_library(attentive.models[0]))
claim("03.n", average=mean(matches["attention"]))
lead = mean(matches["attention"]) - mean(matches["concatenated"])
over_weighted = mean(matches["attention"]) - mean(matches["weighted by position"])
claim("03.o", lead=lead)
wide = one_vector(width=96, n_seeds=1)
claim("03.o-wide", difference=mean(matches["attention"]) - wide.exact_match[0])
claim("03.o-weighted", over_weighted=over_weighted)
difference = mean(matches["attention"]) - mean(matches["the same, before each word"])
claim("03.o-again", difference=difference)
claim("03.o-order", right_of_named=by_position.right_of_named())
claim("03.p", difference=mean(matches["attention"]) - max(matches["mean"]))

# %% [markdown] tags=["predict"]
# All three seeds converge here. With other seeds or on another machine, training may end with a model that attends to only one
# of the two digits; this is why the claims use means.
#
# The means weighted by position are strong rivals: where their captions name both digits, mostly the order is right, too
# (03.o-order). So the order does not require attention. With attention more captions are right (03.o-weighted), but on these
# seeds most of this lead is not due to its weights: if the decoder reads the same means again before each word, by the same
# `caption_step`, attention leads by 0.12 at most (03.o-again).
#
# The concatenated vector lacks no information, but the LSTM reads a projection of it to 24 numbers. With 96 numbers, one seed
# is far below attention, too (03.o-wide). A likely reason is that the same digit in another slot is a different input and must
# be learned again. These claims hold after 600 steps: the training losses of the rivals that read their vector once are then
# still above that with attention, so they prove no limit.
#
# ## 8 Attention maps
#
# Does the model attend to the right region? When it is about to name a digit, the centre of the region with the largest weight
# should lie in that digit's window, which is a ninth of the image. We measure how often it does.
#
# **Predict.** The training data do not contain the positions of the digits. How often does the model attend to the digit that
# it is about to name?
#
# <details><summary>A. About one time in nine: only the words were trained.</summary>
#
# The attention is trained too: the gradient of the loss of each word reaches the weights through the context.</details>
# <details><summary>B. Nearly always.</summary>
#
# Yes, on our seeds (03.q). Sometimes a model names a digit correctly while its largest weight is elsewhere: a small weight can
# be enough.</details>
# <details><summary>C. Always: otherwise it could not know the digit.</summary>
#
# It could: its state is initialised from the mean of all regions, which is often enough to name both digits (03.a).</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_03.figures import attends_to_named

corners = task.examples.test.corners
inside = [attends_to_named(m, task, corners) for m in attentive.models]
elsewhere = [attends_to_named(m, task, corners.roll(1, 0)) for m in attentive.models]
claim("03.q", average=mean(inside))
claim("03.r", difference=mean(inside) - mean(elsewhere))

# %%
from course_tools.lectures.lecture_03.figures import show_caption_weights

shown = captioning.right_caption_with("left", attentive)
show_caption_weights(attentive.models[0], task, shown)

# %% tags=["try-it"]
# Try it: two images overlaid, with up to four digits; and one whose second digit
# is erased.
from course_tools.lectures.lecture_03.captions import both_images, without_second_digit

new = task.examples.test
seen = task.regions_of(
    torch.cat([both_images(new, 0, 1), without_second_digit(new, 0)])
)
print(new.captions[:2], task.captions_by(attentive.models[0], seen))

# %% tags=["interactive"]
explore(partial(show_caption_weights, attentive.models[0], task), image=(0, 49))

# %% [markdown]
# ## 9 Hard attention
#
# Soft attention mixes all regions. **Hard** attention samples one region $s_t$ with the probabilities $\alpha_t$. Sampling is
# not differentiable, but the probability of a sample is. REINFORCE therefore increases the probability of those samples that
# made the caption more likely *than average* (Xu et al., section 4.1). It ascends the gradient
#
# $$\partial \log p(y \mid s) + \bigl(\log p(y \mid s) - b\bigr) \sum_t \partial \log \alpha_{t, s_t} + \lambda \sum_t \partial H(\alpha_t)$$
#
# The bracket is treated as a constant: no gradient passes through it. The baseline $b$ is an average of $\log p$: in the paper
# a moving average over the batches, in the measurement below each image's own expectation, $\sum_i \alpha_i \log p_i$. The
# entropy $H$, weighted by $\lambda$, discourages weights that concentrate on one region too early. Write the scalar whose
# gradient is *minus* this expression, averaged over the batch.
#
# | name | shape |
# | --- | --- |
# | `log_p`, `weights`, `looks` | (B,), (B, T, L), (B, T) integers: the $s_t$ |
# | `baseline`, `entropy_weight` | numbers $b$ and $\lambda$ |

# %%
from jaxtyping import Int

from course_lib.datasets import BEGIN, END, PADDING

# %% exercise="03.6" difficulty="●●○" minutes=15
from course_lib.losses import hard_attention_loss

# %% tags=["nbval-check-output"]
hard_attention_loss = check("03.6", hard_attention_loss)

# %% [markdown] tags=["predict"]
# **Predict.** Take one image, one word, and all 36 regions that could be sampled. Each region gives an estimate of the
# gradient with respect to the scores. How does the baseline change the *mean* and the *variance* of these estimates?
#
# <details><summary>A. Both become smaller: a smaller reward gives smaller steps.</summary>
#
# The mean cannot change: for any constant b, Σ α ∂ log α = ∂ Σ α = ∂ 1 = 0.</details>
# <details><summary>B. The mean stays the same, the variance becomes smaller.</summary>
#
# Yes. The estimate is unbiased for any b, and a good b reduces its variance.</details>
# <details><summary>C. The mean changes: the baseline is a bias.</summary>
#
# It would change if b depended on the sampled region, so b must not depend on it.</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_03.hard_attention import compare_baselines

compared = partial(compare_baselines, hard_attention_loss, soft_attention, caption_step)
one_image = compared(attentive.models[0].model, task, [shown])
claim("03.s", error_without=one_image.error_without)
claim("03.t", error_with=one_image.error_with)
untrained = compared(captioning.untrained(SEEDS[0]), task, range(20))
claim("03.u", ratio=untrained.variance_without / untrained.variance_with)

# %% [markdown] tags=["predict"]
# ## 10 Ablation: no positions
#
# **Predict.** We remove the positions of the regions: row and column are set to 0 everywhere. A captioner with attention is
# trained on these regions for as many steps as before. How accurate are its captions?
#
# <details><summary>A. As before: the weights contain the positions.</summary>
#
# *We* can read a position from the weights. The decoder gets only the weighted sum of the regions, which encodes what is there
# but not where.</details>
# <details><summary>B. Much less accurate: closer to the captions from the mean than to those with positions.</summary>
#
# Yes (03.v). Both digits are still mostly named (03.w), but the features hardly tell which of them comes first. The little
# information about positions that is left may come from the encoder's zero padding, which changes the features near the edge of
# the image.</details>
# <details><summary>C. None is right.</summary>
#
# Both digits can still be named (03.w).</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_03.captions import without_positions

no_positions = captioning.with_attention(caption_step, without_positions)
claim("03.v", difference=mean(matches["attention"]) - mean(no_positions.exact_match))
claim("03.w", average=mean(no_positions.names_both))

# %% [markdown]
# ## 11 When is a mean enough?
#
# This lecture compared a mean with attention three times. The next cell draws the losses of the captioners of sections 7 and
# 10, and the main results of this lecture.
#
# - **A mean is enough** where the evidence is everywhere: words throughout a docstring point to its topic, and after 150 steps
#   the simplest mean is the most accurate (03.h, 03.i).
# - **One learned query at each level is enough** where one part decides and the model can recognise it: the sentence marked by
#   *nota* (03.k). A nonlinear layer before the mean works, too, but after as many steps less accurately (03.k-relu, 03.k-lead).
# - **New weights before each word** help where each output depends on another part: more captions are right than from the mean
#   (03.p). But one vector of means weighted by position contains the order, too (03.o-order), and if it is read again before
#   each word, little is left for the weights to add here (03.o-again): with two digits, it is nearly enough.
# - **Weights alone are not enough.** The output gets the weighted mean and not the weights, so the values must contain whatever
#   the model has to output. Without positions, the captions still mostly name both digits (03.w), but hardly tell which comes
#   first.

# %%
from course_tools.notebook.seed_scores import show_seeds

show_losses(
    {
        "mean": by_mean.models,
        "concatenated": concatenated.models,
        "weighted by position": by_position.models,
        "the same, before each word": read_again.models,
        "attention": attentive.models,
        "no positions": no_positions.models,
    }
)
matches["no positions"] = no_positions.exact_match
answer = {
    "topic: bag of words": real["bag of words"],
    "topic: GRU, means": real["the same with means"],
    "topic: GRU, attention": real["hierarchical attention"],
    "one sentence: bag of words": by_bag,
    "one sentence: two means, ReLU": by_relu,
    "one sentence: attention": by_two_levels,
    "caption: mean": matches["mean"],
    "caption: weighted by position": matches["weighted by position"],
    "caption: weighted, before each word": matches["the same, before each word"],
    "caption: attention": matches["attention"],
    "caption: no positions": matches["no positions"],
}
show_seeds(
    answer, "accuracy or exact match", "held-out data, one point per trained model"
)

# %% [markdown]
# ## 12 Build it
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a captioner and its training loop. You may use your
# `soft_attention` and `caption_step`, but not the library's `ShowAttendAndTell` or `ShowAndTell`. You may add the penalty of
# section 3 to the loss, with a small factor. Define what you need above `train_captioner`, in the same cell.
#
# The returned model is called in two ways. `model(regions, caption)` reads the true words (teacher forcing) and gives logits.
# `model(regions)` has no caption, so it generates one by greedy decoding: it starts with `BEGIN`, and at each step it reads the
# word that it chose at the previous one. The caption includes `END`.
#
# The check calls `train_captioner(regions, captions, n_tokens, n_steps)` once, with 2,000 images and `n_steps=300`. An image
# has 25 regions of 13 numbers: for each digit, and for *none*, the score of a linear classifier, then the row and the column of
# the region. Take the sizes from `regions.shape`: the cell after the check uses other regions. No handwritten digit occurs in
# both the training and the held-out images. The function has at most 60 seconds of processor time; a good answer needs about
# five.
#
# | points | what is judged |
# | --- | --- |
# | 1 | with a caption, the model gives logits (B, T, n_tokens); without one, tokens |
# | 1 | at most `n_steps` updates and at most 100,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the model is updated, and the loss falls |
# | 1 | the returned model gives the same result for the same input |
# | 1 | the logits of a caption do not depend on the other images of the batch |
# | 1 | the logits at a position depend on the words up to there, and not on the word that they predict |
# | 1 | padding is never a target of the loss |
# | 1 | without a caption, the model outputs the word with the largest logit at each step, and reads it at the next |
# | 1 | held-out images: the accuracy of single words is at least 0.1 above that of the most frequent word at each position |
# | 2 | held-out images: exact match of the captions at least 0.25 (from the mean of the regions it is below 0.15) |

# %% exercise="03.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_03.train_captioner import train_captioner

# %% tags=["nbval-check-output"]
train_captioner = check("03.7", train_captioner)

# %% [markdown]
# The next cell runs `train_captioner` with 300 updates on the regions of section 1 and compares the captioner with those of
# sections 7 and 10, which were trained for 600 updates. The label tells you whose function ran: yours, or the library's if
# yours did not pass.

# %%
from course_tools.notebook.authorship import whose

built = captioning.exact_match_of(train_captioner, n_steps=300)
show_seeds(
    matches | {f"{whose(train_captioner)} captioner": [built]},
    "exact match",
    "captions of new images, one point per trained model",
)

# %% [markdown] tags=["quiz"]
# ## 13 Exit quiz
#
# **Question 1.** You replace the weights of *Show, Attend and Tell* by uniform ones, 1/L everywhere. What is left?
#
# <details><summary>A. Show and Tell with the mean, given again before every word.</summary>
#
# Right: the vector is the same each time, whatever the state. Only the gate still varies.</details>
# <details><summary>B. Nothing: without attention the model has no information about the image.</summary>
#
# The mean of the regions is still an input.</details>
# <details><summary>C. The same model, as training compensates for it.</summary>
#
# With these fixed features, training cannot restore an order that the mean removed.</details>
#
# **Question 2.** Why does the document model have two levels, words and sentences, and not one softmax over all words?
#
# <details><summary>A. Because one softmax over many words is too slow.</summary>
#
# It costs about the same.</details>
# <details><summary>B. A word's weight can then depend on its sentence.</summary>
#
# Right: it is the product of the two weights. In the second experiment of section 5, each word has the same vector in every
# sentence, so only the second level can give the words of the marked sentence a larger weight.</details>
# <details><summary>C. So that padding can be masked.</summary>
#
# Padding can be masked in one level just as well.</details>
#
# **Question 3.** A captioner gives the dog the largest weight when it outputs "dog". What does that prove?
#
# <details><summary>A. That it output "dog" because of that region.</summary>
#
# Not by itself: the state is initialised from the mean of all regions, and a region's features depend on its neighbours. Change
# the region and see whether the word changes.</details>
# <details><summary>B. That the region had the largest weight in the context before that word.</summary>
#
# Right, and no more.</details>
# <details><summary>C. That the model knows what a dog is.</summary>
#
# A weight is only a coefficient in a sum.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A hospital's captioner writes "no fracture", and its attention is on the corner of the
# X-ray where the name of the clinic is printed. Explain what the model may have learned, how you would test it, and what
# attention maps can and cannot contribute to such a test.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | names a shortcut: the clinic predicts the finding in the training data |
# | 1 | proposes an intervention: cover or exchange the corner, and compare the outputs |
# | 1 | proposes a split by clinic |
# | 1 | says that a weight is a coefficient of a sum, not a cause, with a reason from this lecture |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 14 Ledger
#
# **Erratum of a deck**, measured in the next cell (*IT* is ITMO lecture 7):
#
# - *IT* calls *Show and Tell* an "image captioning model with attention module". It has no such module: the image is read
#   once, before the first word, and exchanging it later changes nothing. Attention came with *Show, Attend and Tell*, on the
#   next slide.
#
# **Remarks on the papers.** Eq. 14 of *Xu et al.* encourages each region's weights to sum to 1 over the words. With fewer words
# than regions, no weights can do that (03.e). *Yang et al.* report that attention is better than averaging on reviews. On
# docstrings at our size, the means of three seeds differ by less than 0.08 (03.h); where one sentence decides, attention is
# better than the mean of all words (03.k).
#
# ## 15 Papers and decks
#
# **Papers.** Vinyals, Toshev, Bengio, Erhan 2015, *Show and Tell*, eqs. 10 to 12 (https://arxiv.org/abs/1411.4555) · Xu et al.
# 2015, *Show, Attend and Tell*, eqs. 1 to 14 (https://arxiv.org/abs/1502.03044) · Yang et al. 2016, *Hierarchical Attention
# Networks for Document Classification*, eqs. 5 to 10 (https://aclanthology.org/N16-1174) · Williams 1992
# (https://doi.org/10.1007/BF00992696).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** ITMO lecture 7.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | "Show and tell" (2015) | 1 An image in one vector | `course_lib.models.ShowAndTell` |
# | IT | Attention history: hierarchical attention | 5 Hierarchical attention | `course_lib.models.Hierarchical`, `course_lib.models.compose_document` |
# | IT | "Show, attend and tell" (2015) | 7 The experiment | `course_lib.models.ShowAttendAndTell` |
#
# </details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_03.errata import exchange_the_image

change = exchange_the_image(task, SEEDS[0])
claim("03.IT-1", show_and_tell=change.show_and_tell)
claim("03.IT-2", show_attend_and_tell=change.show_attend_and_tell)

# %% tags=["ledger"]
ledger()
