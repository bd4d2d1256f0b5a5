"""What lies in a folder or zip is listed without trusting it: no path leads out, no bomb goes off, no link is followed."""

import io
import os
import stat
import zipfile
import zlib
from pathlib import Path

import pytest

from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.archive import Archive, Limits, Refused

SMALL = Limits(file=1000, index=1 << 20, members=20, unpacked=2000)


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def in_memory(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def names(archive: Archive) -> list[str]:
    return [entry.source for entry in archive.entries]


def test_a_folder_is_listed_with_what_is_in_its_folders(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.ipynb").write_bytes(b"one")
    (tmp_path / "b.ipynb").write_bytes(b"two")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "b.ipynb").write_bytes(b"old")
    with Archive(tmp_path) as archive:
        assert {entry.source: entry.read() for entry in archive.entries} == {"a/x.ipynb": b"one", "b.ipynb": b"two"}


def test_the_folder_of_the_results_is_left_out(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.ipynb").write_bytes(b"")
    with Archive(tmp_path, skip=tmp_path / "out") as archive:
        assert names(archive) == ["in/x.ipynb"]


def test_links_and_pipes_are_not_opened(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("exam")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.ipynb").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.ipynb")
    with Archive(folder) as archive:
        assert names(archive) == []
        assert {parts[0] for parts, *_ in archive.refused} == {"link.ipynb", "up", "pipe.ipynb"}


def test_a_file_that_becomes_a_link_before_it_is_read_is_not_followed(tmp_path):
    (tmp_path / "x.ipynb").write_bytes(b"mine")
    with Archive(tmp_path) as archive:
        (tmp_path / "x.ipynb").unlink()
        (tmp_path / "x.ipynb").symlink_to("/etc/hostname")
        with pytest.raises(OSError, match=r"x\.ipynb"):
            archive.entries[0].read()


def test_a_zip_is_read_and_leaves_nothing_on_the_disk(tmp_path):
    path = zipped(tmp_path / "in.zip", {"a/x.ipynb": b"one", "__MACOSX/a/._x.ipynb": b"", "b.ipynb": b"two"})
    with Archive(path) as archive:
        assert {entry.source: entry.read() for entry in archive.entries} == {"a/x.ipynb": b"one", "b.ipynb": b"two"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["../../x.ipynb", "/etc/x.ipynb", "..\\..\\x.ipynb", "a/../../x.ipynb", "./x.ipynb"])
def test_a_path_that_leads_out_of_a_zip_is_only_a_name(tmp_path, name):
    with Archive(zipped(tmp_path / "in.zip", {name: b"{}"})) as archive:
        (entry,) = archive.entries
        assert entry.parts[-1] == "x.ipynb"
        assert ".." not in entry.parts
        assert entry.read() == b"{}"


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("x.ipynb")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with Archive(tmp_path / "in.zip") as archive:
        assert archive.entries == []
        assert "links are not followed" in archive.refused[0][1]


def test_a_file_that_is_too_large_is_refused(tmp_path):
    with Archive(zipped(tmp_path / "large.zip", {"x.ipynb": os.urandom(2000)}), limits=SMALL) as archive:
        assert archive.entries == []
        assert "is larger than" in archive.refused[0].reason


def test_a_notebook_whose_output_repeats_itself_is_read(tmp_path):
    with Archive(zipped(tmp_path / "in.zip", {"x.ipynb": b" " * (20 << 20)})) as archive:
        assert len(archive.entries[0].read()) == 20 << 20


def test_what_is_unpacked_from_one_zip_is_limited_for_its_owner_alone(tmp_path):
    notebooks = {f"{i}.ipynb": os.urandom(900) for i in range(5)}
    path = zipped(tmp_path / "in.zip", {"ada_1_2_hw.zip": in_memory(notebooks), "bob_3_4_hw.zip": in_memory(notebooks)})
    with Archive(path, limits=SMALL._replace(file=10_000)) as archive:
        for student in (archive.entries[:5], archive.entries[5:]):
            for entry in student[:3]:
                assert len(entry.read()) == 900
            with pytest.raises(Refused, match="have been unpacked"):
                student[3].read()


def test_a_member_that_is_longer_than_it_says_is_refused(tmp_path):
    """The sizes in the index are the sender's word: here a member says 10 bytes and unpacks to a million."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(bytes(1_000_000)) + packed.flush()
    path = zipped(tmp_path / "in.zip", {"x.ipynb": data}, zipfile.ZIP_STORED)
    raw = bytearray(path.read_bytes())
    central = raw.rfind(b"PK\x01\x02")
    for at, size_at in ((0, 22), (central, 24)):
        raw[at + size_at - 14 : at + size_at - 12] = (8).to_bytes(2, "little")
        raw[at + size_at : at + size_at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(raw)
    with Archive(path, limits=SMALL) as archive, pytest.raises(Refused):
        archive.entries[0].read()


def test_a_broken_member_is_refused_and_its_neighbour_read(tmp_path):
    path = zipped(tmp_path / "in.zip", {"a.ipynb": os.urandom(500), "b.ipynb": b"fine"}, zipfile.ZIP_STORED)
    raw = bytearray(path.read_bytes())
    raw[100] ^= 0xFF
    path.write_bytes(raw)
    with Archive(path) as archive:
        broken, whole = archive.entries
        with pytest.raises(Refused, match="cannot be unpacked"):
            broken.read()
        assert whole.read() == b"fine"


def test_an_encrypted_member_is_refused_with_what_to_do(tmp_path):
    path = zipped(tmp_path / "in.zip", {"a.ipynb": b"1"}, zipfile.ZIP_STORED)
    raw = bytearray(path.read_bytes())
    raw[raw.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    with Archive(path) as archive:
        assert "without a password" in archive.refused[0][1]


def test_a_zip_of_too_many_files_is_refused_and_its_neighbour_read(tmp_path):
    many = in_memory({f"{i}.ipynb": b"" for i in range(30)})
    path = zipped(tmp_path / "in.zip", {"ada_1_2_hw.zip": many, **{f"s{i}_{i}_9_nb.ipynb": b"{}" for i in range(3, 33)}})
    with Archive(path, limits=SMALL._replace(file=10_000)) as archive:
        assert len(archive.entries) == 30
        assert [(parts, "more than 20 files" in why) for parts, why, _ in archive.refused] == [(("ada_1_2_hw.zip",), True)]


def test_a_zip_that_a_student_handed_in_is_opened_once(tmp_path):
    inner = in_memory({"week_1/x.ipynb": b"mine", "again.zip": in_memory({"y.ipynb": b""})})
    with Archive(zipped(tmp_path / "in.zip", {"ada_1_2_hw.zip": inner, "bob_3_4_hw.zip": b"no zip"})) as archive:
        (entry,) = archive.entries
        assert (entry.source, entry.inside, entry.read()) == ("ada_1_2_hw.zip/week_1/x.ipynb", 2, b"mine")
        assert [parts[0] for parts, *_ in archive.refused] == ["ada_1_2_hw.zip", "bob_3_4_hw.zip"]


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + bytes(100)])
def test_what_is_no_zip_is_reported_so(tmp_path, data):
    (tmp_path / "in.zip").write_bytes(data)
    if data[:4] == b"PK\x05\x06":
        with Archive(tmp_path / "in.zip") as archive:
            assert archive.entries == []
        return
    with pytest.raises(CannotGrade, match=r"in\.zip is not a readable zip"):
        Archive(tmp_path / "in.zip")


def test_an_index_beyond_measure_is_not_read(tmp_path):
    path = zipped(tmp_path / "in.zip", {f"{i:0200}": b"" for i in range(100)})
    with pytest.raises(CannotGrade, match="too large an index"):
        Archive(path, limits=Limits(index=10_000))


def test_what_is_not_there_is_reported(tmp_path):
    with pytest.raises(CannotGrade, match="no folder or zip"):
        Archive(tmp_path / "nothing")


def test_names_that_cannot_be_written_are_shown_all_the_same(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.ipynb")).write_bytes(b"1")
    (tmp_path / "evil\u202egpj.ipynb").write_bytes(b"2")
    with Archive(tmp_path) as archive:
        assert names(archive) == ["caf�.ipynb", "evil�gpj.ipynb"]
        assert [entry.read() for entry in archive.entries] == [b"1", b"2"]
