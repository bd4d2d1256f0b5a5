"""Against a server on this machine: the right file, the wrong one, none, and no server at all."""

import functools
import hashlib
import http.server
import threading

import pytest

from examples.cifar10 import Unreachable, download

CONTENT = b"two black dogs\n"
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files without logging, counts the requests, and breaks the connection if the path requests it."""

    def do_GET(self):
        self.server.requests.append(self.path)
        if "broken" not in self.path:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    (served / "dogs.txt").write_bytes(CONTENT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=served)) as running:
        running.requests, running.folder = [], served
        running.address = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_once(server, tmp_path):
    kept = tmp_path / "a" / "b"
    path = download(f"{server.address}/dogs.txt", CHECKSUM.upper(), kept)
    assert path.read_bytes() == CONTENT
    assert path.parent == kept
    assert download(f"{server.address}/dogs.txt", CHECKSUM, kept) == path
    assert server.requests == ["/dogs.txt"]


def test_a_damaged_file_is_fetched_again(server, tmp_path):
    path = download(f"{server.address}/dogs.txt", CHECKSUM, tmp_path)
    path.write_bytes(b"two black cats\n")
    assert download(f"{server.address}/dogs.txt", CHECKSUM, tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, tmp_path):
    kept = tmp_path / "kept"
    with pytest.raises(ValueError, match=f"has SHA-256 {CHECKSUM}, expected {'0' * 64}"):
        download(f"{server.address}/dogs.txt", "0" * 64, kept)
    assert list(kept.iterdir()) == []


def test_a_file_that_is_not_there_is_said_in_one_line(server, tmp_path):
    with pytest.raises(Unreachable, match=r"404.*no lecture needs it") as caught:
        download(f"{server.address}/cats.txt", CHECKSUM, tmp_path / "kept")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_connection_that_breaks_leaves_nothing(server, tmp_path):
    kept = tmp_path / "kept"
    with pytest.raises(Unreachable, match="broke after 4 of 100 bytes"):
        download(f"{server.address}/broken.txt", CHECKSUM, kept)
    assert list(kept.iterdir()) == []


def test_no_network_is_said_in_one_line(tmp_path):
    with pytest.raises(Unreachable, match="needs a network, and no lecture needs it") as caught:
        download("http://127.0.0.1:9/dogs.txt", CHECKSUM, tmp_path, timeout=2.0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "checksum", "message"),
    [
        ("file:///etc/passwd", CHECKSUM, "http"),
        ("http://127.0.0.1:9/", CHECKSUM, "address of a file"),
        ("http://127.0.0.1:9/dogs.txt", "abc", "64 hexadecimal digits"),
        ("http://127.0.0.1:9/dogs.txt", "g" * 64, "64 hexadecimal digits"),
    ],
)
def test_addresses_and_checksums_of_the_wrong_form_are_refused(url, checksum, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        download(url, checksum, tmp_path)
