"""Cora from an archive of its form, served by this machine; another archive, or none, is an error."""

import hashlib
import http.server
import threading
from functools import partial

import numpy as np
import pytest

from course_lib.datasets import Unreachable, WrongChecksum, cora


@pytest.fixture
def archive(tmp_path):
    """An archive of the form of Cora's: 4 papers, 3 words, a citation in each direction, one twice, one of itself."""
    words, links = np.array([[1, 0, 2], [0, 0, 1], [1, 1, 1], [0, 0, 0]]), np.zeros((4, 4), int)
    links[[0, 1, 2, 3], [1, 0, 0, 3]] = 1
    path = tmp_path / "cora.npz"
    arrays = {"labels": np.array([1, 0, 2, 2]), "idx_to_class": np.array([{"a": 1}], dtype=object)}
    for kind, matrix in (("attr", words), ("adj", links)):
        rows, columns = matrix.nonzero()
        arrays[f"{kind}_data"], arrays[f"{kind}_shape"] = matrix[rows, columns], np.array(matrix.shape)
        arrays[f"{kind}_indices"], arrays[f"{kind}_indptr"] = columns, np.bincount(rows + 1, minlength=5).cumsum()
    np.savez(path, **arrays)
    return path


@pytest.fixture
def address(archive):
    """The archive, served by this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=archive.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{archive.name}"
        server.shutdown()
        thread.join()


def test_cora_is_read_as_a_graph(address, archive, tmp_path):
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    graph = cora(2, source=(address, checksum), folder=tmp_path / "cache")
    assert graph.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
    assert graph.features.tolist() == [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert graph.labels.tolist() == [1, 0, 2, 2]
    assert graph.names == ("0", "1", "2", "3")


def test_another_archive_or_none_is_refused(address, archive, tmp_path):
    with pytest.raises(WrongChecksum):
        cora(source=(address, "0" * 64), folder=tmp_path / "cache")
    with pytest.raises(Unreachable, match="no lecture needs it"):
        cora(source=("http://127.0.0.1:9/cora.npz", "0" * 64), folder=tmp_path / "cache")
    archive.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="does not contain a graph in the format of Cora's archive"):
        cora(source=(address, hashlib.sha256(b"no archive").hexdigest()), folder=tmp_path / "cache")
