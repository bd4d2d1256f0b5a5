"""Multi30k: 29,000 descriptions of images in English and German, from the network. No lecture needs it.

Elliott, Frank, Sima'an, Specia 2016, *Multi30K: Multilingual English-German Image Descriptions* (https://arxiv.org/abs/1605.00459),
the files of the WMT 2016 multimodal task 1. Addresses and checksums are those that torchtext 0.18 published
(torchtext/datasets/multi30k.py, where the table is called MD5 although it holds SHA-256).
"""

import tarfile
from pathlib import Path

from course_lib.datasets.download import download
from course_lib.datasets.splits import Pair, Splits

__all__ = ["multi30k"]

_ADDRESS = "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k"
TRAIN = (f"{_ADDRESS}/training.tar.gz", "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e")
VALID = (f"{_ADDRESS}/validation.tar.gz", "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c")
TEST = (f"{_ADDRESS}/mmt16_task1_test.tar.gz", "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36")

Source = tuple[str, str]


def multi30k(
    source: str = "en",
    target: str = "de",
    *,
    train: Source = TRAIN,
    valid: Source = VALID,
    test: Source = TEST,
    folder: Path | None = None,
) -> Splits[tuple[Pair, ...]]:
    """Download Multi30k on the first call (about 1.2 MB), and read its sentence pairs.

    Pairs of the public valid and test parts that occur word for word in an earlier part are left out, to prevent leakage.

    Args:
        source: "en" or "de".
        target: the other one.
        train: (address, SHA-256) of the archive that contains `train.en` and `train.de`; replace it to use a mirror.
        valid: the same with `val.en` and `val.de`.
        test: the same with `test.en` and `test.de`.
        folder: where the archives are kept; the user's cache folder if None.

    Returns:
        Splits of pairs, as in the files, with capitals and punctuation.

    Raises:
        Unreachable: there is no network.
        WrongChecksum: an archive is not the one expected.
        ValueError: the languages are not "en" and "de", or an archive's two files do not match line for line.
    """
    if {source, target} != {"en", "de"}:
        raise ValueError(f"Multi30k is read in English and German: choose 'en' and 'de', got {source!r} and {target!r}.")
    parts: list[tuple[Pair, ...]] = []
    seen: set[Pair] = set()
    for (url, sha256), prefix in ((train, "train"), (valid, "val"), (test, "test")):
        archive = download(url, sha256, folder)
        sources, targets = (_lines(archive, f"{prefix}.{language}") for language in (source, target))
        if len(sources) != len(targets):
            raise ValueError(f"{archive.name}: {len(sources)} lines of {source!r}, but {len(targets)} of {target!r}.")
        pairs = (Pair(*texts) for texts in zip(sources, targets, strict=True))
        parts.append(tuple(pair for pair in dict.fromkeys(pairs) if pair not in seen))
        seen.update(parts[-1])
    return Splits(*parts)


def _lines(archive: Path, name: str) -> list[str]:
    """Read the lines of one member of a tar archive, without unpacking it to disk."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if Path(member.name).name == name and (file := tar.extractfile(member)):
                return file.read().decode("utf-8").strip().splitlines()
    raise ValueError(f"{archive.name} has no file {name}.")
