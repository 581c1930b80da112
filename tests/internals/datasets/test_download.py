"""Downloads over HTTP from a server here that cuts connections: checked, whole or not at all."""

import hashlib
import http.server
import os
import threading

import numpy as np
import pytest

from skdpfl.datasets import _loading
from skdpfl.datasets._loading import DataFile, Source

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


class Mirror(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the server's list ``cuts`` says after how many bytes each answer ends."""

    def do_GET(self):
        """Answer with the whole, or with its first part."""
        server = self.server
        server.asked.append(self.path)
        if self.path != "/table.csv":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.cuts.pop(0)] if server.cuts else server.content)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A running server, what it serves and what it was asked for, and an empty cache."""
    monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SKDPFL_DATA", raising=False)
    monkeypatch.setattr(_loading, "DELAY", 0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.cuts, server.asked, server.content = [], [], CONTENT
    server.url = f"http://127.0.0.1:{server.server_address[1]}/table.csv"
    server.cache = tmp_path / "cache"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def file(*urls):
    return DataFile("set/table.csv", hashlib.sha256(CONTENT).hexdigest(), urls)


def kept(mirror):
    """The files in the cache."""
    found = [path for path in mirror.cache.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(mirror.cache)) for path in found)


def test_a_whole_download_is_kept_and_not_asked_for_again(mirror):
    for _ in range(2):
        assert Source().read([file(mirror.url)]) == [CONTENT]
    assert mirror.asked == ["/table.csv"]
    assert kept(mirror) == ["set/table.csv"]
    assert os.stat(mirror.cache / "set/table.csv").st_mode & 0o777 == 0o644


retries = pytest.mark.filterwarnings("ignore:Retry downloading")


@retries
def test_a_server_that_always_cuts_leaves_nothing_behind(mirror):
    mirror.cuts = [1000] * 3
    with pytest.raises(OSError, match="only 1000 out of 300000 bytes"):
        Source().read([file(mirror.url)])
    assert kept(mirror) == []
    assert list(mirror.cache.iterdir()) == []


@retries
def test_no_network_and_no_such_page_say_what_to_do(mirror):
    closed = mirror.url.replace(str(mirror.server_address[1]), "9")  # nobody listens there
    gone = mirror.url.replace("table", "gone")
    with pytest.raises(OSError, match="was not found") as error:
        Source().read([file(closed, gone)])
    text = str(error.value)
    assert "refused" in text and "404" in text
    assert "set the environment variable SKDPFL_DATA" in text
