"""Marks and feedback through Canvas's API, against a server here that speaks what the documentation of Canvas says."""

import json
import socket
import threading
from collections.abc import Iterator
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from course_tools import cli as command
from course_tools.bank import exercises
from course_tools.grading.files import CannotGrade
from course_tools.grading.lms.canvas_api import CanvasAssignment, Sent
from tests.course_tools.grading.student_notebooks import graded_here, notebook

TOKEN = "1~secret"
API = "/api/v1/courses/12/assignments/34"
POSSIBLE = sum(each.points for each in exercises() if each.lecture == "04" and not each.extra)


class Canvas(ThreadingHTTPServer):
    """A stand-in: an assignment of twice the points of lecture 04, files stored elsewhere ("localhost"), and users 1 to 9."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.marks: dict[str, list[dict]] = {}
        self.files: dict[int, bytes] = {}
        self.busy = 0

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/courses/12/assignments/34?module_item_id=5"


class _Handler(BaseHTTPRequestHandler):
    server: Canvas

    def do_GET(self):
        if self.path.startswith("/api/v1/files/") and self.trusted():
            return self.answer(200, {"id": int(self.path.split("/")[4]), "display_name": "feedback.html"})
        return self.trusted() and self.answer(200, {"id": 34, "points_possible": 2.0 * POSSIBLE})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        host = f"http://localhost:{self.server.server_port}"
        if self.path == "/upload":
            assert "Authorization" not in self.headers
            parts = BytesParser(policy=HTTP).parsebytes(
                b"Content-Type: " + self.headers["Content-Type"].encode() + b"\n\n" + body
            )
            names = [part.get_param("name", header="content-disposition") for part in parts.iter_parts()]
            assert names == ["key", "file"]  # the file stands last
            number = 100 + len(self.server.files)
            self.server.files[number] = parts.get_payload()[-1].get_payload(decode=True)
            location = f"http://127.0.0.1:{self.server.server_port}/api/v1/files/{number}/create_success?uuid=abc"
            return self.answer(303, {}, location)
        if self.trusted():
            asked = {name: value for name, (value,) in parse_qs(body.decode()).items()}
            assert asked["name"] == "feedback.html"
            assert int(asked["size"]) > 100
            if self.path.split("/")[-3] == "9":
                return self.answer(404, {"errors": [{"message": "The specified resource does not exist."}]})
            return self.answer(200, {"upload_url": f"{host}/upload", "upload_params": {"key": "users/1/feedback.html"}})
        return None

    def do_PUT(self):
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.server.busy:
            self.server.busy -= 1
            return self.answer(403, "403 Forbidden (Rate Limit Exceeded)")
        assert self.path.startswith(f"{API}/submissions/")
        if self.trusted():
            self.server.marks.setdefault(self.path.split("/")[-1], []).append(body)
            self.answer(200, {"grade": body["submission[posted_grade]"][0]})
        return None

    def trusted(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self.answer(401, {"errors": [{"message": "Invalid access token."}]})
        return False

    def answer(self, status: int, data: object, location: str = "") -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def canvas() -> Iterator[Canvas]:
    with Canvas() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def download(tmp_path):
    """Two students of the course, one whom Canvas does not know."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, points in (("ada_1_7", 12), ("bob_2_8", 3), ("eve_9_6", 1)):
        (folder / f"{name}_nb.ipynb").write_bytes(notebook(e1=f"# earns {points}"))
    return folder


def upload(canvas: Canvas, download: Path, token: str = TOKEN, waits: list | None = None) -> Sent:
    assignment = CanvasAssignment(canvas.page, token, (waits if waits is not None else []).append)
    return assignment.send(graded_here(download)[0], "04", download.parent)


def test_marks_come_to_the_points_of_the_assignment_each_with_the_students_page(canvas, download):
    sent = upload(canvas, download)
    assert {user: one["submission[posted_grade]"] for user, (one,) in canvas.marks.items()} == {"1": ["24"], "2": ["6"]}
    (ada,) = canvas.marks["1"]
    page = canvas.files[int(ada["comment[file_ids][]"][0])].decode()
    assert f"12 of {POSSIBLE} points" in page
    assert page.startswith("<!DOCTYPE html>")
    assert sent.messages == ["Canvas: 2 marks were sent, each with a page of feedback."]
    assert sent.trouble == ["Not sent to Canvas: eve: POST failed with status 404."]


def test_what_was_sent_is_not_sent_again_unless_it_changed(canvas, download):
    upload(canvas, download)
    assert upload(canvas, download).messages == [
        "Canvas: 0 marks were sent, each with a page of feedback. 2 had been sent before and are unchanged."
    ]
    assert [len(sent) for sent in canvas.marks.values()] == [1, 1]
    (download / "bob_2_8_nb.ipynb").write_bytes(notebook(e1="# earns 4"))
    upload(canvas, download)
    assert [sent["submission[posted_grade]"] for sent in canvas.marks["2"]] == [["6"], ["8"]]
    assert len(canvas.marks["1"]) == 1


def test_too_many_requests_are_waited_for(canvas, download):
    canvas.busy, waits = 3, []
    upload(canvas, download, waits=waits)
    assert waits == [2.0, 4.0, 8.0]
    assert canvas.marks.keys() == {"1", "2"}


def test_a_wrong_token_and_a_server_that_is_not_there_are_said_in_words(canvas, download):
    (refused,) = upload(canvas, download, "another").trouble
    assert "the access token is invalid" in refused
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/courses/12/assignments/34"
        (absent,) = CanvasAssignment(address, TOKEN).send(graded_here(download)[0], "04", download.parent).trouble
    assert "cannot be reached" in absent
    assert "Run the same command again" in absent


def test_a_student_without_a_number_of_canvas_is_named(canvas, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_bytes(notebook(e1="# earns 2"))
    assert upload(canvas, tmp_path / "in").messages[1].endswith("unknown: ada.")
    assert canvas.marks == {}


@pytest.mark.parametrize("name", ["1/nb.ipynb", "1.ipynb", "Eve_1_assignsubmission_file_/nb.ipynb"])
def test_a_number_that_is_not_from_canvas_sends_no_mark_to_the_student_with_that_number(canvas, tmp_path, name):
    """The folder may be named for a login at GitHub, which its owner chose: Ada has the number 1 in Canvas."""
    file = tmp_path / "in" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(notebook(e1="# earns 2"))
    assert "the user number is unknown" in upload(canvas, tmp_path / "in").messages[1]
    assert canvas.marks == {}


@pytest.mark.parametrize(
    ("address", "token", "said"),
    [
        ("https://canvas.example.edu/courses/12", TOKEN, "is not the page of an assignment"),
        ("http://canvas.example.edu/courses/1/assignments/2", TOKEN, "is not https"),
        ("https://canvas.example.edu/courses/1/assignments/2", "", "CANVAS_TOKEN"),
    ],
)
def test_what_cannot_be_an_upload_is_said_before_anything_is_graded(address, token, said):
    with pytest.raises(CannotGrade, match=said):
        CanvasAssignment(address, token)


def test_the_command_needs_a_lecture_for_an_upload(tmp_path, capsys):
    address = "https://canvas.example.edu/courses/1/assignments/2"
    assert command.main(["grade", str(tmp_path), "--canvas-upload", address]) == 1
    assert "--lecture" in capsys.readouterr().err
