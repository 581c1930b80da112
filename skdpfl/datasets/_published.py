"""Published data sets in silos: one table of their files and readers, and a function for each.

Three tables of persons (four hospitals, medical costs, levels of obesity); images of MNIST and
Fashion-MNIST, and of EMNIST and CIFAR-10, each from one large archive.
"""

import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize

from skdpfl._arguments import check_choice
from skdpfl.datasets import _loading
from skdpfl.datasets._loading import Columns, DataFile, DataSet, Shape, Source, shared_docs
from skdpfl.datasets._synthetic import HOW, split_into_silos

# ---- readers, of the contents of a subset's files --------------------------------------------


def read_csv(contents: list[bytes], files: list[DataFile]) -> pd.DataFrame:
    """Return the table in one file."""
    return pd.read_csv(io.BytesIO(contents[0]))


def read_hospitals(contents: list[bytes], files: list[DataFile]) -> pd.DataFrame:
    """Return the hospitals' tables, stacked, with "?" as NaN."""
    names, tables = [*HEART_COLUMNS, "num"], {}
    for hospital, content in zip(HOSPITALS, contents, strict=True):
        source = io.BytesIO(content)
        tables[hospital] = pd.read_csv(source, header=None, names=names, na_values="?", dtype=float)
    return pd.concat(tables, names=["hospital"]).reset_index(level=0).reset_index(drop=True)


def read_idx(contents: list[bytes], files: list[DataFile]) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and the labels in idx files, which alternate."""
    arrays = [parse_idx(*each) for each in zip(contents, files, strict=True)]
    return np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])


def parse_idx(content: bytes, file: DataFile) -> np.ndarray:
    """Return the array of unsigned bytes in an unpacked idx file.

    The format: two zero bytes, a type, the number of axes, big-endian lengths, data.
    """
    kind = content[:3]
    if len(content) < 4 or kind != bytes([0, 0, 8]):
        raise OSError(f"{file.name} is not an idx file of unsigned bytes: it starts with {kind!r}")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise OSError(f"{file.name} is damaged: {len(content)} bytes")
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(np.int64)
    if len(content) - start != np.prod(shape):
        raise OSError(f"{file.name} is damaged: {len(content) - start} values for shape {shape}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_emnist(contents: list[bytes], files: list[DataFile]) -> tuple[np.ndarray, np.ndarray]:
    """Return images, upright, and labels: of the one file, or of NIST's two."""
    if len(files) == 1:
        with np.load(io.BytesIO(contents[0]), allow_pickle=False) as arrays:
            return arrays["X"], arrays["y"]
    images, labels = read_idx(contents, files)
    name = files[0].name
    size = EMNIST_SIZES[name.removeprefix("emnist/")]
    if not len(images) == len(labels) == size:
        raise OSError(
            f"{name} has {len(images)} images, {len(labels)} labels, not {size}: delete it"
        )
    return images.transpose(0, 2, 1), labels


#: records of a file of CIFAR-10, and bytes of an image: a red, a green and a blue plane
_RECORDS, _PIXELS = 10_000, 3 * 32 * 32


def read_cifar10(contents: list[bytes], files: list[DataFile]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3072) and labels (n,)."""
    wanted = _RECORDS * (1 + _PIXELS)
    for content, file in zip(contents, files, strict=True):
        if len(content) != wanted:
            raise OSError(
                f"{file.name} has {len(content)} bytes, expected {wanted}: it is damaged, or not "
                f"of the binary version, which is at {file.urls[0]}"
            )
    rows = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, 1 + _PIXELS)
    labels = rows[:, 0]
    if (most := labels.max()) > 9:
        name = files[int(labels.argmax()) // _RECORDS].name
        raise OSError(f"{name} is damaged: it has the label {most}, the largest is 9")
    return np.ascontiguousarray(rows[:, 1:]), labels


# ---- the table -------------------------------------------------------------------------------

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_BINARY = [0, 1]
HEART_COLUMNS: Columns = {
    "age": (0, 100),
    "sex": _BINARY,
    "cp": [1, 2, 3, 4],
    "trestbps": (50, 250),
    "chol": (0, 600),
    "fbs": _BINARY,
    "restecg": [0, 1, 2],
    "thalach": (50, 220),
    "exang": _BINARY,
    "oldpeak": (-5, 10),
    "slope": [1, 2, 3],
    "ca": (0, 3),
    "thal": [3, 6, 7],
}
#: hardly recorded outside Cleveland
HARDLY_RECORDED = ["slope", "ca", "thal"]
_NO_YES = ["no", "yes"]
_OFTEN = ["no", "Sometimes", "Frequently", "Always"]
_KINDS = ("images-idx3", "labels-idx1")
_IDX = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in _KINDS]
_IDX_SUBSETS = {"all": slice(4), "train": slice(2), "test": slice(2, 4)}
EMNIST_SUBSETS = ("bymerge_test", "balanced_train", "balanced_test")
_EMNIST = [f"emnist-{s.replace('_', '-')}-{k}-ubyte.gz" for s in EMNIST_SUBSETS for k in _KINDS]
#: records of each file of images
EMNIST_SIZES = dict(zip(_EMNIST[::2], (116_323, 112_800, 18_800), strict=True))
#: the by-merge test images in one file, upright; taken where it is at hand
MERGED = DataFile(
    "emnist/emnist_merge47.npz",
    "b49605e2c7addf403182e99e89eb582041e74ebd1e87b1beaa64239b5f2e1179",
    (),
)


@dataclass(frozen=True)
class Published:
    """A row of the table: what reads a data set's files, and where they are.

    Addresses are those of mirrors, where "{}" stands for a file's name, or that of an archive.
    """

    read: Callable[[list[bytes], list[DataFile]], Any]
    names: Sequence[str]
    sha256: Sequence[str | None]  # of each file, unpacked
    addresses: Sequence[str]
    within: str | None = None  # the folder in the archive
    archive_sha256: str | None = None
    #: the first is the default
    subsets: Mapping[str, slice] = field(default_factory=lambda: {"all": slice(None)})
    columns: Columns = field(default_factory=dict)
    target_names: Sequence[str] = ()
    descr: str = ""
    n_silos: int = 10  # unless asked otherwise


_INSURANCE = "https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets/"
#: by the folder of their files
PUBLISHED = {
    "fed_heart_disease": Published(
        read_hospitals,
        [f"processed.{hospital}.data" for hospital in HOSPITALS],
        [
            "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
            "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
            "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
            "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
        ],
        ["https://archive.ics.uci.edu/static/public/45/heart+disease.zip"],
        within="",
        columns=HEART_COLUMNS,
        target_names=("absent", "present"),
    ),
    "insurance": Published(
        read_csv,
        ["insurance.csv"],
        ["505c1cbc2e63d0363bac59501563df2530aadf4cdb9cfee226f4ef32f5468281"],
        [_INSURANCE + "ff933238d9c30da179b7e3ad4b6ca938d67efc53/{}", _INSURANCE + "master/{}"],
        columns={
            "age": (18, 64),
            "sex": ["female", "male"],
            "bmi": (10, 60),
            "children": (0, 10),
            "smoker": ["no", "yes"],
            "region": ["northeast", "northwest", "southeast", "southwest"],
        },
    ),
    "obesity": Published(
        read_csv,
        ["ObesityDataSet_raw_and_data_sinthetic.csv"],
        ["28b6991062855d3d15642e38b1aa9d1b32fb7abbb5abf5b096f1868cd706154b"],
        [
            "https://archive.ics.uci.edu/static/public/544/"
            "estimation+of+obesity+levels+based+on+eating+habits+and+physical+condition.zip"
        ],
        within="",
        columns={
            "Gender": ["Female", "Male"],
            "Age": (14, 61),
            "Height": (1.4, 2.1),
            "Weight": (30, 200),
            "family_history_with_overweight": _NO_YES,
            "FAVC": _NO_YES,
            "FCVC": (1, 3),
            "NCP": (1, 4),
            "CAEC": _OFTEN,
            "SMOKE": _NO_YES,
            "CH2O": (1, 3),
            "SCC": _NO_YES,
            "FAF": (0, 3),
            "TUE": (0, 2),
            "CALC": _OFTEN,
            "MTRANS": ["Automobile", "Bike", "Motorbike", "Public_Transportation", "Walking"],
        },
        target_names=(
            "Insufficient_Weight",
            "Normal_Weight",
            "Overweight_Level_I",
            "Overweight_Level_II",
            "Obesity_Type_I",
            "Obesity_Type_II",
            "Obesity_Type_III",
        ),
    ),
    "mnist": Published(
        read_idx,
        _IDX,
        [
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ],
        [
            "https://ossci-datasets.s3.amazonaws.com/mnist/{}",
            "https://storage.googleapis.com/cvdf-datasets/mnist/{}",
        ],
        subsets=_IDX_SUBSETS,
        target_names=tuple("0123456789"),
        descr="MNIST: 28 x 28 grey images of handwritten digits (LeCun, Cortes, Burges). "
        "OpenML 554.",
    ),
    "fashion_mnist": Published(
        read_idx,
        _IDX,
        [
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ],
        [
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/{}",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{}",
        ],
        subsets=_IDX_SUBSETS,
        target_names=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        descr="Fashion-MNIST: 28 x 28 grey images of articles from Zalando's shop (Xiao, Rasul, "
        "Vollgraf, 2017). MIT licence. OpenML 40996.",
    ),
    "emnist": Published(
        read_emnist,
        _EMNIST,
        [None] * 6,
        ["https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"],
        within="gzip/",
        archive_sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
        subsets={name: slice(2 * i, 2 * i + 2) for i, name in enumerate(EMNIST_SUBSETS)},
        target_names=tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"),
        descr="""EMNIST (subset {subset})

28 x 28 grey images of handwritten digits and letters from NIST Special Database 19, letters whose
two cases look alike merged: 47 classes (Cohen, Afshar, Tapson, van Schaik, 2017). Images are
upright here (NIST's files have them transposed).""",
        n_silos=40,
    ),
    "cifar10": Published(
        read_cifar10,
        [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"],
        [None] * 6,
        ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"],
        within="cifar-10-batches-bin/",
        archive_sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        subsets={"all": slice(6), "train": slice(5), "test": slice(5, 6)},
        target_names=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        descr="CIFAR-10: 32 x 32 colour images (Krizhevsky, 2009).",
    ),
}


def files_of(name: str, subset: str = "all") -> list[DataFile]:
    """Return the files of a subset."""
    row = PUBLISHED[name]
    check_choice("subset", subset, tuple(row.subsets))
    return [
        DataFile(
            f"{name}/{file}",
            sha256,
            tuple(address.format(file) for address in row.addresses),
            None if row.within is None else row.within + file,
            row.archive_sha256,
        )
        for file, sha256 in [*zip(row.names, row.sha256, strict=True)][row.subsets[subset]]
    ]


def load(name: str, source: Source, subset: str = "all") -> Any:
    """Return what the reader of a data set makes of the checked files of a subset."""
    files = files_of(name, subset)
    if subset == "bymerge_test" and source.find(MERGED):
        files = [MERGED]
    return PUBLISHED[name].read(source.read(files), files)


# ---- tables of persons -----------------------------------------------------------------------


def _bunch(name: str, records: DataSet, shape: Shape, **extra: Any) -> Any:
    """Return the Bunch of a table whose categories are still to be encoded."""
    known = PUBLISHED[name]
    columns = {each: has for each, has in known.columns.items() if each in records.data}
    data, bounds = _loading.encoded(records.data, columns, shape.as_frame)
    categories = {each: list(has) for each, has in columns.items() if isinstance(has, list)}
    if known.target_names:
        extra["target_names"] = np.array(known.target_names)
    table = replace(records, data=data, feature_names=list(data.columns), feature_bounds=bounds)
    return shape.bunch(table, categories=categories, **extra)


@shared_docs
def fetch_heart_disease(
    *,
    missing: str = "drop",
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the heart disease data (two classes, four hospitals as silos).

    ================   ===================================
    Records            740 (920 with gaps)
    Features           10 (13 with gaps; 13 or 18 one-hot)
    Classes            2
    Silos              4 hospitals: 303, 261, 46, 130
    ================   ===================================

    The files are looked for in ``$SKDPFL_DATA/fed_heart_disease``, then in the cache, then
    downloaded; their SHA-256 are checked.

    Parameters
    ----------
    missing : {"drop", "keep"}, default="drop"
        ``"drop"``: without the columns slope, ca and thal and without records that have gaps in the
        others. ``"keep"``: everything, gaps are NaN.
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data`, `target` (1: disease), `silos` (names of the hospitals), `feature_names`,
        `target_names`, `feature_bounds` (public knowledge; two arrays, or a mapping column ->
        (low, high) for a frame), `categories`, `frame`, `DESCR`.

    See Also
    --------
    fetch_insurance : Medical charges: numbers.
    fetch_obesity : Seven levels of obesity.
    split_into_silos : Other silos for the same records.

    Notes
    -----
    Patients examined for coronary artery disease in four hospitals: Cleveland, the Hungarian
    Institute of Cardiology, Zurich and Basel (switzerland), and the V.A. Medical Center Long Beach
    (va). The target says whether a vessel is narrowed (1) or not (0). Principal investigators:
    Andras Janosi; William Steinbrunn; Matthias Pfisterer; Robert Detrano. UCI 45, CC BY 4.0.

    Silos: the four hospitals, as in Fed-Heart-Disease of FLamby (Ogier du Terrail et al., NeurIPS
    2022). Their ids reveal where a patient was examined, and nothing else.

    Missing values: missing="drop" leaves out slope, ca and thal, which hardly anyone but Cleveland
    recorded, and then every record with a gap: 303, 261, 46 and 130 records remain. No privacy
    budget covers this choice of records by their values; the remaining sizes count as public.
    missing="keep" gives all 920 records and 13 columns with NaN in the gaps. A cholesterol of 0
    (all of switzerland) is also a missing value, which the source does not mark.

    feature_bounds: the physiologically possible ranges, not learnt from records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_heart_disease
    >>> d = fetch_heart_disease(as_frame=True, silo_column="hospital")  # doctest: +SKIP
    >>> d.data["hospital"].value_counts(sort=False).to_dict()  # doctest: +SKIP
    {'cleveland': 303, 'hungarian': 261, 'switzerland': 46, 'va': 130}
    """
    shape, source = _loading.split_arguments(locals())
    check_choice("missing", missing, ("drop", "keep"))
    table = load("fed_heart_disease", source)
    if missing == "drop":
        table = table.drop(columns=HARDLY_RECORDED).dropna().reset_index(drop=True)
    disease = (table["num"].to_numpy() > 0).astype(np.int64)
    records = DataSet(table, disease, table["hospital"].to_numpy(dtype=object), (), "disease")
    return _bunch("fed_heart_disease", records, shape, DESCR=inspect.getdoc(fetch_heart_disease))


@shared_docs
def fetch_insurance(
    *,
    n_silos: int = 5,
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the medical cost data (regression, silos of sorted charges).

    ================   =========
    Records            1338
    Features           6 (8 one-hot)
    Silos              `n_silos`, sorted by the target
    ================   =========

    The file is looked for in ``$SKDPFL_DATA/insurance/insurance.csv``, then in the cache, then
    downloaded; its SHA-256 is checked.

    Parameters
    ----------
    n_silos : int, default=5
        Number of silos: records sorted by charges, split in equal parts. The silo ids then reveal
        the range of the target.
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data`, `target`, `silos`, `feature_names`, `feature_bounds` (public knowledge; two arrays,
        or a mapping column -> (low, high) for a frame), `target_bounds` (an assumption, see
        `DESCR`), `categories`, `frame`, `DESCR`.

    See Also
    --------
    fetch_obesity : Seven levels of obesity.
    fetch_heart_disease : Four real hospitals.
    split_into_silos : Other silos for the same records.

    Notes
    -----
    1338 insured persons in the United States: age, sex, body mass index, number of dependent
    children, smoker or not, region; the target is the charges for a year in dollars. A data set
    made for teaching, from demographic statistics (Lantz, "Machine Learning with R", 2013). OpenML
    46931.

    Silos: the records sorted by charges and cut in n_silos equal parts, the heterogeneous split of
    the ISRL-DP experiments (Lowy and Razaviyayn, ICLR 2023). Silos made from the target reveal it:
    the silo id, which is public, shows in which part of the range a person's charges are.

    feature_bounds: age 18 to 64 (older people have public insurance, as the source says), body mass
    index 10 to 60, children 0 to 10: general knowledge, not learnt from records.

    target_bounds: 0 to 70,000 dollars. The source gives none, so these are an assumption that holds
    for nearly every insured person. Larger charges would be clipped.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_insurance
    >>> d = fetch_insurance(n_silos=3)  # doctest: +SKIP
    >>> d.data.shape  # doctest: +SKIP
    (1338, 8)
    >>> sorted({int(s) for s in d.silos})  # doctest: +SKIP
    [0, 1, 2]
    """
    shape, source = _loading.split_arguments(locals())
    table = load("insurance", source)
    charges = table["charges"].to_numpy()
    silos = split_into_silos(charges, n_silos, how="sorted")
    records = DataSet(table, charges, silos, (), "charges", target_bounds=(0.0, 70_000.0))
    return _bunch("insurance", records, shape, DESCR=inspect.getdoc(fetch_insurance))


@shared_docs
def fetch_obesity(
    *,
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load the obesity levels data (seven classes, one silo for each).

    ================   =========
    Records            2111
    Features           16 (23 one-hot)
    Classes            7
    Silos              7, one for each class
    ================   =========

    The file is looked for in ``$SKDPFL_DATA/obesity``, then in the cache, then downloaded; its
    SHA-256 is checked.

    Parameters
    ----------
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data`, `target` (0 to 6), `silos` (the names of the classes), `feature_names`,
        `target_names`, `feature_bounds` (public knowledge; two arrays, or a mapping column ->
        (low, high) for a frame), `categories`, `frame`, `DESCR`.

    See Also
    --------
    fetch_insurance : Medical charges: numbers.
    fetch_heart_disease : Four real hospitals.
    split_into_silos : Other silos for the same records.

    Notes
    -----
    2111 persons from Mexico, Peru and Colombia: sex, age, height, weight and a questionnaire on
    eating and activity; the target is one of seven levels from insufficient weight to obesity type
    III, in this order. 77 % of the records are synthetic (SMOTE), as the authors say: a record is
    then not one person. Palechor and de la Hoz Manotas, Data in Brief 25 (2019); UCI 544, OpenML
    46597.

    Silos: one for each class, the most heterogeneous split there is (Lowy and Razaviyayn, ICLR
    2023). The silo id, which is public, is then the label: such a federation protects only the
    features, not the target.

    feature_bounds: age 14 to 61 and the codes of the questionnaire's answers as the authors' paper
    states them; height 1.4 to 2.1 m and weight 30 to 200 kg are general knowledge. None is learnt
    from the records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_obesity
    >>> d = fetch_obesity()  # doctest: +SKIP
    >>> d.data.shape, len(set(d.silos))  # doctest: +SKIP
    ((2111, 23), 7)
    """
    shape, source = _loading.split_arguments(locals())
    table = load("obesity", source)
    names = table["NObeyesdad"].to_numpy(dtype=object)
    target = pd.Categorical(names, categories=PUBLISHED["obesity"].target_names).codes.astype(
        np.int64
    )
    records = DataSet(table, target, names, (), "NObeyesdad")
    return _bunch("obesity", records, shape, DESCR=inspect.getdoc(fetch_obesity))


# ---- images ----------------------------------------------------------------------------------

_SILOS_DESCR = """

Silos: made by split_into_silos; every method except "iid" uses the labels, so that the silo ids,
which are public, reveal something about them.

feature_bounds: 0 and 255, the range of a byte; 0 and 1 for rows of norm 1.
"""
#: arguments that are handed on to split_into_silos
_DEALING = ("alpha", "similarity", "records_per_silo", "random_state")


def _fetches(documented: Callable[[], None]) -> Callable[..., Any]:
    """Make a fetch function of images, of a name and a docstring."""
    data_set = documented.__name__.removeprefix("fetch_")
    row = PUBLISHED[data_set]

    def fetch(
        *,
        subset: str = next(iter(row.subsets)),
        n_silos: int = row.n_silos,
        split: str = "iid",
        alpha: float = 0.5,
        similarity: float = 0.0,
        records_per_silo: int | None = None,
        unit_norm: bool = False,
        random_state: Any = 0,
        silo_column: str | None = None,
        as_frame: bool = False,
        return_X_y: bool = False,
        data_home: Any = None,
        download_if_missing: bool = True,
    ) -> Any:
        return _bunch_of_images(data_set, locals())

    for name in ("__doc__", "__module__", "__name__", "__qualname__"):
        setattr(fetch, name, getattr(documented, name))
    return shared_docs(fetch)


def _bunch_of_images(name: str, arguments: dict[str, Any]) -> Any:
    """Return the Bunch of flat images and labels; of those in no silo as test set.

    ``arguments`` are those of the function that was called.
    """
    shape, source = _loading.split_arguments(arguments)
    images, labels = load(name, source, arguments["subset"])
    unit_norm, n_silos = arguments["unit_norm"], arguments["n_silos"]
    X, target = images.reshape(len(images), -1), labels.astype(np.int64)
    descr = PUBLISHED[name].descr.format(subset=arguments["subset"]) + _SILOS_DESCR
    extra = {"target_names": np.array(PUBLISHED[name].target_names), "DESCR": descr}
    if unit_norm:
        X = normalize(X.astype(np.float32))
    names = [f"pixel{j}" for j in range(1, X.shape[1] + 1)]
    bounds = dict.fromkeys(names, (0.0, 1.0 if unit_norm else 255.0))
    how = check_choice("split", arguments["split"], HOW)
    silos = split_into_silos(target, n_silos, how, **{each: arguments[each] for each in _DEALING})
    table = DataSet(X, target, silos, names, "class", bounds)
    if arguments["records_per_silo"] is None:
        return shape.bunch(table, **extra)
    rest, inside = silos < 0, silos >= 0
    extra["data_test"], extra["target_test"] = Shape(shape.as_frame, True, None).bunch(
        table.rows(rest)
    )
    extra["silo_sizes"] = np.bincount(silos[inside], minlength=n_silos)
    return shape.bunch(table.rows(inside), **extra)


@_fetches
def fetch_mnist() -> None:
    """Load MNIST (ten handwritten digits) in silos.

    ================   =========================
    Records            60,000 train, 10,000 test
    Features           784 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files are looked for in ``$SKDPFL_DATA/mnist``, then in the cache, then downloaded; the
    SHA-256 of their contents are checked.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which images; train comes first.
    n_silos : int, default=10
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255), `target`, `silos`, `feature_names`, `target_names`,
        `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`, `target_test`
        and `silo_sizes`.

    See Also
    --------
    fetch_fashion_mnist : Pictures of clothes.
    fetch_emnist : Handwritten letters and digits.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_mnist
    >>> d = fetch_mnist(subset="test", n_silos=25, split="similarity")  # doctest: +SKIP
    >>> d.data.shape, d.data.dtype, len(set(d.silos))  # doctest: +SKIP
    ((10000, 784), dtype('uint8'), 25)
    """


@_fetches
def fetch_fashion_mnist() -> None:
    """Load Fashion-MNIST (ten kinds of clothes) in silos.

    ================   =========================
    Records            60,000 train, 10,000 test
    Features           784 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files are looked for in ``$SKDPFL_DATA/fashion_mnist``, then in the cache, then downloaded;
    the SHA-256 of their contents are checked.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        Which images; train comes first.
    n_silos : int, default=10
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255), `target`, `silos`, `feature_names`, `target_names`,
        `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`, `target_test`
        and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits.
    fetch_emnist : Handwritten letters and digits.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_fashion_mnist
    >>> d = fetch_fashion_mnist(subset="test", split="sorted")  # doctest: +SKIP
    >>> [str(d.target_names[k]) for k in sorted(set(d.target[d.silos == 9]))]  # doctest: +SKIP
    ['Ankle boot']
    """


@_fetches
def fetch_emnist() -> None:
    """Load EMNIST (47 classes of handwritten characters) in silos.

    ================   ========================================================
    Records            116,323 (by-merge test), 112,800 or 18,800 (balanced)
    Features           784 bytes
    Classes            47
    Silos              as asked
    ================   ========================================================

    Files are searched in ``$SKDPFL_DATA/emnist``, then in the cache; else NIST's archive, 560 MB,
    is downloaded, its SHA-256 checked, and the two files needed are kept.

    Parameters
    ----------
    subset : {"bymerge_test", "balanced_train", "balanced_test"}, default="bymerge_test"
        The test images of the by-class collection with the classes merged (unbalanced), or the
        balanced collection (the DP-SCAFFOLD experiments take ``"balanced_train"``).
        ``"bymerge_test"`` is also read from ``emnist/emnist_merge47.npz``: the same images, perhaps
        in another order.
    n_silos : int, default=40
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255), `target` (0 to 46), `silos`, `feature_names`, `target_names` (the
        characters), `feature_bounds`, `frame`, `DESCR`; with `records_per_silo` also `data_test`,
        `target_test` and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits.
    fetch_fashion_mnist : Pictures of clothes.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_emnist
    >>> d = fetch_emnist(split="sorted")  # doctest: +SKIP
    >>> d.data.shape, len(d.target_names)  # doctest: +SKIP
    ((116323, 784), 47)
    >>> d = fetch_emnist(n_silos=40, records_per_silo=2500)  # doctest: +SKIP
    >>> d.data.shape, d.data_test.shape  # doctest: +SKIP
    ((100000, 784), (16323, 784))

    Only 15 of the 47 classes have 2500 images here, so silos of one class differ in size:

    >>> d = fetch_emnist(n_silos=40, records_per_silo=2500, split="one_class")  # doctest: +SKIP
    >>> int((d.silo_sizes == 2500).sum()), int(d.silo_sizes.min())  # doctest: +SKIP
    (14, 413)
    """


@_fetches
def fetch_cifar10() -> None:
    """Load CIFAR-10 (ten kinds of animals and vehicles) in silos.

    ================   =========================
    Records            50,000 train, 10,000 test
    Features           3072 bytes
    Classes            10
    Silos              as asked
    ================   =========================

    The files of the binary version (``data_batch_1.bin`` to ``data_batch_5.bin``,
    ``test_batch.bin``; no pickles) are looked for in ``$SKDPFL_DATA/cifar10``, then in the cache;
    else the archive, 170 MB, is downloaded, its SHA-256 checked, and the files needed are kept.
    Lengths and labels are always checked.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        The images to load; train comes first.
    n_silos : int, default=10
        Number of silos.
    [dealing]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data` (uint8, 0 to 255: the red, the green and the blue plane, each row by row),
        `target`, `silos`, `feature_names`, `target_names`, `feature_bounds`, `frame`, `DESCR`;
        with `records_per_silo` also `data_test`, `target_test` and `silo_sizes`.

    See Also
    --------
    fetch_mnist : Handwritten digits, in grey.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_cifar10
    >>> d = fetch_cifar10(subset="test", n_silos=25)  # doctest: +SKIP
    >>> d.data.reshape(-1, 3, 32, 32).shape  # doctest: +SKIP
    (10000, 3, 32, 32)
    """
