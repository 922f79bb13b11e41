"""The filesystem server reads only below its roots."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.tools.conftest import Scene

from multi_llm_chat.errors import UsageError
from multi_llm_chat.tools.filesystem import files as reading
from multi_llm_chat.tools.filesystem.files import NotAllowed, Roots, open_inside


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("base").resolve()
    (base / "secret.txt").write_text("secret")
    (base / "rootbeer").mkdir()
    (base / "rootbeer" / "secret.txt").write_text("secret")
    root = base / "root"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "hello.txt").write_text("one\ntwo\nthree\n")
    (root / "deep" / "er" / "needle.py").write_text("x = 1\nneedle = 2\n")
    (root / "blob").write_bytes(b"\0\1\2")
    (root / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (root / "inner").symlink_to(root / "deep")
    (root / "outer").symlink_to(base)
    (root / "outer.txt").symlink_to(base / "secret.txt")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(scope="module")
def scene(root: Path) -> Generator[Scene]:
    entry = {
        "trusted": True,
        "command": sys.executable,
        "args": ["-m", "multi_llm_chat.tools.filesystem", str(root)],
    }
    scene = Scene({"files": entry})
    with scene.servers:
        yield scene


def test_all_of_its_tools_only_read_and_need_no_approval(scene: Scene) -> None:
    assert scene.names() == ["read_file", "list_directory", "search_files", "file_info"]
    assert {item.approval for item in scene.registry.listing()} == {"always"}


def test_files_are_read_whole_or_in_part(scene: Scene, root: Path) -> None:
    assert scene.call("read_file", path="hello.txt").content == "one\ntwo\nthree"
    assert scene.call("read_file", path=str(root / "hello.txt")).content == "one\ntwo\nthree"
    part = scene.call("read_file", path="hello.txt", first_line=2, lines=1).content
    assert part == "two\n[1 more lines]"
    assert scene.call("read_file", path="inner/er/needle.py").content.startswith("x = 1")
    assert scene.call("read_file", path="dot.png").content[0]["mime"] == "image/png"


def test_folders_are_listed_and_searched(scene: Scene) -> None:
    listing = scene.call("list_directory").content
    assert "file    hello.txt  14 bytes" in listing.splitlines()
    assert "folder  deep" in listing.splitlines()
    assert "link    outer" in listing.splitlines()
    assert scene.call("search_files", pattern="*.py").content == "deep/er/needle.py"
    found = scene.call("search_files", text="needle").content
    assert found == "deep/er/needle.py:2: needle = 2"
    assert scene.call("search_files", text="secret").content == "(nothing found)"
    assert '"kind": "file"' in scene.call("file_info", path="hello.txt").content


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "deep/../../secret.txt",
        "outer/secret.txt",
        "outer.txt",
        "../rootbeer/secret.txt",
        "/etc/passwd",
        "blob",
        "pipe",
        "deep",
        "loop",
        "missing.txt",
        "a\0b",
        "",
    ],
)
def test_nothing_else_can_be_read(scene: Scene, path: str) -> None:
    result = scene.call("read_file", path=path)
    assert result.is_error
    assert "secret" not in result.content.replace(path, "")


@pytest.mark.parametrize("path", ["..", "outer", "/", "hello.txt", "missing"])
def test_nothing_else_can_be_listed(scene: Scene, path: str) -> None:
    result = scene.call("list_directory", path=path)
    assert result.is_error
    assert "secret" not in result.content


@pytest.mark.parametrize("tool", ["search_files", "file_info"])
def test_nothing_else_can_be_searched_or_asked_about(scene: Scene, tool: str) -> None:
    for path in ("..", "outer", "../rootbeer"):
        result = scene.call(tool, path=path)
        assert result.is_error
        assert "outside of the folders" in result.content


def test_a_link_put_there_in_between_leads_nowhere(root: Path, tmp_path: Path) -> None:
    roots = Roots([tmp_path])
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "secret.txt").write_text("harmless")
    resolved = roots.resolve("folder/secret.txt")
    folder.rename(tmp_path / "moved")
    folder.symlink_to(root.parent)

    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
        open_inside(*resolved)


@pytest.mark.parametrize(
    "folder", ["/", "/etc", "/usr/lib", "/proc", "/dev", "HOME", "HOME/..", "HOME/.ssh"]
)
def test_too_much_is_refused_unless_explicitly_allowed(folder: str, tmp_path: Path) -> None:
    home = tmp_path / "user" / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / "project").mkdir()
    path = folder.replace("HOME", str(home))
    with pytest.raises(UsageError, match="too much to share"):
        Roots([path], home=home)
    assert Roots([path], home=home, allow_any=True).folders
    assert Roots([home / "project"], home=home).folders


def test_a_root_may_not_be_a_link_to_too_much(tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/")
    with pytest.raises(UsageError, match="too much"):
        Roots([tmp_path / "innocent"])


def test_roots_must_be_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folders in ([], [tmp_path / "file"], [tmp_path / "missing"]):
        with pytest.raises(UsageError):
            Roots(folders)


def test_several_roots_are_all_readable(root: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    roots = Roots([root, tmp_path])
    assert roots.resolve(str(tmp_path / "b.txt")) == (tmp_path.resolve(), Path("b.txt"))
    with pytest.raises(NotAllowed):
        roots.resolve("b.txt/../../../x")


def test_the_command_says_what_is_wrong() -> None:
    command = [sys.executable, "-m", "multi_llm_chat.tools.filesystem", "/"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "too much to share" in ended.stderr


def test_every_answer_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(reading.MOST_ENTRIES + 5):
        (tmp_path / f"file{number}").touch()
    roots = Roots([tmp_path])
    assert reading.list_directory(roots)[-1] == "[5 more entries]"
    found = reading.search_files(roots)
    assert found[-1] == f"[stopped after {reading.MOST_HITS} hits; be more specific]"
    (tmp_path / "long.txt").write_bytes(b"x\n" * reading.READ_LIMIT)
    assert str(reading.read_file(roots, "long.txt", lines=1)).splitlines()[1:] == [
        f"[{reading.READ_LIMIT // 2 - 1} more lines]",
        f"[only the first {reading.READ_LIMIT:,} bytes were read]",
    ]
    (tmp_path / "large.png").write_bytes(bytes(5_000_001))
    with pytest.raises(NotAllowed, match="picture of more than"):
        reading.read_file(roots, "large.png")


def test_other_roots_are_named_and_readable(root: Path, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("needle")
    roots = Roots([root, tmp_path])
    assert f"other folder that may be read: {tmp_path.resolve()}" in reading.list_directory(roots)
    inside = str(tmp_path.resolve() / "b.txt")
    assert reading.read_file(roots, inside) == "needle"
    found = reading.search_files(roots, path=str(tmp_path), text="needle")
    assert found == [f"{inside}:1: needle"]
    assert reading.file_info(roots, inside)["path"] == inside


def test_the_folder_of_temporary_files_is_taken_only_when_allowed(tmp_path: Path) -> None:
    for folder in {"/tmp", tempfile.gettempdir()}:
        with pytest.raises(UsageError, match="--allow-tmp"):
            Roots([folder], home=Path("/home/anna"))
        assert Roots([folder], home=Path("/home/anna"), allow_tmp=True).folders
    assert Roots([tmp_path]).folders
