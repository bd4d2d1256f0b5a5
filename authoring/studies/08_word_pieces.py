"""Does masked pre-training on running text help a classifier that has few labels?

Which of eight plays of Shakespeare does a passage of 64 word pieces come from? Speakers' names are part of the passages. The
vocabulary is learned from the other 29 plays, by byte pairs; texts are cut into its pieces as BERT's WordPiece does. A BERT of two
layers and width 128 is fine-tuned on 5 or 10 labelled passages of each play. Rivals: the same BERT without pre-training; the same
BERT, pre-trained on passages whose pieces are in random order; logistic regression on TF-IDF of the words, with and without an
SVD that is fitted to all passages but those of the test. Pre-training reads the same passages. Each accuracy is the mean of three
draws of labels.

Budget: 600 updates of pre-training with 16 passages each, 40 % of the pieces chosen, and 60 updates of fine-tuning for each draw;
about a minute for a pre-trained BERT on one CPU thread. On a GPU: four layers, width 256, and 6,000 updates. One learning rate
of each training; 5e-4 was tried for the fine-tuning on one seed, and was no better.
"""

import re
from copy import deepcopy
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, BytePairs, Vocabulary, shakespeare, split, word_pieces
from course_lib.losses import mask_tokens, mlm_loss
from course_lib.models import BERT, PretrainingBERT, SentenceHead
from course_lib.training import batches, train


class Scale(NamedTuple):
    """Size of the encoder, and updates and learning rate of its pre-training."""

    sizes: Sizes
    updates: int
    lr: float


SCALES = {"cpu": Scale(Sizes(128, 4, 256, 2), 600, 2e-3), "cuda": Scale(Sizes(256, 8, 1_024, 4), 6_000, 1e-3)}
PLAYS = ("hamlet", "henry-v", "julius-caesar", "king-lear", "othello", "romeo-and-juliet", "the-tempest", "twelfth-night")
T, MERGES, N_TEST, DRAWS, RATE = 64, 2_000, 800, 3, 0.4
LABELS = (5, 10)
SETTINGS = {name: name for name in ("TF-IDF", "TF-IDF + SVD", "from scratch", "pre-trained", "pre-trained, random order")}
GPU_SETTINGS = SETTINGS
SEEDS = (0, 1, 2)
TOLERANCE = {f"{n} labels": 0.05 for n in LABELS} | {"curve": 0.2}


class Passages(NamedTuple):
    """Passages as tokens (n, T + 2), [CLS] first and [SEP] last, and as words; the number of the play (n,) of each."""

    tokens: torch.Tensor
    words: list[str]
    plays: torch.Tensor


def vocabulary(texts):
    """The pieces that `word_pieces` cuts into: characters and byte pairs of texts, with ## where a piece does not begin a word."""
    words = " ".join(re.findall(r"\w+|[^\w\s]", " ".join(texts).lower()))
    letters = sorted(set(words) - {" "})
    merged = ("".join(pair) for pair in BytePairs.learn([words], MERGES).merges)
    pieces = (*letters, *(f"▁{letter}" for letter in letters), *merged)
    return list(dict.fromkeys(piece[1:] if piece.startswith("▁") else f"##{piece}" for piece in pieces))


def passages(seed):
    """Passages of the eight plays to learn from and to test on, and the vocabulary of the other plays."""
    texts = {play.name: play.text for play in shakespeare(0, 0).train}
    pieces = vocabulary(sorted(text for name, text in texts.items() if name not in PLAYS))
    known, found = set(pieces), []
    for number, name in enumerate(PLAYS):
        cut = word_pieces(texts[name], known)
        found += [(tuple(cut[i : i + T]), number) for i in range(0, len(cut) - T + 1, T)]
    parts, index = split(found, len(found) - N_TEST, 0, N_TEST, seed), Vocabulary.of([" ".join(pieces)], between=" ")
    return *(as_passages(part, index) for part in (parts.train, parts.test)), index


def as_passages(part, index):
    """Passages from pairs (pieces, play)."""
    rows = [" ".join(pieces) for pieces, _ in part]
    tokens = torch.tensor([[BEGIN, *index.encode(row), END] for row in rows])
    return Passages(tokens, [row.replace(" ##", "") for row in rows], torch.tensor([play for _, play in part]))


def in_random_order(tokens, seed):
    """The same passages with the pieces of each in random order, [CLS] and [SEP] in place."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(len(tokens), T, generator=generator).argsort(-1).to(tokens.device) + 1
    return torch.cat([tokens[:, :1], tokens.gather(1, order), tokens[:, -1:]], 1)


def pretrained(model, tokens, scale, seed):
    """Train a PretrainingBERT on masked pieces of passages; give it with its loss through the updates."""
    mask, generator, curve, recent = model.bert.tokens.num_embeddings - 1, torch.Generator().manual_seed(seed), {}, []

    def loss(model, batch):
        eligible = (batch[0] != BEGIN) & (batch[0] != END)
        text, chosen = mask_tokens(batch[0], eligible, mask, mask, generator, RATE)
        logits = model.words(model.bert(text)[chosen], model.bert.tokens.weight)
        return mlm_loss(logits[None], batch[0][chosen][None], chosen[chosen][None])

    stream = batches(tokens, batch_size=16, seed=seed)
    for step in train(model, stream, loss, steps=scale.updates, lr=scale.lr, warmup=scale.updates // 10):
        recent.append(step.loss)
        if (step.index + 1) * 12 % scale.updates == 0:
            curve[step.index + 1], recent = mean(recent), []
    return model.eval(), curve


class Classifier(nn.Module):
    """A BERT with a head on [CLS]."""

    def __init__(self, bert):
        super().__init__()
        self.bert, self.head = bert, SentenceHead(bert.tokens.embedding_dim, len(PLAYS))

    def forward(self, tokens):
        return self.head(self.bert(tokens))


def fine_tuned(bert, tokens, plays, seed):
    """A copy of an encoder with a head, all weights trained on a few labelled passages."""
    torch.manual_seed(seed)
    model, stream = Classifier(deepcopy(bert)).to(tokens.device), batches(tokens, plays, batch_size=20, seed=seed)
    for _ in train(model, stream, lambda model, b: F.cross_entropy(model(b[0]), b[1]), steps=60, lr=2e-3, warmup=6):
        pass
    return model.eval()


def tf_idf(known, new, svd_seed=None):
    """TF-IDF of the words of passages, reduced by an SVD that is fitted to the known ones where there is a seed for it."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    vectors = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    features = vectors.fit_transform(known), vectors.transform(new)
    if svd_seed is None:
        return features
    svd = TruncatedSVD(64, random_state=svd_seed)
    return normalize(svd.fit_transform(features[0])), normalize(svd.transform(features[1]))


def by_regression(features, of_new, plays):
    """The plays of new rows by logistic regression on labelled rows."""
    from sklearn.linear_model import LogisticRegression

    return torch.tensor(LogisticRegression(C=10, max_iter=1_000).fit(features, plays).predict(of_new))


def labelled(plays, n_each, draw):
    """The numbers of n_each passages of every play."""
    order = torch.randperm(len(plays), generator=torch.Generator().manual_seed(draw))
    return torch.cat([order[plays[order] == play][:n_each] for play in range(len(PLAYS))])


def run(setting, seed, device):
    """Accuracy on unseen passages with 5 and with 10 labels a play, each a mean of three draws; the loss of the pre-training."""
    known, new, index = passages(seed)
    report = {}
    if setting.startswith("TF-IDF"):
        features, of_new = tf_idf(known.words, new.words, seed if setting.endswith("SVD") else None)

        def predicted(few):
            return by_regression(features[few.numpy()], of_new, known.plays[few])

    else:
        torch.manual_seed(seed)
        scale, tokens, asked = SCALES[device.type], known.tokens.to(device), new.tokens.to(device)
        model = PretrainingBERT(BERT(len(index) + 1, T + 2, scale.sizes, fused_scaled_dot_product_attention)).to(device)
        report = {"parameters": sum(p.numel() for p in model.bert.parameters()), "pieces": len(index)}
        if setting != "from scratch":
            read = in_random_order(tokens, seed) if setting.endswith("random order") else tokens
            model, report["curve"] = pretrained(model, read, scale, seed)

        @torch.no_grad()
        def guesses(model):
            return torch.cat([model(part).argmax(-1) for part in asked.split(100)]).cpu()

        def predicted(few):
            return guesses(fine_tuned(model.bert, tokens[few.to(device)], known.plays[few].to(device), seed))

    for n in LABELS:
        draws = [labelled(known.plays, n, DRAWS * seed + draw) for draw in range(DRAWS)]
        report[f"{n} labels"] = mean((predicted(few) == new.plays).float().mean().item() for few in draws)
    return report


def figure(study):
    """Accuracy of recognising the play, for each setting with 5 and with 10 labels, one point per seed."""
    from course_tools.notebook import plots

    rows = {f"{name}, {n}": study.scores(name, f"{n} labels") for n in LABELS for name in study.names}
    title = f"labels per play: {' or '.join(map(str, LABELS))}, as recorded"
    drawn = plots.seeds(rows, "accuracy", title, {"chance": 1 / len(PLAYS)})
    each = "; ".join(f"{name} labels: {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    return drawn, f"Accuracy of recognising the play, unseen passages, one point per seed. {each}."


def finding(study):
    """Mean accuracy and range of each setting, by labels; what pre-training adds; how the loss of the pre-training ends."""
    said = []
    for n in LABELS:
        scores = {name: study.scores(name, f"{n} labels") for name in study.names}
        each = "; ".join(
            f"{name} {mean(values):.2f} ({min(values):.2f} to {max(values):.2f})" for name, values in scores.items()
        )
        gain = mean(scores["pre-trained"]) - mean(scores["from scratch"])
        order = mean(scores["pre-trained"]) - mean(scores["pre-trained, random order"])
        best = max(("TF-IDF", "TF-IDF + SVD"), key=lambda name: mean(scores[name]))
        said.append(
            f"Accuracy with {n} labels per play: {each}. The pre-trained BERT less that from scratch: {gain:+.2f}; less that "
            f"pre-trained in random order: {order:+.2f}; less {best}: {mean(scores['pre-trained']) - mean(scores[best]):+.2f}."
        )
    updates, losses = study.curve("pre-trained")
    said.append(
        f"Loss of the masked pieces after {updates[len(updates) // 2 - 1]:,} updates {losses[len(losses) // 2 - 1]:.2f} nats, "
        f"after {updates[-1]:,} {losses[-1]:.2f}."
    )
    n_seeds = len({run.seed for run in study.runs})
    return (
        " ".join(said)
        + f" Means of {n_seeds} {'seed' if n_seeds == 1 else 'seeds'}, and their ranges; chance is {1 / len(PLAYS):g}."
    )
