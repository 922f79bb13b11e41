"""Model files are installed complete and intact, or not at all: over real HTTP, from a test server."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from multi_llm_chat.errors import ConnectionFailed, ProviderError, UsageError
from multi_llm_chat.local import (
    DEFAULT_MODEL,
    LocalChoice,
    Progress,
    choose_local,
    install,
    list_models,
    use,
)
from multi_llm_chat.local.catalogue import KNOWN_MODELS, FileAddress, ModelRow
from multi_llm_chat.local.locations import VARIABLE, locate, running_ollama

CONTENT = bytes(range(256)) * 5000
TAGS = b'{"models": [{"name": "qwen3:8b"}, {"name": "llama3"}]}'


class Host(ThreadingHTTPServer):
    """Serves one file, also by ranges, and Ollama's list of models."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.cut: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Host  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        start = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-")
        self.server.asked.append(f"{self.path} {start}")
        body = TAGS if self.path == "/api/tags" else CONTENT[int(start) :]
        if not body:
            self.send_error(416)
            return
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut])

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def row(url: str, sha256: str = hashlib.sha256(CONTENT).hexdigest()) -> ModelRow:
    return ModelRow("tiny", "Tiny", "scores", sha256, len(CONTENT), FileAddress(f"{url}/tiny.gguf"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_model_is_downloaded_checked_and_put_in_its_place(host: Host, tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = install(row(host.url), folder=tmp_path, progress=seen.append)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["tiny.gguf"]
    assert {progress.step for progress in seen} == {"downloading", "checking"}
    assert seen[-1].done == seen[-1].total == len(CONTENT)


def test_installing_twice_downloads_once(host: Host, tmp_path: Path) -> None:
    install(row(host.url), folder=tmp_path)
    install(row(host.url), folder=tmp_path)
    assert len(host.asked) == 1


def test_a_damaged_file_is_replaced(host: Host, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"harmed")
    assert install(row(host.url), folder=tmp_path).read_bytes() == CONTENT


def test_an_interrupted_download_resumes_where_it_stopped(host: Host, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf.part").write_bytes(CONTENT[:1000])
    assert install(row(host.url), folder=tmp_path).read_bytes() == CONTENT
    assert host.asked == ["/tiny.gguf 1000"]


def test_a_download_that_was_cut_is_kept_for_the_next_time(host: Host, tmp_path: Path) -> None:
    host.cut = 5000
    with pytest.raises(ConnectionFailed, match="resumes where it stopped"):
        install(row(host.url), folder=tmp_path)
    assert names(tmp_path) == ["tiny.gguf.part"]
    host.cut = None
    assert install(row(host.url), folder=tmp_path).read_bytes() == CONTENT
    assert host.asked == ["/tiny.gguf 0", "/tiny.gguf 5000"]


def test_a_whole_download_that_was_not_put_in_place_is_not_repeated(
    host: Host, tmp_path: Path
) -> None:
    (tmp_path / "tiny.gguf.part").write_bytes(CONTENT)
    assert install(row(host.url), folder=tmp_path).read_bytes() == CONTENT


def test_a_wrong_hash_is_refused_and_leaves_nothing(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="not the expected one") as caught:
        install(row(host.url, "0" * 64), folder=tmp_path)
    assert caught.value.code == "wrong_hash"
    assert names(tmp_path) == []


def test_offline_is_reported_in_words(host: Host, tmp_path: Path) -> None:
    url = host.url
    host.server_close()  # from now on no server listens there
    with pytest.raises(ConnectionFailed, match="try again") as caught:
        install(row(url), folder=tmp_path)
    assert caught.value.code == "offline"


def test_too_little_room_is_reported_before_the_download(host: Host, tmp_path: Path) -> None:
    huge = ModelRow(
        "huge", "Huge", "schema", "0" * 64, 10**18, FileAddress(f"{host.url}/huge.gguf")
    )
    with pytest.raises(ProviderError, match="not enough room") as caught:
        install(huge, folder=tmp_path)
    assert caught.value.code == "no_space"
    assert host.asked == []


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=DEFAULT_MODEL):
        install("gpt-17", folder=tmp_path)


def test_the_default_model_is_the_pinned_file(models: Path) -> None:
    assert install(folder=models).stat().st_size == KNOWN_MODELS[DEFAULT_MODEL].size


def test_the_environment_overrides_what_was_chosen(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.gguf", tmp_path / "other.gguf"
    mine.write_bytes(b"GGUF")
    other.write_bytes(b"GGUF")
    assert locate(folder=tmp_path, environment={}).row.name == DEFAULT_MODEL
    assert use(mine, folder=tmp_path).path == mine
    assert locate(folder=tmp_path, environment={}).path == mine
    assert locate(folder=tmp_path, environment={VARIABLE: str(other)}).path == other
    assert locate(DEFAULT_MODEL, folder=tmp_path, environment={VARIABLE: str(other)}).row.name == (
        DEFAULT_MODEL
    )


def test_only_what_can_be_used_can_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        use(tmp_path / "missing.gguf", folder=tmp_path)
    with pytest.raises(ProviderError, match="mlc local install"):
        use(DEFAULT_MODEL, folder=tmp_path)
    assert names(tmp_path) == []


def test_the_list_shows_what_is_here_and_what_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    listed = {model.name: model for model in list_models(folder=tmp_path)}
    assert listed.keys() == KNOWN_MODELS.keys()
    assert not any(model.is_installed for model in listed.values())
    assert listed[DEFAULT_MODEL].is_chosen
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    use(mine, folder=tmp_path)
    assert [model.name for model in list_models(folder=tmp_path) if model.is_chosen] == ["mine"]


def test_a_running_ollama_is_preferred_to_the_default(host: Host, tmp_path: Path) -> None:
    environment = {"OLLAMA_HOST": host.url}
    assert running_ollama(environment) == ("qwen3:8b", "llama3")
    assert choose_local(folder=tmp_path, environment=environment) == LocalChoice(
        "ollama", "qwen3:8b"
    )
    decided = {**environment, VARIABLE: DEFAULT_MODEL}
    assert choose_local(folder=tmp_path, environment=decided) == LocalChoice("local", DEFAULT_MODEL)


def test_without_ollama_the_default_speaks(host: Host, tmp_path: Path) -> None:
    environment = {"OLLAMA_HOST": host.url}
    host.server_close()
    assert running_ollama(environment) == ()
    chosen = choose_local(folder=tmp_path, environment=environment)
    assert chosen == LocalChoice("local", DEFAULT_MODEL)
