"""Downloads over HTTP from a server here that cuts connections: resumed, checked, whole or not."""

import hashlib
import http.server
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skdpfl.datasets import _download
from skdpfl.datasets._files import DataFile, read_files

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


class Mirror(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; the server's list ``cuts`` says after how many bytes each answer ends."""

    def do_GET(self):
        """Answer with the whole, or with what the range asks for."""
        server, start, wanted = self.server, 0, self.headers.get("Range")
        server.asked.append(wanted)
        if self.path != "/table.csv":
            self.send_error(404)
            return
        if wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
        body = server.content[start:]
        self.send_response(206 if wanted and server.ranges else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A running server, what it serves and what it was asked for, and an empty cache."""
    monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SKDPFL_DATA", raising=False)
    monkeypatch.setattr(_download, "PAUSE", 0.0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.cuts, server.asked, server.ranges, server.content = [], [], True, CONTENT
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
        assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked == [None]
    assert kept(mirror) == ["set/table.csv"]
    assert os.stat(mirror.cache / "set/table.csv").st_mode & 0o777 == 0o644


def test_a_cut_connection_goes_on_where_it_was(mirror):
    mirror.cuts = [100_000, 50_000]
    assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert kept(mirror) == ["set/table.csv"]


def test_another_call_goes_on_where_one_gave_up(mirror):
    mirror.cuts = [100_000, 50_000, 7]
    with pytest.raises(OSError, match=r"cut after 150007 of 300000 bytes; try again to go on"):
        read_files([file(mirror.url)])
    (piece,) = kept(mirror)
    assert piece.startswith(".partial/") and piece.endswith(".cut")
    assert (mirror.cache / piece).read_bytes() == CONTENT[:150_007]
    assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked[-1] == "bytes=150007-"
    assert kept(mirror) == ["set/table.csv"]


def test_without_a_cache_nothing_is_kept(mirror):
    mirror.cuts = [10, 10, 10]
    with pytest.raises(OSError, match="was cut"):
        read_files([file(mirror.url)], cache=False)
    assert not mirror.cache.exists()
    mirror.cuts = [10]
    assert read_files([file(mirror.url)], cache=False) == [CONTENT]
    assert not mirror.cache.exists()


def test_a_server_without_ranges_sends_all_again(mirror):
    mirror.ranges, mirror.cuts = False, [100_000]
    assert read_files([file(mirror.url)]) == [CONTENT]


def test_pieces_of_two_versions_are_not_put_together(mirror):
    other = bytes(len(CONTENT))
    mirror.content, mirror.cuts = other, [1000, 1000, 1000]
    with pytest.raises(OSError, match="cut"):
        read_files([file(mirror.url)])
    mirror.content = CONTENT  # the rest is asked for, does not fit, and all is asked for
    assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked[-2:] == ["bytes=3000-", None]


def test_a_piece_longer_than_the_file_is_thrown_away(mirror):
    mirror.content, mirror.cuts = bytes(400_000), [350_000, 1, 1]
    with pytest.raises(OSError, match="cut"):
        read_files([file(mirror.url)])
    mirror.content = CONTENT
    assert read_files([file(mirror.url)]) == [CONTENT]


def test_a_damaged_download_makes_way_for_the_next_mirror(mirror, tmp_path):
    mirror.content = CONTENT + b"x"
    good = tmp_path / "good.csv"
    good.write_bytes(CONTENT)
    assert read_files([file(mirror.url, good.as_uri())]) == [CONTENT]
    (mirror.cache / "set/table.csv").unlink()
    with pytest.raises(OSError, match=r"table\.csv: the download is damaged.*SHA-256"):
        read_files([file(mirror.url)])
    assert kept(mirror) == []


def test_no_network_and_no_such_page_say_what_to_do(mirror):
    closed = mirror.url.replace(str(mirror.server_address[1]), "9")  # nobody listens there
    gone = mirror.url.replace("table", "gone")
    with pytest.raises(OSError, match="is not at hand") as error:
        read_files([file(closed, gone)])
    text = str(error.value)
    assert "refused" in text and "404" in text
    assert "set the environment variable SKDPFL_DATA" in text
    assert mirror.asked == [None]  # an absent page is not asked for again and again


def test_a_killed_process_leaves_a_piece_that_is_taken_once_nobody_writes_to_it(mirror):
    mirror.cuts = [1000, 0, 0]
    with pytest.raises(OSError, match="cut"):
        read_files([file(mirror.url)])
    (cut,) = (mirror.cache / ".partial").iterdir()
    orphan = cut.with_name(f"{cut.stem}.abc.part")
    cut.rename(orphan)
    assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked[-1] is None  # somebody may be writing to it: left alone
    (mirror.cache / "set/table.csv").unlink()
    old = time.time() - 2 * _download.ABANDONED
    os.utime(orphan, (old, old))
    assert read_files([file(mirror.url)]) == [CONTENT]
    assert mirror.asked[-1] == "bytes=1000-"
    assert kept(mirror) == ["set/table.csv"]


def test_two_at_once_do_not_mix(mirror):
    mirror.cuts = [50_000, 60_000]  # one call takes two, should it get them all
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: read_files([file(mirror.url)]), range(4)))
    assert found == [[CONTENT]] * 4
    assert kept(mirror) == ["set/table.csv"]
