"""Files are there whole or not at all, whoever stops the writer and wherever."""

import os
import stat
import subprocess
import sys

import pytest

from maboost.data.files import TableError, write_table
from maboost.runtime.atomic_files import remove_parts, whole_file

KILLED = """
import os, signal, sys
from maboost.runtime.atomic_files import whole_file

with whole_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("old", [None, b"old"])
def test_no_file_is_half_written(tmp_path, error, old):
    path = tmp_path / "out.csv"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(error)), whole_file(path) as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert os.listdir(tmp_path) == ([] if old is None else ["out.csv"])
    assert old is None or path.read_bytes() == old


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(tmp_path, where, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space left"), whole_file(path) as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["out.csv"]
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name, message in {
        "folder": "directory",
        "pipe": "is not a regular file",
        "link": "not a regular",
    }.items():
        with (
            pytest.raises(OSError, match=rf"{message}.*: '.*{name}'$"),
            whole_file(tmp_path / name),
        ):
            pass
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_errors_name_the_path_that_was_given(tmp_path, monkeypatch):
    path = tmp_path / "missing" / "out.csv"
    with pytest.raises(FileNotFoundError, match=r"missing.out\.csv'$"), whole_file(path):
        pass

    def refused(source, target):
        raise PermissionError(13, "Permission denied", source, None, target)

    monkeypatch.setattr(os, "replace", refused)
    path = tmp_path / "out.csv"
    with pytest.raises(PermissionError, match=r"denied: '[^']*out\.csv'$"), whole_file(path):
        pass


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_what_a_kill_leaves_is_hidden_and_can_be_removed(tmp_path):
    path, others = tmp_path / "out.csv", tmp_path / ".out.csv.mine.part"
    path.write_bytes(b"old")
    others.write_bytes(b"not ours")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert done.returncode == -9
    assert path.read_bytes() == b"old"
    (left,) = set(os.listdir(tmp_path)) - {path.name, others.name}
    assert left.startswith(".")  # so that nobody takes it for a table
    assert (tmp_path / left).read_bytes() == b"half"
    remove_parts(path)
    assert sorted(os.listdir(tmp_path)) == [others.name, path.name]


def test_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "plain").touch()
    write_table({"a": [1, 2]}, tmp_path / "a.csv")
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("a.csv", "plain")}
    assert len(modes) == 1


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_a_link_is_followed(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    write_table({"a": [1, 2]}, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "a.csv").read_text() == '"a"\n1\n2\n'


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_cannot_be_written_is_named(tmp_path, name):
    with pytest.raises(TableError, match=rf"missing.{name}: cannot be written: No such file"):
        write_table({"a": [1]}, tmp_path / "missing" / name)
    (tmp_path / name).mkdir()
    with pytest.raises(TableError, match=rf"{name}: cannot be written: Is a directory"):
        write_table({"a": [1]}, tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "out.csv"
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"), whole_file(path):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []
