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
# A captioner that attends reads the image anew before each word, and its state chooses where.
#
# You will write the attention of *Show, Attend and Tell* and one step of its decoder, train it to caption images, and find out
# when a weighted mean is worth more than a mean. No later lecture needs this one.
#
# **Prerequisites:** lectures 01 (LSTM, the training loop) and 02 (additive scores, teacher forcing). **Time:** {minutes}.
# {measured}
#
# ![](diagram:show_attend_and_tell)

# %%
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import Attended, attend, pool
from course_lib.datasets import BEGIN, END, PADDING
from course_lib.losses import teacher_forced_loss
from course_lib.models import CaptionStep, PooledDocument, caption_step, soft_attention
from course_lib.models.captioner import HiddenState, Regions
from course_lib.models.hierarchical import PoolWeights
from course_lib.primitives import lstm_step
from course_lib.shapes import Values
from course_lib.training import batches
from course_tools.lectures.lecture_03 import captions, documents, figures
from course_tools.notebook import check, claim, device, explore, ledger
from course_tools.notebook import predict, source
from course_tools.notebook.fit import fit
from course_tools.notebook.recorded_studies import show_study

# %% [markdown]
# ## 1 An image in one vector
#
# Each image contains two handwritten digits, side by side or one above the other, and a caption describes them. The images are
# composed here, so the right caption and the place of each digit are known.
#
# A convolutional network, the **encoder**, turns an image into a map of 6 × 6 **regions**. Each region is a vector of 66
# numbers: 64 features, and its row and column. These run from −15 to 15: on a smaller scale, the decoder may learn later where to
# look. The encoder learned to recognise single digits and is fixed from here on.

# %%
task = captions.caption_task(seed=0)
task.show_examples(3)
source(captions.caption_task)

# %% [markdown]
# *Show and Tell* (Vinyals et al. 2015) reduces the map to **one vector**; an LSTM reads it and writes the caption. Which
# vector? Let us try the mean of the regions, with numbers. A region is (is it a three?, is it a seven?, column), and only two
# regions are not empty:
#
# | image | left region | right region | mean |
# | --- | --- | --- | --- |
# | *three left of seven* | (1, 0, −1) | (0, 1, 1) | (½, ½, 0) |
# | *seven left of three* | (0, 1, −1) | (1, 0, 1) | (½, ½, 0) |

# %% [markdown] tags=["predict"]
# **Predict.** A captioner reads only the mean of the 36 regions. What will its captions of new images get right?
#
# <details><summary>A. The digits and their order.</summary>
#
# The two means in the table are equal. No decoder can tell the two images apart.</details>
# <details><summary>B. The digits, but not their order.</summary>
#
# Yes. A feature that says "three" is in the mean wherever the three is. Which column belongs to which digit is lost.</details>
# <details><summary>C. Neither: a mean of 36 regions contains nothing.</summary>
#
# It contains how much of each feature the image has.</details>

# %% [markdown]
# The model follows. It is *Show, Attend and Tell* (Xu et al. 2015): before each word, `caption_step` reads a weighted mean of the
# regions. With `attention=False` the weights are equal, so it reads the plain mean; all else is the same. Sections 3 and 4 explain
# what is inside the step, with its gate and the matrices `L_h`, `L_z` and `L_o`; skip them until then.


# %%
class Captioner(nn.Module):
    """Writes a caption; before each word it reads a weighted mean of the regions."""

    def __init__(self, n_words, d_region, attention, d=64, d_word=24, m=32):
        super().__init__()
        self.embedding = nn.Embedding(n_words, d_word)
        self.first = nn.Linear(d_region, 2 * d)  # the state before the first word
        self.W_a = nn.Linear(d_region, m, bias=False)
        self.W_h = nn.Linear(d, m, bias=False)
        v = torch.randn(m) / m**0.5 if attention else torch.zeros(m)
        self.v = nn.Parameter(v, requires_grad=attention)  # 0: all scores are equal
        self.gate = nn.Linear(d, 1)
        self.cell = nn.LSTMCell(d_word + d_region, d)
        self.L_h = nn.Linear(d, d_word, bias=False)
        self.L_z = nn.Linear(d_region, d_word, bias=False)
        self.L_o = nn.Linear(d_word, n_words, bias=False)

    def matrices(self):
        """What `caption_step` takes: attention, gate, cell and readout."""
        cell = self.cell
        return (
            (self.W_a.weight, self.W_h.weight, self.v),
            (self.gate.weight, self.gate.bias),
            (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh),
            (self.L_h.weight, self.L_z.weight, self.L_o.weight),
        )

    def start(self, regions):
        return self.first(regions.mean(1)).tanh().chunk(2, dim=-1)  # h, c: (B, d)

    def step(self, y, h, c, regions):
        return caption_step(y, h, c, regions, *self.matrices())

    def forward(self, regions, caption):
        (h, c), steps = self.start(regions), []
        for y in self.embedding(caption).unbind(1):  # teacher forcing
            logits, h, c, *seen = self.step(y, h, c, regions)
            steps.append((logits, *seen))
        return [torch.stack(part, 1) for part in zip(*steps, strict=True)]  # (B, T, ·)

    @torch.no_grad()
    def write(self, regions, most=6):
        (h, c), words = self.start(regions), []
        word = torch.full((len(regions),), BEGIN, device=regions.device)
        for _ in range(most):  # greedy decoding
            logits, h, c, *_ = self.step(self.embedding(word), h, c, regions)
            word = logits.argmax(dim=-1)
            words.append(word)
        return torch.stack(words, 1)


# %% [markdown] tags=["quiz"]
# **Read the code.** Where does the image enter? What does `attention=False` change?
#
# <details><summary>Answer</summary>
#
# The regions enter twice: `start` computes the first state from their mean, and `caption_step` reads them before every word.
# `attention=False` sets $v$ to 0 and does not train it. Then every score is 0, and the softmax gives each region
# 1/36.</details>


# %%
def written(model, task, regions):
    """The captions that a model writes, as texts."""
    tokens = model.eval().write(regions.to(device()))
    return [task.words.decode(row) for row in tokens.tolist()]


def next_word_loss(model, regions, caption):
    """The mean cross-entropy of the next words."""
    return teacher_forced_loss(model(regions, caption)[0], caption, PADDING)


def learn(model, task, regions, new, steps, lr=6e-3, loss=next_word_loss):
    """Train with Adam; return updates -> exact match on new images."""
    model.to(device())
    optimizer, right = torch.optim.Adam(model.parameters(), lr), {}
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    data = regions.to(device()), task.captions.to(device())
    stream = batches(*data, batch_size=32, seed=0)
    for update, (seen, caption) in zip(range(1, steps + 1), stream, strict=False):
        value = loss(model.train(), seen, caption)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        if update == 1 or update % (steps // 6) == 0:
            right[update] = task.exact_match(written(model, task, new))
    right[steps] = task.exact_match(written(model, task, new))
    return right


# %%
n_words, d_region = len(task.words), task.regions.shape[-1]
torch.manual_seed(0)
even = Captioner(n_words, d_region, attention=False)
right = {"read evenly": learn(even, task, task.regions, task.new_regions, 900)}
texts = written(even, task, task.new_regions)
for text, truth in zip(texts[:4], task.examples.test.captions, strict=False):
    print(f"{text:<24}right: {truth}")

# %% tags=["nbval-check-output"]
claim("03.a", names=task.names_both(texts), exact=right["read evenly"][900])

# %% [markdown]
# The captions mostly name the right digits. Which digit comes first, and whether it is *above* or *left*, is little better than
# a guess, and more updates hardly help: the mean does not say where a digit is.
#
# ## 2 Two states by hand
#
# Instead of one mean for the whole caption, take a **weighted mean before each word**, and let the state of the decoder choose
# the weights. Before the first digit it should find the digit on the left, before the last word the one on the right.
#
# The score is the additive one of lecture 02: $e_i = v^\top \tanh(W_h h + W_a a_i)$. An example with two hidden units: the
# first sees that a region is on the left (its $W_a a$ is 2 there and 0 elsewhere), the second that it is on the right. With $v
# = (4, 4)$, a state that adds $W_h h = (0, -4)$ gives
#
# | region | its part $W_a a$ | hidden units $\tanh(W_h h + W_a a)$ | score | weight |
# | --- | --- | --- | --- | --- |
# | left | (2, 0) | (0.964, −0.999) | −0.14 | **0.956** |
# | middle | (0, 0) | (0, −0.999) | −4.00 | **0.020** |
# | right | (0, 2) | (0, −0.964) | −3.86 | **0.023** |
#
# The state has switched the second unit off: at −4 the tanh is saturated, and what the region adds makes hardly a difference. A
# state that adds (−4, 0) switches the first unit off. With an empty region, (0, 0, 0), in the middle, the first state reads from
# *three left of seven* in section 1
#
# $$0.956 \cdot (1, 0, -1) + 0.020 \cdot (0, 0, 0) + 0.023 \cdot (0, 1, 1) = (0.96,\ 0.02,\ -0.93),$$
#
# a three on the left, and the second state a seven on the right. The order is back.

# %%
W_a_a = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]])  # left, middle, right
regions = torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
for name, state in {"first": [0.0, -4.0], "second": [-4.0, 0.0]}.items():
    scores = torch.tanh(torch.tensor(state) + W_a_a) @ torch.tensor([4.0, 4.0])
    weights = scores.softmax(dim=0)
    print(f"{name} digit: weights", weights, "context", weights @ regions)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). Leave the tanh out: the score is $v^\top (W_h h + W_a a_i)$. What weight does the *left*
# region get in the first state?
#
# <details><summary>0.5</summary>
#
# The scores are −8, −16 and −8, for both states: left and right share the weight. The state adds the same number, −16, to every
# region, and the softmax takes it out again.</details>
# <details><summary>0.956</summary>
#
# What the state adds no longer depends on the region. It cancels, and left and right are equal.</details>
# <details><summary>0.333</summary>
#
# The regions still differ in $W_a a$. Only the state has lost its influence.</details>

# %% [markdown]
# ## 3 Soft attention
#
# In the paper's symbols, for the regions $a_1 \dots a_L$ and the state $h$ before the word:
#
# $$e_i = v^\top \tanh(W_h h + W_a a_i) \qquad \alpha = \mathrm{softmax}(e) \qquad z = \sum_i \alpha_i a_i$$
#
# | name | shape |
# | --- | --- |
# | `regions`, `h` | (B, L, d_a), (B, n) |
# | `W_a`, `W_h`, `v` | (m, d_a), (m, n), (m,), for m hidden units |
# | context $z$, weights $\alpha$ | (B, d_a), (B, L) |

# %% exercise="03.1" difficulty="●●○" minutes=10
from course_lib.models import soft_attention

# %% tags=["nbval-check-output"]
soft_attention = check("03.1", soft_attention)

# %% [markdown]
# ## 4 One step of the captioner
#
# One step of the decoder has three parts. It attends with its previous state. A **gate** $\beta$, between 0 and 1, scales the
# context: how much the image counts for this word. The LSTM reads the previous word and the gated context; word, new
# state and context give the logits.
#
# $$\beta = \sigma(f h_{t-1} + b) \qquad \hat z = \beta \sum_i \alpha_i a_i$$
#
# $$h_t, c_t = \mathrm{LSTM}([E y; \hat z], h_{t-1}, c_{t-1}) \qquad \text{logits} = L_o\,(E y + L_h h_t + L_z \hat z)$$
#
# | name | shape |
# | --- | --- |
# | `y`, `h`, `c`, `regions` | (B, d_y), (B, n), (B, n), (B, L, d_a) |
# | `attention` | `W_a`, `W_h`, `v`, as in 03.1 |
# | `gate` f, b | (1, n), (1,) |
# | `cell` W, U, b | (4n, d_y + d_a), (4n, n), (4n,), as in `lstm_step` |
# | `readout` L_h, L_z, L_o | (d_y, n), (d_y, d_a), (n_tokens, d_y) |
#
# `y` is already embedded: it is $E y$. $L_h$, $L_z$ and $L_o$ are matrices; $L$ alone is the number of regions. Use your
# `soft_attention` and `lstm_step(x, h, c, W, U, b)` of lecture 01, which returns the new h and c.

# %% exercise="03.5" difficulty="●●●" minutes=20
from course_lib.models import caption_step

# %% tags=["nbval-check-output"]
caption_step = check("03.5", caption_step)

# %% [markdown]
# ## 5 The experiment: the same model, with attention
#
# The `Captioner` of section 1 now runs your step. It has the same weights, data and loop; only $v$ is trained instead of 0.
#
# **A fair rival** is a vector made by hand for this task. Beside the mean of each feature, it holds the means of feature ·
# column and feature · row. In the example of section 1, three · column is −½ for *three left of seven* and +½ for *seven left
# of three*: the order is back. The decoder reads this vector before each word, as its only region.

# %%
torch.manual_seed(0)
attentive = Captioner(n_words, d_region, attention=True)
args = task, task.regions, task.new_regions
right["attention"] = learn(attentive, *args, 900)


def learn_by_hand(task, means, steps):
    """Train a captioner that reads one vector of each image instead of regions."""
    vectors = captions.standardised(means(task.regions), means(task.new_regions))
    known, new = (vector[:, None] for vector in vectors)
    torch.manual_seed(0)
    model = Captioner(len(task.words), known.shape[-1], attention=False)
    return learn(model, task, known, new, steps), written(model, task, new)


means = captions.position_weighted_means
right["vector made by hand"], by_hand = learn_by_hand(task, means, 900)
figures.show_exact_match(right, "captions of two digits")
source(means)

# %% tags=["nbval-check-output"]
evenly, attention, hand = (shares[900] for shares in right.values())
texts = {"named": written(attentive, task, task.new_regions), "named_by_hand": by_hand}
named = {name: task.names_both(each) for name, each in texts.items()}
claim("03.p", attention=attention, by_hand=hand, even=evenly, **named)

# %% [markdown]
# Attention is right far more often than the mean. But the vector made by hand is about as good: with two digits, one knows
# beforehand what must be kept. What both still get wrong is nearly always a digit, and seldom the order. They see no
# better than their encoder: its own classifier, shown the two digits of an image one at a time, names both in 84 to
# 91 % of the images (three trainings, recorded study `03_pages`).
#
# ### Four digits
#
# Now an image is a page: four digits on two lines, one to three on each, with free space between them. The caption reads them
# line by line: *three five five three*. There are ten thousand captions and four thousand images, so two in three captions of new
# images occur nowhere in training.
#
# Two models without attention compete: one reads the parts of the page in a fixed order; the other reads all at once, as one
# vector, the largest value of each feature in each sixth of the page (two lines, three places).

# %% [markdown] tags=["predict"]
# **Predict.** A decoder without attention reads the quarters of the page, the largest value of each feature there, in a fixed
# order: top left before the first word, then top right, bottom left and bottom right. Which pages can it not read?
#
# <details><summary>A. None: every page is read line by line.</summary>
#
# If the upper line has one digit, the second digit is on the lower line. The schedule still looks at the top
# right.</details>
# <details><summary>B. Those whose lines do not have two digits each.</summary>
#
# Yes. Where the next digit stands depends on how many there are on this line, and a fixed order cannot depend on the
# image.</details>
# <details><summary>C. All: it does not know where in the quarter the digit is.</summary>
#
# It need not: the largest value of a feature is the same wherever the digit is in the quarter.</details>


# %%
class Scheduled(Captioner):
    """No attention: before word t it reads quarter t, whatever the image shows."""

    def start(self, quarters):
        self.t = 0
        return super().start(quarters)

    def step(self, y, h, c, quarters):
        t, self.t = min(self.t, 3), self.t + 1
        return super().step(y, h, c, quarters[:, t : t + 1])


page = captions.page_task(task)
page.show_examples(3)
torch.manual_seed(0)
pager = Captioner(len(page.words), d_region, attention=True)
quarters = [captions.quarters(part) for part in (page.regions, page.new_regions)]
torch.manual_seed(0)
scheduled = Scheduled(len(page.words), quarters[0].shape[-1], attention=False)
right = {
    "attention": learn(pager, page, page.regions, page.new_regions, 600),
    "fixed order": learn(scheduled, page, *quarters, 600),
}
right["largest of each sixth"], _ = learn_by_hand(page, captions.largest_by_sixth, 600)
figures.show_exact_match(right, "pages of four digits")

# %% tags=["nbval-check-output"]
study = show_study("03_pages")
names = "attention", "quarters in a fixed order", "largest of each sixth"
each = [study.scores(f"pages: {name}", "exact match") for name in names]
two_and_two = [study.scores(f"pages: {name}", "two and two") for name in names[:2]]
here = right["attention"][600]
claim("03.f", here=here, attention=each[0], order=each[1], best=each[2])
claim("03.two", attention=two_and_two[0], order=two_and_two[1])

# %% [markdown]
# Where the order of the looks is known beforehand, a fixed order is nearly enough: with two digits on each line it does about as
# well. The vector of sixths shows all digits at once, although two of a line may share a sixth, and is right less often.
# **Attention is worth most where the image decides what to look at next.**
#
# **Try it.** The whole map as one vector, `lambda regions: regions[..., :-2].flatten(1)` in place of `captions.largest_by_sixth`,
# keeps every digit and its place. Does the decoder read it better?
#
# ## 6 See it
#
# Yellow shows the weights before each word; the boxes show the digits that the right caption names.

# %% tags=["cover"]
figures.show_caption_weights(attentive, task, image=0)
figures.show_caption_weights(pager, page, image=0)

# %% [markdown] tags=["predict"]
# How can it know *above* from a look at one digit? Row and column are numbers of each region, so the context says where it looked;
# without them it can only guess the order (*Going further*). No label says where the digits are: the gradient of the loss of each
# word reaches the weights through the context. But do the *weights* decide the word? A test: exchange them.
#
# **Predict.** Before the first word, the decoder gets the weights that it has before the last one. Its state stays as it is. What
# does the caption begin with?
#
# <details><summary>A. The digit named first: the state knows that the caption begins.</summary>
#
# It knows that a digit comes first, but not which: the digit itself is in the context.</details>
# <details><summary>B. The digit named last.</summary>
#
# Yes. The decoder names what it looks at.</details>
# <details><summary>C. "above" or "left": between the digits comes their relation.</summary>
#
# What kind of word comes next depends on the state, and this has not changed.</details>


# %%
@torch.no_grad()
def first_words(model, regions, weights):
    """The first word (B,) of each caption if the first look has these weights."""
    begin = torch.full((len(regions),), BEGIN, device=regions.device)
    seen = weights[:, None] @ regions  # a single region: their mean
    return model.step(model.embedding(begin), *model.start(regions), seen)[0].argmax(-1)


regions, caption = task.new_regions.to(device()), task.new_captions.to(device())
weights, each = attentive(regions, caption)[1].detach(), range(len(caption))
last = (caption != PADDING).sum(1) - 3  # the step before the last digit
own = first_words(attentive, regions, weights[:, 0]) == caption[:, 1]
exchanged = first_words(attentive, regions, weights[each, last])
first, final = exchanged == caption[:, 1], exchanged == caption[each, last + 1]
own, first, final = (share.float().mean() for share in (own, first, final))

# %% tags=["nbval-check-output"]
claim("03.e", own=own, last=final, first=first)
corners = task.examples.test.corners
hits = figures.attends_to_named(attentive, task, corners)
others = figures.attends_to_named(attentive, task, corners.roll(1, 0))
claim("03.q", inside=hits, elsewhere=others)

# %% tags=["try-it"]
# Try it: exchange the halves of other images, or move one up or down.
image = task.examples.test.images[26:27]
for name, seen in {"as it is": image, "exchanged": image.roll(21, dims=-1)}.items():
    print(f"{name:<12}{written(attentive, task, task.regions_of(seen))[0]}")

# %% [markdown] tags=["interactive"]
# **Explore.** Does each word look at its own digit? Find an image in which it does not: is the word wrong, too?

# %% tags=["interactive"]
explore(partial(figures.show_caption_weights, attentive, task), image=(0, 49))

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** You replace the weights of *Show, Attend and Tell* by uniform ones, 1/L everywhere. What is left?
#
# <details><summary>A. A decoder that reads the mean of the regions before every word.</summary>
#
# Right: the same mean each time, whatever the state. Only the gate still varies.</details>
# <details><summary>B. Nothing: without attention the model has no information about the image.</summary>
#
# The mean of the regions is still an input.</details>
# <details><summary>C. The same model, as training compensates for it.</summary>
#
# Training cannot restore an order that the mean removed.</details>
#
# **Question 2.** Why do the regions contain their row and column?
#
# <details><summary>A. Without them, the softmax would not sum to 1.</summary>
#
# It always does.</details>
# <details><summary>B. So that scores can ask *where*, and the context can answer *where*.</summary>
#
# Right. The decoder gets the weighted mean and not the weights: what must be said has to be in the values.</details>
# <details><summary>C. So that the encoder can recognise the digits.</summary>
#
# The encoder does not read them.</details>
#
# **Question 3.** A captioner gives the dog the largest weight when it writes "dog". What does that prove?
#
# <details><summary>A. That it wrote "dog" because of that region.</summary>
#
# Not by itself: the state has read the mean of all regions, and a region's features depend on its neighbours. Erase the dog and
# see whether the word changes.</details>
# <details><summary>B. That the model knows what a dog is.</summary>
#
# A weight is only a coefficient in a sum.</details>
# <details><summary>C. That the region had the largest weight in the context before that word.</summary>
#
# Right, and no more.</details>

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

# %% [markdown]
# ## 8 What came of it
#
# - **2015.** *Show, Attend and Tell* made attention visible: its maps of a bird or a frisbee are what many people
#   think of as attention. On the photographs of MS COCO it scored 24.3 BLEU-4 with soft and 25.0 with hard attention.
# - **2018.** Anderson et al. replaced the grid by the boxes of an object detector, "bottom-up and top-down attention", and won
#   the VQA challenge of 2017 (https://arxiv.org/abs/1707.07998).
# - **2018.** Adebayo et al. showed that some popular maps of an image's "important" pixels look the same when the network's
#   weights are random (https://arxiv.org/abs/1810.03292). A map needs a control; ours were another image and exchanged weights.
# - **2021.** CLIP learned images and captions as a pair, without writing any (https://arxiv.org/abs/2103.00020).
# - **2023.** BLIP-2 reads the image by a few learned queries (https://arxiv.org/abs/2301.12597). LLaVA passes the regions,
#   projected by a matrix, to a language model as if they were words (https://arxiv.org/abs/2304.08485). What chooses the region
#   before each word is then the model's own self-attention (lecture 04).
# - **2024.** Qwen2-VL takes images of any size, with rotary positions for row and column (https://arxiv.org/abs/2409.12191). Yet
#   such models still fail at simple questions of *where*: whether two circles overlap (Rahmanzadehgervi et al.,
#   https://arxiv.org/abs/2407.06581).
# - **2025.** DeepEyes learns by reinforcement when to crop a part of the image and to read it anew while it reasons
#   (https://arxiv.org/abs/2505.14362): hard attention again (*Going further*).
#
# **Further reading.** Vinyals, Toshev, Bengio, Erhan 2015, *Show and Tell* (https://arxiv.org/abs/1411.4555) · Xu et al. 2015,
# *Show, Attend and Tell*, section 3.1.2 (https://arxiv.org/abs/1502.03044).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. After a restart, run the cells of the core first.

# %% [markdown]
# ## Bug hunt
#
# The version below runs, and its weights sum to 1. What is wrong with it? Section 2 holds the answer; decide before you run the
# check.

# %% exercise="03.1" bug="has_no_tanh"
from course_tools.bank.lecture_03.soft_attention import has_no_tanh as suspect

# %% tags=["nbval-check-output"]
suspect = check("03.1", suspect)

# %% [markdown] tags=["predict"]
# ## Without positions
#
# **Predict.** We set the row and the column of every region to 0 and train the captioner with attention again. Its weights
# still show, on the map, where it looks. Can its captions tell the order?
#
# <details><summary>A. Hardly: it names the digits and mostly guesses the order.</summary>
#
# Yes: where a digit stands is not in what the decoder reads.</details>
# <details><summary>B. Yes: the weights contain the positions.</summary>
#
# *We* can read a position from the weights. The decoder gets only the weighted sum, which says what is there and not
# where.</details>
# <details><summary>C. No, and it no longer names the digits.</summary>
#
# The features that name a digit are untouched.</details>

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
placeless = Captioner(n_words, d_region, attention=True)
known, new = map(captions.without_positions, (task.regions, task.new_regions))
shares = learn(placeless, task, known, new, 900)
claim("03.v", exact=shares[900], names=task.names_both(written(placeless, task, new)))

# %% [markdown]
# ## Doubly stochastic attention
#
# The softmax makes the weights of each *word* sum to 1 over the regions. So that no region is ignored, Xu et al. also encourage
# the weights of each *region* to sum to 1 over the words. They add a penalty to the loss (eq. 14), for each caption
#
# $$\sum_{i=1}^{L} \Bigl(1 - \sum_{t=1}^{T} \alpha_{ti}\Bigr)^2$$
#
# You return its mean over the batch; the loss contains this with a factor $\lambda$.
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
# **Predict a number** (within 1). Xu's images have 14 × 14 = 196 regions. For a caption of ten words, how small can the penalty
# become?
#
# <details><summary>176.5</summary>
#
# At best every region gets 10/196, and 196 · (1 − 10/196)² remains. The penalty favours weights whose *sum over the words* is
# spread evenly over the regions.</details>
# <details><summary>0</summary>
#
# The weights of ten words sum to ten. They cannot give each of 196 regions a sum of 1.</details>
# <details><summary>186</summary>
#
# That is the penalty if each word puts all its weight on a region of its own. Weights that are spread over all regions cost
# less: of many gaps below 1, squared, equal ones have the smallest sum.</details>


# %%
def penalised_loss(model, regions, caption, factor=0.01):
    """The loss of the words plus the penalty."""
    logits, weights = model(regions, caption)
    of_words = teacher_forced_loss(logits, caption, PADDING)
    real = caption[:, 1:, None] != PADDING  # the word that follows is no padding
    return of_words + factor * doubly_stochastic_penalty(weights[:, :-1] * real)


torch.manual_seed(0)
spread = Captioner(n_words, d_region, attention=True)
shares = learn(spread, *args, 900, loss=penalised_loss)
figures.show_summed_weights({"without": attentive, "with penalty": spread}, task)

# %% tags=["nbval-check-output"]
largest = [figures.largest_share(model, task) for model in (attentive, spread)]
before = task.exact_match(written(attentive, task, task.new_regions))
after = shares[900]
claim("03.d", without=largest[0], penalised=largest[1], before=before, exact=after)

# %% [markdown]
# ## Hard attention
#
# Soft attention mixes all regions. **Hard** attention samples one region $s_t$ with the probabilities $\alpha_t$. Sampling is
# not differentiable, but the probability of a sample is. For one word, the mean of $\log p$ over the samples has the gradient
#
# $$\partial \sum_s \alpha_s \log p_s = \sum_s \alpha_s \bigl(\partial \log p_s + \log p_s \, \partial \log \alpha_s\bigr)$$
#
# (product rule, and $\partial \alpha = \alpha\, \partial \log \alpha$). It is again a mean over the samples, so one sample estimates
# it. **By hand**, with two regions, $\alpha = (½, ½)$ and $\log p = (-10, -12)$: with respect to the score of the first region,
# $\partial \log \alpha$ is $½$ for a sample of the first and $-½$ for one of the second. The second term is −5 or 6: the mean, ½,
# is right, since the first region is better; but one needs many samples to see it.
#
# REINFORCE therefore increases the probability of those samples that made the caption more likely *than usual*, than a baseline
# $b$ (Xu et al., section 4.1). It ascends the gradient
#
# $$\partial \log p(y \mid s) + \bigl(\log p(y \mid s) - b\bigr) \sum_t \partial \log \alpha_{t, s_t} + \lambda \sum_t \partial H(\alpha_t)$$
#
# The bracket is a constant: no gradient passes through it. The baseline $b$ is a moving average of $\log p$. The entropy $H$,
# weighted by $\lambda$, keeps the weights from concentrating on one region too early. Write the scalar whose gradient is
# *minus* this expression, averaged over the batch.
#
# | name | shape |
# | --- | --- |
# | `log_p`, `weights`, `looks` | (B,), (B, T, L), (B, T) integers: the $s_t$ |
# | `baseline`, `entropy_weight` | numbers $b$ and $\lambda$ |

# %% exercise="03.6" difficulty="●●○" minutes=15
from course_lib.losses import hard_attention_loss

# %% tags=["nbval-check-output"]
hard_attention_loss = check("03.6", hard_attention_loss)

# %% [markdown] tags=["predict"]
# **Predict.** In the example with two regions, take $b = -11$. How does a constant baseline change the *mean* and the *variance*
# of the estimated gradient?
#
# <details><summary>A. Both become smaller: a smaller reward gives smaller steps.</summary>
#
# The mean is ½ as before: b is subtracted once with ½ and once with −½.</details>
# <details><summary>B. The mean stays the same; a good baseline makes the variance smaller.</summary>
#
# Yes: (−10 + 11) · ½ = ½ and (−12 + 11) · (−½) = ½. Every sample now gives the mean. It stays the same for any constant b, since
# Σ α ∂ log α = ∂ Σ α = ∂ 1 = 0.</details>
# <details><summary>C. The mean changes: the baseline is a bias.</summary>
#
# It would change if b depended on the sampled region.</details>

# %% [markdown]
# The next cell takes the captioner that learned soft attention and lets it read **one** region before each word: a sample in
# training, the likeliest afterwards. Trained by your loss, it learns to live with one look. Part of what it gains is a decoder
# that gets used to single regions: the control trains on $-\log p$ alone, without the term that teaches it where to look.


# %%
class HardCaptioner(Captioner):
    """A captioner that reads one region a word: sampled, or the likeliest."""

    def step(self, y, h, c, regions):
        attention, *others = self.matrices()
        _, weights = soft_attention(regions, h, *attention)
        look = weights.multinomial(1)[:, 0] if self.training else weights.argmax(-1)
        one = regions[torch.arange(len(regions)), look][:, None]
        logits, h, c, _ = caption_step(y, h, c, one, attention, *others)
        return logits, h, c, weights, look


class Reinforce:
    """The loss of hard attention; its baseline is a moving average of log p."""

    def __init__(self, score=True):
        self.baseline, self.score = 0.0, score

    def __call__(self, model, regions, caption):
        logits, weights, looks = (x[:, :-1] for x in model(regions, caption))
        target = caption[:, 1:]
        log_p = -F.cross_entropy(logits.mT, target, reduction="none")
        log_p = log_p.masked_fill(target == PADDING, 0.0).sum(1)
        if not self.score:  # a control: the words alone
            return -log_p.mean()
        loss = hard_attention_loss(log_p, weights, looks, self.baseline, 0.02)
        self.baseline += 0.1 * (log_p.mean().item() - self.baseline)
        return loss


shares = {}
for name, score in {"REINFORCE": True, "−log p alone": False}.items():
    torch.manual_seed(0)
    hard = HardCaptioner(n_words, d_region, attention=True)
    hard.load_state_dict(attentive.state_dict())
    shares[name] = learn(hard, *args, 480, lr=2e-3, loss=Reinforce(score))
figures.show_exact_match(
    shares, "one region a word, from the weights of soft attention"
)

# %% tags=["nbval-check-output"]
after, words_alone = shares.values()
claim("03.h", before=after[1], after=after[480], words=words_alone[480])

# %% [markdown]
# ## Attention pooling
#
# Is the mean of the word vectors enough to *classify* a document? A captioner chooses new weights before each word. A
# classifier gives one answer, so one learned query $u$ is enough, the same for all texts (Yang et al. 2016):
#
# $$u_t = \tanh(W h_t + b) \qquad \alpha_t = \frac{\exp(u_t^\top u)}{\sum_{t'} \exp(u_{t'}^\top u)} \qquad s = \sum_t \alpha_t h_t$$
#
# Padding gets weight 0; for an empty sentence, the context and all weights are 0.
#
# | name | shape |
# | --- | --- |
# | `values`, `mask` | (…, T, d_v), (…, T) bool, True = a real word |
# | `W`, `b`, `u` | (d_a, d_v), (d_a,), (d_a,) |
# | context, weights | (…, d_v), (…, T) |

# %% exercise="03.3" difficulty="●●○" minutes=10
from course_lib.attention import pool

# %% tags=["nbval-check-output"]
pool = check("03.3", pool)

# %% [markdown]
# ## Hierarchical attention
#
# A document is a list of sentences, and each sentence is a list of words. A hierarchical model pools twice, with two queries:
# words into a sentence vector, then sentence vectors into a document vector. The weight of a word in the document is the
# product of its weight in the sentence and the weight of the sentence. Write both levels with your `pool`.
#
# | name | shape |
# | --- | --- |
# | `states`, `mask` | (B, S, T, d), (B, S, T) |
# | `words`, `sentences` | (W, b, u) each |
# | vector, weights of sentences, of words | (B, d), (B, S), (B, S, T) |
#
# ![](diagram:hierarchical)

# %% exercise="03.4" difficulty="●●○" minutes=10
from course_lib.models import compose_document

# %% tags=["nbval-check-output"]
compose_document = check("03.4", compose_document)

# %% [markdown] tags=["predict"]
# We compose documents in which **one sentence decides**. Each consists of eight sentences from eight docstrings of NumPy, SciPy
# and scikit-learn. The word *nota* precedes one of them; the task is to predict which sub-package *that* sentence comes from.
#
# **Predict.** Which model without attention can learn this?
#
# <details><summary>A. The mean of each sentence, a layer with a ReLU, and the mean of the sentences.</summary>
#
# Yes: a unit can respond to a topic only in a sentence that contains *nota*.</details>
# <details><summary>B. The mean of all words.</summary>
#
# In this mean, *nota* is one word among all, and the words of all sentences have equal weight.</details>
# <details><summary>C. The mean of each sentence, a linear layer, and the mean of the sentences.</summary>
#
# Linear after linear is linear: two means without a nonlinear layer are one weighted mean of all words.</details>


# %%
class TwoLevels(nn.Module):
    """Word vectors, pooled to sentences and to a document by your function."""

    def __init__(self, n_words, n_topics, d=48):
        super().__init__()
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)
        self.maps = nn.ModuleList(nn.Linear(d, d) for _ in range(2))
        self.u = nn.Parameter(torch.randn(2, d) / d**0.5)

    def forward(self, words, mask):
        pools = [(m.weight, m.bias, u) for m, u in zip(self.maps, self.u, strict=True)]
        document = PooledDocument(*compose_document(self.words(words), mask, *pools))
        return self.readout(document.vector), document


def topic_loss(model, batch):
    """The cross-entropy of the topic."""
    words, mask, topics = batch
    return F.cross_entropy(model(words, mask)[0], topics)


marked = documents.marked_documents()
rivals = {
    "two levels of attention": TwoLevels,
    "two means, ReLU between": partial(documents.TwoMeans, nn.ReLU),
    "two means, linear": partial(documents.TwoMeans, nn.Identity),
    "mean of all words": documents.BagOfWords,
}
accuracy, models = {}, {}
for name, make in rivals.items():
    torch.manual_seed(0)
    stream = batches(*marked.batch(marked.known), batch_size=32, seed=0)
    model = make(*marked.sizes).to(device())
    recipe = {"steps": 600, "lr": 4e-2, "show_loss": False}
    models[name] = fit(model, topic_loss, stream, **recipe).model
    accuracy[name] = marked.accuracy(models[name])
    print(f"{name}: accuracy on new documents {accuracy[name]:.2f}")

# %% tags=["nbval-check-output"]
attention, relu, _, mean = accuracy.values()
claim("03.k", attention=attention, relu=relu, mean=mean, always=marked.most_frequent)
marked.show_weights(models["two levels of attention"])

# %% [markdown]
# What matters is that each sentence is processed separately, by a nonlinear function, *before* the mean over the sentences. The
# softmax of attention is one such function, and a ReLU is another.
#
# ## Build it
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a captioner and its training loop. You may use your
# `soft_attention` and `caption_step`, but not the library's `ShowAttendAndTell` or `ShowAndTell`. You may add the doubly
# stochastic penalty to the loss, with a small factor. Define what you need above `train_captioner`, in the same cell.
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
# | 1 | *attention*: the logits depend on attention weights, which sum to 1 over the keys; with equal weights in their place they change |
# | 1 | the logits at a position depend on the words up to there, and not on the word that they predict |
# | 1 | padding is never a target of the loss |
# | 1 | without a caption, the model outputs the word with the largest logit at each step, and reads it at the next |
# | 1 | held-out images: the accuracy of single words is at least 0.1 above that of the most frequent word at each position |
# | 1 | held-out images: exact match of the captions at least 0.25 (from the mean of the regions it is below 0.15) |

# %% exercise="03.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_03.train_captioner import train_captioner

# %% tags=["nbval-check-output"]
train_captioner = check("03.7", train_captioner)

# %% [markdown]
# Now let it read pages: the same function, other images.

# %%
page = captions.page_task(captions.caption_task(seed=0))
torch.manual_seed(0)
mine = train_captioner(page.regions, page.captions, len(page.words), 300)
with torch.no_grad():
    answers = [page.words.decode(row) for row in mine(page.new_regions[:4]).tolist()]
for text, truth in zip(answers, page.examples.test.captions, strict=False):
    print(f"{text:<24}right: {truth}")

# %% tags=["ledger"]
ledger()

# %% [markdown] tags=["companion", "guard"]
# ## Decks
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | "Show and tell" (2015) | 1 An image in one vector | `course_lib.models.ShowAndTell` |
# | IT | Attention history: hierarchical attention | Hierarchical attention | `course_lib.models.Hierarchical`, `course_lib.models.compose_document` |
# | IT | "Show, attend and tell" (2015) | 5 The experiment: the same model, with attention | `course_lib.models.ShowAttendAndTell` |
