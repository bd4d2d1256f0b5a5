"""Rivals without a network: a log-linear model for hidden tokens; TF-IDF and SVD for the season of a date."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import END
from course_lib.training import batches, train
from course_tools.lectures.lecture_08.date_pairs import BERTInput, DatePair, Hidden, seasons


def nats_of_words(known: BERTInput, texts: BERTInput, like: Hidden, n_tokens: int, steps: int = 2_000) -> Hidden:
    """Measure what a log-linear model gives the tokens that `like` asks for: one softmax regression, without a hidden layer.

    It is told which words stand in the sentence of the hidden token, which in the other one, and which stand beside it.

    Args:
        known: the texts that it learns from.
        texts: those that are asked about.
        like: which of their tokens.
        n_tokens: size of the vocabulary.
        steps: updates, with 512 hidden tokens each.
    """
    torch.manual_seed(0)
    model = nn.EmbeddingBag(4 * n_tokens + 1, n_tokens, mode="sum", padding_idx=4 * n_tokens).to(like.nats.device)
    nn.init.zeros_(model.weight)
    row, place = (known.tokens > END).nonzero(as_tuple=True)
    told = _told(known, row, place, n_tokens), known.tokens[row, place]
    stream = batches(*told, batch_size=512, seed=0)
    for _ in train(model, stream, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), steps=steps, lr=0.02):
        pass
    with torch.no_grad():
        logits = model(_told(texts, like.row, like.place, n_tokens))
    return like._replace(nats=F.cross_entropy(logits, like.truth, reduction="none"))


def _told(texts: BERTInput, row: Tensor, place: Tensor, n_tokens: int) -> Tensor:
    """Number what the model is told of each hidden token: words of its sentence, of the other, before it, after it."""
    words, asked = texts.tokens[row].clone(), torch.arange(len(row), device=row.device)
    words[asked, place] = 0
    other = texts.segments[row] != texts.segments[row, place][:, None]
    around = F.pad(texts.tokens, (1, 1))[row[:, None], place[:, None] + torch.tensor([0, 2], device=row.device)]
    beside = around + n_tokens * torch.tensor([2, 3], device=row.device)
    return torch.cat([(words + n_tokens * other).masked_fill(words == 0, 4 * n_tokens), beside], dim=1)


def season_accuracies(few: Sequence[DatePair], known: Sequence[DatePair], new: Sequence[DatePair]) -> dict[str, float]:
    """Measure how many seasons of new dates three methods find by logistic regression on the first writings of a few.

    TF-IDF takes groups of one to four letters, which relate languages; the SVD takes whole words, whose directions join what
    occurs on the same days.

    Args:
        few: the labelled dates.
        known: pairs without labels, for the SVD.
        new: the dates to classify.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    def words(text: str) -> str:
        return " ".join(word for word in text.split() if not word.isdigit())

    both = [words(f"{pair.first} {pair.second}") for pair in known]
    firsts, answers = [[words(pair.first) for pair in part] for part in (few, new)], (seasons(few), seasons(new))
    letters, tokens = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4)), TfidfVectorizer(token_pattern=r"\w+")
    letters.fit(both)
    found = {"TF-IDF": _accuracy(*map(letters.transform, firsts), *answers)}
    counted = tokens.fit_transform(both)
    for n in (12, 48):
        svd = TruncatedSVD(n, random_state=0).fit(counted)
        reduced = (normalize(svd.transform(tokens.transform(part))) for part in firsts)
        found[f"SVD, {n} directions"] = _accuracy(*reduced, *answers)
    return found


def _accuracy(of_few: object, of_new: object, labels: Tensor, answers: Tensor) -> float:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=100, max_iter=2_000).fit(of_few, labels.numpy())
    return float(fitted.score(of_new, answers.numpy()))
