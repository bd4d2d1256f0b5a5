"""Classify images by counts of typical patches: the rival of a network that sees a bag of patches, for lecture 13."""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.primitives import patchify


class PatchWords:
    """Typical patches, the words of images: the centres of k-means on patches with ink, and one word for an empty patch."""

    def __init__(self, images: Tensor, P: int, n_words: int = 128, seed: int = 0) -> None:
        """Find the words of images (n, C, H, W).

        Args:
            images: an empty patch is 0 everywhere, and no number is negative.
            P: side of a patch.
            n_words: number of centres; images with fewer patches with ink are refused by scikit-learn.
            seed: of k-means.
        """
        from sklearn.cluster import MiniBatchKMeans

        self.P, self.n_words = P, n_words
        patches = patchify(images.cpu(), P).flatten(0, 1)
        with_ink = patches[patches.sum(-1) > 0].numpy()
        self.kinds = MiniBatchKMeans(n_words, random_state=seed, n_init=1, batch_size=2_048).fit(with_ink)

    def counts(self, images: Tensor) -> Tensor:
        """Count how often each word occurs in images (n, C, H, W): (n, n_words + 1) integers, the empty patch last."""
        patches = patchify(images.cpu(), self.P)
        words = torch.from_numpy(self.kinds.predict(patches.flatten(0, 1).numpy())).long().view(patches.shape[:2])
        words = words.masked_fill(patches.sum(-1) == 0, self.n_words)
        return F.one_hot(words, self.n_words + 1).sum(1)


def accuracy_by_counts(
    known: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor], P: int, n_words: int = 128, seed: int = 0
) -> float:
    """Train a linear classifier (logistic regression) on the counts of typical patches; return its accuracy on new images.

    Args:
        known: images (n, C, H, W) and labels (n,) to learn from, words included.
        new: images and labels of the test.
        P: side of a patch.
        n_words: typical patches, besides the empty one.
        seed: of k-means.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # more threads only wait for each other on problems of this size
        words = PatchWords(known[0], P, n_words, seed)
        classifier = LogisticRegression(solver="newton-cholesky").fit(words.counts(known[0]).numpy(), known[1].cpu().numpy())
        return float(classifier.score(words.counts(new[0]).numpy(), new[1].cpu().numpy()))
