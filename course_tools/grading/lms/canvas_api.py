"""Upload marks and feedback files to Canvas through its REST API, one student after another.

A comment's file is uploaded in three steps (announce it, send it, follow the redirect); then one request sets mark and comment.
Each upload is recorded and not repeated: running the command again duplicates neither comments nor files.
https://developerdocs.instructure.com/services/canvas/readme_basics/file_uploads
https://developerdocs.instructure.com/services/canvas/file.all_resources/submissions
"""

import hashlib
import json
import re
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from course_tools.grading.files import CannotGrade, shown
from course_tools.grading.report.results import Result, Results
from course_tools.grading.report.student_page import feedback
from course_tools.whole_file import reason

_ADDRESS = re.compile(r"(?P<host>https?://[^/?#@\s]+)/courses/(?P<course>\d+)/assignments/(?P<assignment>\d+)(?:[/?#].*)?")
_COMMENT = "Feedback on each exercise is in the attached page."
_TIMEOUT = 60.0
_WAITS = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds to wait before each retry if Canvas reports too many requests."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Sent(NamedTuple):
    """The result of an upload, in sentences: messages for the instructor, and errors."""

    messages: list[str]
    trouble: list[str]


class _Response(NamedTuple):
    status: int
    data: bytes
    location: str

    def json(self) -> dict:
        try:
            found = json.loads(self.data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise _NotDone("the response does not come from a Canvas server")
        return found


class _NotDone(Exception):
    """One request to Canvas failed; the message, which follows a name, says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Disables automatic redirects, so that the token is never sent to another host."""

    def redirect_request(self, *request: object) -> None:
        return None


class CanvasAssignment:
    """One assignment in Canvas."""

    def __init__(self, address: str, token: str, wait: Callable[[float], None] = time.sleep) -> None:
        """Identify an assignment by its address in a browser, https://HOST/courses/12/assignments/34.

        Args:
            address: of the assignment's page.
            token: an access token (Account → Settings → New access token).
            wait: waits the given number of seconds between two attempts.

        Raises:
            CannotGrade: the address has another form, or would send the token unencrypted.
        """
        found = _ADDRESS.fullmatch(address.strip())
        if found is None:
            raise CannotGrade(f"{address} is not the page of an assignment, such as https://HOST/courses/12/assignments/34.")
        self._host = found["host"]
        parts = urllib.parse.urlsplit(self._host)
        if parts.scheme != "https" and parts.netloc.rpartition(":")[0] not in _LOCAL:
            raise CannotGrade(f"{address} is not https: the access token would be sent unencrypted.")
        if not token:
            raise CannotGrade("there is no access token in CANVAS_TOKEN (Canvas: Account → Settings → New access token).")
        self._path = f"/api/v1/courses/{found['course']}/assignments/{found['assignment']}"
        self._token, self._wait = token, wait
        self._open = urllib.request.build_opener(_NoRedirect()).open

    def send(self, results: Results, lecture: str, out: Path) -> Sent:
        """Send the marks of a lecture, scaled to the points of the assignment, each with the student's page.

        Args:
            results: of the class; students are identified by their Canvas user number in the names of the download, others are
                listed and skipped: a folder's name of digits may be another number, or that of another student.
            lecture: the lecture whose marks are sent.
            out: the folder of the results, where canvas_sent.jsonl records what was sent.
        """
        graded = [result for result in results.students if result.points_of(lecture) is not None]
        mine = [result for result in graded if result.has_canvas_id and re.fullmatch(r"\d+", result.student.id)]
        messages, trouble, n_sent, n_before = [], [], 0, 0
        if len(mine) < len(graded):
            names = "; ".join(result.student.name for result in graded if result not in mine)
            messages.append(f"Not sent to Canvas, because the user number is unknown: {names}.")
        try:
            possible = self._points_possible()
            note = out / "canvas_sent.jsonl"
            before = _noted(note, self._host + self._path)
            for result in mine:
                maximum = results.max_points_of(result, lecture)
                scale = possible / maximum if possible and maximum else 1.0
                mark = f"{result.points_of(lecture) * scale:.2f}".rstrip("0").rstrip(".")
                page = feedback(result, results).encode("utf-8", "replace")
                digest = hashlib.sha256(mark.encode() + b"\0" + page).hexdigest()
                if before.get(result.student.id) == digest:
                    n_before += 1
                    continue
                try:
                    self._mark(result, mark, page)
                except _NotDone as error:
                    trouble.append(f"Not sent to Canvas: {result.student.name}: {error}.")
                    continue
                _note(note, self._host + self._path, result.student.id, digest)
                n_sent += 1
        except _NotDone as error:
            trouble.append(f"Canvas: {error}.")
        except (OSError, HTTPException) as error:
            what = shown(str(getattr(error, "reason", error)) or type(error).__name__)
            trouble.append(f"Canvas cannot be reached ({what}). Run the same command again: nothing is sent twice.")
        told = f" {n_before} had been sent before and are unchanged." if n_before else ""
        return Sent([f"Canvas: {n_sent} marks were sent, each with a page of feedback.{told}", *messages], trouble)

    def _points_possible(self) -> float:
        possible = self._ask("GET", self._path).json().get("points_possible")
        return possible if isinstance(possible, int | float) else 0

    def _mark(self, result: Result, mark: str, page: bytes) -> None:
        """Set the mark of one student, with a comment and the page attached to it."""
        user = f"{self._path}/submissions/{result.student.id}"
        about = {"name": "feedback.html", "size": str(len(page)), "content_type": "text/html"}
        ticket = self._ask("POST", f"{user}/comments/files", about).json()
        file = self._upload(ticket, page)
        fields = {"submission[posted_grade]": mark, "comment[text_comment]": _COMMENT, "comment[file_ids][]": str(file)}
        self._ask("PUT", user, fields)

    def _upload(self, ticket: dict, page: bytes) -> int:
        """Upload a file to the address from Canvas, without the token, follow the redirect, and return the file's number."""
        address, given = ticket.get("upload_url"), ticket.get("upload_params")
        if not isinstance(address, str) or not isinstance(given, dict):
            raise _NotDone("it provided no upload address")
        boundary = secrets.token_hex(16)
        lines = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in given.items()
        ]
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="feedback.html"\r\nContent-Type: text/html'
        )
        body = "".join([*lines, head, "\r\n\r\n"]).encode() + page + f"\r\n--{boundary}--\r\n".encode()
        target = urllib.parse.urljoin(self._host, address)
        sent = self._request("POST", target, body, f"multipart/form-data; boundary={boundary}", with_token=False)
        if sent.location and (sent.status == 201 or 300 <= sent.status < 400):
            sent = self._ask("GET", urllib.parse.urljoin(target, sent.location))
        number = sent.json().get("id")
        if type(number) is not int:
            raise _NotDone("it did not accept the file")
        return number

    def _ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> _Response:
        body = urllib.parse.urlencode(fields).encode() if fields is not None else None
        address = urllib.parse.urljoin(self._host, path)
        ours = urllib.parse.urlsplit(address)[:2] == urllib.parse.urlsplit(self._host)[:2]
        return self._request(method, address, body, "application/x-www-form-urlencoded", with_token=ours)

    def _request(self, method: str, address: str, body: bytes | None, kind: str, with_token: bool) -> _Response:
        headers = {"Content-Type": kind, "Accept": "application/json", "User-Agent": "attention-course"}
        headers |= {"Authorization": f"Bearer {self._token}"} if with_token else {}
        for seconds in (*_WAITS, None):
            request = urllib.request.Request(address, data=body, headers=headers, method=method)
            try:
                with self._open(request, timeout=_TIMEOUT) as answer:
                    return _Response(answer.status, answer.read(), answer.headers.get("Location", ""))
            except urllib.error.HTTPError as error:
                with error:
                    found = _Response(error.code, error.read(), error.headers.get("Location", ""))
            if 300 <= found.status < 400:
                return found
            if not (found.status == 429 or (found.status == 403 and b"rate limit" in found.data.lower())):
                break
            if seconds is not None:
                self._wait(seconds)
        if found.status == 401 and with_token:
            raise _NotDone("the access token is invalid, or lacks the permission (401)")
        raise _NotDone(f"{method} failed with status {found.status}")


def _noted(path: Path, assignment: str) -> dict[str, str]:
    """What was sent for an assignment, as a digest for each student; an incomplete line counts as not sent."""
    found: dict[str, str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["assignment"] == assignment:
                found[entry["student"]] = entry["digest"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _note(path: Path, assignment: str, student: str, digest: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"assignment": assignment, "student": student, "digest": digest}) + "\n")
    except OSError as error:
        raise CannotGrade(f"{path} could not be written: {reason(error)}") from error
