"""Finding, checking and downloading files; "mirrors" are files on disk."""

import gzip
import hashlib
import io
import zipfile

import pytest
import sklearn.datasets._base

from skdpfl.datasets import _loading
from skdpfl.datasets._loading import DataFile, Source

CONTENT = b"age,charges\n1,2\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A data folder, a cache and a mirror, all empty."""
    for name in ("data", "cache", "mirror"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SKDPFL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_loading, "RETRIES", 0)
    return tmp_path


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def url(places, name="table.csv"):
    return f"file://localhost{places}/mirror/{name}"


def file(*urls, content=CONTENT, **options):
    return DataFile("set/table.csv", sha256(content), urls, **options)


def test_data_folder_comes_before_cache_before_download(places):
    put(places / "mirror/table.csv", CONTENT)
    wanted = file(url(places))
    assert Source().read([wanted]) == [CONTENT]
    cached = places / "cache/set/table.csv"
    assert cached.read_bytes() == CONTENT
    assert list(cached.parent.iterdir()) == [cached]  # nothing half-written is left
    (places / "mirror/table.csv").unlink()
    assert Source(download_if_missing=False).read([wanted]) == [CONTENT]
    put(cached, b"damaged")
    put(places / "data/set/table.csv", CONTENT)
    assert Source().read([wanted]) == [CONTENT]


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_damaged_file_is_refused(places, place):
    put(places / place / "set/table.csv", CONTENT + b"x")
    with pytest.raises(OSError, match="SHA-256") as error:
        Source().read([file(url(places))])
    text = str(error.value)
    assert str(places / place) in text
    assert sha256(CONTENT) in text
    assert sha256(CONTENT + b"x") in text
    assert "delete it" in text


def test_gz_is_known_by_its_content(places):
    for level in (1, 9):
        packed = gzip.compress(CONTENT, compresslevel=level)
        put(places / "data/set/t.gz", packed)
        assert Source().read([DataFile("set/t.gz", sha256(CONTENT), ())]) == [CONTENT]
    for damaged in (packed[:-4], b"not gzip", packed[:12] + b"\xff\xff\xff" + packed[15:]):
        put(places / "data/set/t.gz", damaged)
        with pytest.raises(OSError, match="is damaged"):
            Source().read([DataFile("set/t.gz", sha256(CONTENT), ())])


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_archive_is_downloaded_once_and_checked(places, monkeypatch):
    archive = zipped(a=b"first", b=b"second")
    put(places / "mirror/all.zip", archive)
    opened = []
    original = sklearn.datasets._base.urlretrieve
    monkeypatch.setattr(
        sklearn.datasets._base, "urlretrieve", lambda *a: opened.append(a) or original(*a)
    )
    files = [
        DataFile(f"set/{m}", None, (url(places, "all.zip"),), m, sha256(archive)) for m in "ab"
    ]
    assert Source().read(files) == [b"first", b"second"]
    assert len(opened) == 1
    assert sorted(p.name for p in (places / "cache").rglob("*") if p.is_file()) == ["a", "b"]

    (places / "cache/set/a").unlink()
    put(places / "mirror/all.zip", zipped(a=b"forged"))
    with pytest.raises(OSError, match=rf"expected \({sha256(archive)}\)"):
        Source().read(files)


@pytest.mark.parametrize("allowed", [True, False])
def test_an_absent_file_says_what_to_do(places, allowed):
    wanted = file(url(places, "gone.csv"))
    with pytest.raises(OSError, match=r"set/table.csv was not found") as error:
        Source(download_if_missing=allowed).read([wanted])
    text = str(error.value)
    assert "set the environment variable SKDPFL_DATA to that folder" in text
    assert wanted.urls[0] in text
    assert str(places / "data") in text
    assert str(places / "cache") in text
    assert ("download_if_missing=False" in text) == (not allowed)
