"""The loaders: on tiny files of the same form, and on the real ones where they are at hand."""

import gzip
import hashlib
import os
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skdpfl import datasets
from skdpfl.datasets import _published
from skdpfl.datasets._loading import DataFile

INSURANCE = b"""age,sex,bmi,children,smoker,region,charges
19,female,27.9,0,yes,southwest,400.5
18,male,33.77,1,no,southeast,100
28,male,33,3,no,northwest,300
33,female,22.705,0,no,northeast,200
60,female,25.84,0,no,northwest,250
"""
OBESITY = b"""Gender,Age,Height,Weight,family_history_with_overweight,FAVC,FCVC,NCP,CAEC,SMOKE,\
CH2O,SCC,FAF,TUE,CALC,MTRANS,NObeyesdad
Female,21,1.62,64,yes,no,2,3,Sometimes,no,2,no,0,1,no,Public_Transportation,Normal_Weight
Male,23,1.8,77,yes,no,2,3,Always,no,2,no,2,1,Frequently,Walking,Obesity_Type_III
Male,27,1.8,87,no,no,3,3,no,yes,2,no,2,0,Frequently,Bike,Insufficient_Weight
"""
HEART = {
    "cleveland": b"63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"
    b"67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2\n",
    "hungarian": b"28,1,2,130,132,0,2,185,0,0,?,?,?,0\n29,1,2,120,243,?,0,160,0,0,?,?,?,1\n",
    "switzerland": b"32,1,1,95,0,0,0,127,0,.7,1,?,?,1\n",
    "va": b"44,0,4,130,209,0,1,127,0,0,?,?,?,0\n",
}
IMAGES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
LABELS = np.array([2, 0, 1], dtype=np.uint8)
COMMON = {"download_if_missing": False}
TABLES = {
    "insurance": (datasets.fetch_insurance, 5),
    "obesity": (datasets.fetch_obesity, 3),
    "heart": (datasets.fetch_heart_disease, 5),
}
each_table = pytest.mark.parametrize(("fetch", "n"), TABLES.values(), ids=TABLES)


def idx(array):
    lengths = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes()


def put(folder, file, content):
    """Write the file of a data set; give its description with the right checksum."""
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return replace(file, sha256=hashlib.sha256(content).hexdigest(), urls=())


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A data folder with tiny files."""
    monkeypatch.setenv("SKDPFL_DATA", str(tmp_path))
    monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "none"))
    contents = {"insurance": [INSURANCE], "obesity": [OBESITY], "fed_heart_disease": HEART.values()}
    contents |= dict.fromkeys(("mnist", "fashion_mnist"), [idx(IMAGES), idx(LABELS)] * 2)
    for name, own in contents.items():
        pairs = zip(_published.files_of(name), own, strict=True)
        sums = [put(tmp_path, file, content).sha256 for file, content in pairs]
        row = replace(_published.PUBLISHED[name], sha256=sums, addresses=())
        monkeypatch.setitem(_published.PUBLISHED, name, row)
    return tmp_path


@each_table
class TestTables:
    def test_arrays(self, fake, fetch, n):
        bunch = fetch(**COMMON)
        assert bunch.data.dtype == np.float64
        assert bunch.data.shape == (n, len(bunch.feature_names))
        assert bunch.target.shape == bunch.silos.shape == (n,)
        low, high = bunch.feature_bounds
        assert low.shape == high.shape == (bunch.data.shape[1],)
        assert (low < high).all()
        assert ((bunch.data >= low) & (bunch.data <= high)).all()
        X, y = fetch(return_X_y=True, **COMMON)
        np.testing.assert_array_equal(X, bunch.data)
        np.testing.assert_array_equal(y, bunch.target)

    def test_encodings_agree(self, fake, fetch, n):
        raw, array = fetch(as_frame=True, **COMMON), fetch(**COMMON)
        onehot = dict(zip(array.feature_names, array.data.T, strict=True))
        for name, categories in raw.categories.items():
            for category in categories[1:]:
                np.testing.assert_array_equal(
                    onehot[f"{name}_{category}"], raw.data[name] == category
                )


def test_insurance(fake):
    bunch = datasets.fetch_insurance(n_silos=2, **COMMON)
    assert bunch.target.tolist() == [400.5, 100, 300, 200, 250]
    assert bunch.silos.tolist() == [1, 0, 1, 0, 0]
    assert bunch.feature_names[:3] == ["age", "sex_male", "bmi"]
    assert bunch.data[1, :3].tolist() == [18, 1, 33.77]
    assert bunch.target_bounds == (0, 70_000) and "an assumption" in bunch.DESCR
    assert "reveal it" in bunch.DESCR


def test_heart_disease(fake):
    dropped = datasets.fetch_heart_disease(**COMMON)
    hospitals = ["cleveland", "cleveland", "hungarian", "switzerland", "va"]
    assert dropped.silos.tolist() == hospitals
    assert dropped.target.tolist() == [0, 1, 0, 1, 0]
    kept = datasets.fetch_heart_disease(missing="keep", as_frame=True, **COMMON)
    assert kept.data.shape == (6, 13)
    assert kept.data.isna().sum().sum() == 3 + 4 + 2 + 3
    encoded = datasets.fetch_heart_disease(missing="keep", **COMMON).data
    assert np.isnan(encoded).sum() == (2 + 1 + 2) + (2 + 1 + 2 + 1) + (1 + 2) + (2 + 1 + 2)
    with pytest.raises(ValueError, match=r"missing must be one of .*got 'impute'"):
        datasets.fetch_heart_disease(missing="impute", **COMMON)


@pytest.mark.parametrize("fetch", [datasets.fetch_mnist, datasets.fetch_fashion_mnist])
class TestIdxImages:
    def test_subsets(self, fake, fetch):
        bunch = fetch(n_silos=2, **COMMON)
        assert bunch.data.dtype == np.uint8
        np.testing.assert_array_equal(bunch.data, np.tile(IMAGES.reshape(3, 4), (2, 1)))
        assert bunch.target.tolist() == [2, 0, 1, 2, 0, 1]
        assert len(bunch.target_names) == 10
        assert fetch(subset="test", n_silos=3, **COMMON).data.shape == (3, 4)
        assert bunch.feature_bounds[1].tolist() == [255.0] * 4

    def test_what_is_in_no_silo_is_the_test_set(self, fake, fetch):
        some = {"n_silos": 2, "records_per_silo": 2, **COMMON}
        bunch = fetch(**some)
        assert bunch.data.shape == (4, 4)
        assert bunch.silo_sizes.tolist() == np.bincount(bunch.silos).tolist() == [2, 2]
        together = np.concatenate([bunch.target, bunch.target_test])
        assert sorted(together) == [0, 0, 1, 1, 2, 2]
        for X, y in ((bunch.data, bunch.target), (bunch.data_test, bunch.target_test)):
            np.testing.assert_array_equal(X, IMAGES.reshape(3, 4)[np.array([1, 2, 0])[y]])
        frame = fetch(as_frame=True, silo_column="g", **some)
        assert list(frame.data.columns)[-1] == "g"
        assert list(frame.data_test.columns) == ["pixel1", "pixel2", "pixel3", "pixel4"]
        assert frame.target_test.tolist() == bunch.target_test.tolist()


@pytest.mark.parametrize("content", [b"\x00\x00\x0d\x01\x00\x00\x00\x00", idx(IMAGES)[:-1], b""])
def test_damaged_idx(content):
    with pytest.raises(OSError, match=r"is not an idx file|is damaged: 11 values for shape"):
        _published.parse_idx(content, DataFile("x", None, ()))


def test_emnist_from_the_archive_is_turned_upright(tmp_path, monkeypatch):
    monkeypatch.delenv("SKDPFL_DATA", raising=False)
    monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "cache"))
    files = _published.files_of("emnist", "balanced_test")
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for file, array in zip(files, (IMAGES, LABELS), strict=True):
            archive.writestr(file.member, gzip.compress(idx(array)))
    sha256 = hashlib.sha256((tmp_path / "gzip.zip").read_bytes()).hexdigest()
    urls = (f"file://localhost{tmp_path}/gzip.zip",)
    row = replace(_published.PUBLISHED["emnist"], addresses=urls, archive_sha256=sha256)
    monkeypatch.setitem(_published.PUBLISHED, "emnist", row)
    name = files[0].name.removeprefix("emnist/")
    monkeypatch.setitem(_published.EMNIST_SIZES, name, 3)
    bunch = datasets.fetch_emnist(subset="balanced_test", n_silos=3)
    np.testing.assert_array_equal(bunch.data[0], [0, 2, 1, 3])
    assert bunch.target.tolist() == [2, 0, 1]
    monkeypatch.setitem(_published.EMNIST_SIZES, name, 4)
    with pytest.raises(OSError, match="has 3 images, 3 labels, not 4"):
        datasets.fetch_emnist(subset="balanced_test", n_silos=3)
    with pytest.raises(ValueError, match=r"subset must be one of .*got 'letters'"):
        datasets.fetch_emnist(subset="letters")


class TestCifar:
    @pytest.fixture
    def files(self, tmp_path, monkeypatch):
        """Six files of three records each."""
        monkeypatch.setenv("SKDPFL_DATA", str(tmp_path))
        monkeypatch.setenv("SKDPFL_CACHE", str(tmp_path / "none"))
        monkeypatch.setattr(_published, "_RECORDS", 3)
        (tmp_path / "cifar10").mkdir()
        planes = np.arange(3 * 3 * 1024, dtype=np.uint32).reshape(3, 3072) // 1024
        for i, file in enumerate(_published.files_of("cifar10")):
            labels = np.array([i, 9, 0])[:, None]
            content = np.concatenate([labels, planes], axis=1).astype(np.uint8)
            (tmp_path / file.name).write_bytes(content.tobytes())
        return tmp_path / "cifar10"

    def test_planes_and_labels(self, files):
        bunch = datasets.fetch_cifar10(n_silos=2)
        assert bunch.data.shape == (18, 3072) and bunch.data.dtype == np.uint8
        assert bunch.data.reshape(18, 3, 32, 32)[:3, :, 5, 7].tolist() == [
            [0, 1, 2],
            [3, 4, 5],
            [6, 7, 8],
        ]
        assert bunch.target[::3].tolist() == [0, 1, 2, 3, 4, 5]
        assert bunch.target_names[bunch.target[1]] == "truck"
        test = datasets.fetch_cifar10(subset="test", n_silos=1)
        assert test.target.tolist() == [5, 9, 0]

    def test_damage_is_of_a_file(self, files):
        path = files / "data_batch_2.bin"
        content = path.read_bytes()
        path.write_bytes(content[:3073] + bytes([10]) + content[3074:])
        with pytest.raises(OSError, match=r"data_batch_2.bin is damaged: it has the label 10"):
            datasets.fetch_cifar10(subset="train", n_silos=1)
        path.write_bytes(content[:-1])
        with pytest.raises(OSError, match=r"data_batch_2.bin has 9218 bytes, expected 9219"):
            datasets.fetch_cifar10(subset="train", n_silos=1)


real = pytest.mark.skipif("SKDPFL_DATA" not in os.environ, reason="SKDPFL_DATA is not set")


@real
@pytest.mark.parametrize(
    ("fetch", "shape", "sizes"),
    [
        (datasets.fetch_insurance, (1338, 8), {267, 268}),
        (datasets.fetch_obesity, (2111, 23), {272, 287, 290, 351, 297, 324}),
        (datasets.fetch_heart_disease, (740, 13), {303, 261, 46, 130}),
    ],
)
def test_real_tables(fetch, shape, sizes):
    bunch = fetch()
    assert bunch.data.shape == shape
    assert set(pd.Series(bunch.silos).value_counts()) == sizes
    assert np.isfinite(bunch.data).all()
    low, high = bunch.feature_bounds
    inside = (bunch.data >= low) & (bunch.data <= high)
    # public knowledge should hold; a rare record may break it and is clipped
    assert inside.mean(axis=0).min() > 0.99
