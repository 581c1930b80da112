"""Tables of persons: heart disease in four hospitals, medical costs, levels of obesity."""

import inspect
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.datasets import _loading
from skdpfl.datasets._loading import Columns, DataFile, DataSet, Shape, encoded, shared_docs
from skdpfl.datasets._synthetic import split_into_silos

_HEART_ARCHIVE = "https://archive.ics.uci.edu/static/public/45/heart+disease.zip"
_HEART_SHA256 = {
    "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
    "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
    "va": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
}
HEART_FILES = {
    hospital: DataFile(
        f"fed_heart_disease/processed.{hospital}.data",
        sha256,
        (_HEART_ARCHIVE,),
        member=f"processed.{hospital}.data",
    )
    for hospital, sha256 in _HEART_SHA256.items()
}
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
HARDLY_RECORDED = ("slope", "ca", "thal")


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
    DataSet            740 (920 with gaps)
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
    columns, table = HEART_COLUMNS, _stack(source.read(list(HEART_FILES.values())))
    if missing == "drop":
        columns = {c: known for c, known in columns.items() if c not in HARDLY_RECORDED}
        table = table.drop(columns=list(HARDLY_RECORDED)).dropna().reset_index(drop=True)
    disease = (table["num"].to_numpy() > 0).astype(np.int64)
    return _bunch(
        DataSet(table, disease, table["hospital"].to_numpy(dtype=object), (), "disease"),
        columns,
        shape,
        target_names=np.array(["absent", "present"]),
        DESCR=inspect.getdoc(fetch_heart_disease),
    )


def _stack(contents: list[bytes]) -> pd.DataFrame:
    """Return the hospitals' tables, stacked, with "?" as NaN."""
    names = [*HEART_COLUMNS, "num"]
    tables = [
        pd.read_csv(io.BytesIO(content), header=None, names=names, na_values="?", dtype=float)
        for content in contents
    ]
    sizes = [len(t) for t in tables]
    stacked = pd.concat(tables, ignore_index=True)
    return stacked.assign(hospital=np.repeat(list(HEART_FILES), sizes))


_INSURANCE_SOURCE = "https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets"
INSURANCE_FILE = DataFile(
    name="insurance/insurance.csv",
    sha256="505c1cbc2e63d0363bac59501563df2530aadf4cdb9cfee226f4ef32f5468281",
    urls=(
        f"{_INSURANCE_SOURCE}/ff933238d9c30da179b7e3ad4b6ca938d67efc53/insurance.csv",
        f"{_INSURANCE_SOURCE}/master/insurance.csv",
    ),
)
INSURANCE_COLUMNS: Columns = {
    "age": (18, 64),
    "sex": ["female", "male"],
    "bmi": (10, 60),
    "children": (0, 10),
    "smoker": ["no", "yes"],
    "region": ["northeast", "northwest", "southeast", "southwest"],
}


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
    DataSet            1338
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
    table = pd.read_csv(io.BytesIO(source.read([INSURANCE_FILE])[0]))
    charges = table["charges"].to_numpy()
    silos = split_into_silos(charges, n_silos, how="sorted")
    records = DataSet(table, charges, silos, (), "charges", target_bounds=(0.0, 70_000.0))
    return _bunch(records, INSURANCE_COLUMNS, shape, DESCR=inspect.getdoc(fetch_insurance))


OBESITY_FILE = DataFile(
    name="obesity/ObesityDataSet_raw_and_data_sinthetic.csv",
    sha256="28b6991062855d3d15642e38b1aa9d1b32fb7abbb5abf5b096f1868cd706154b",
    urls=(
        "https://archive.ics.uci.edu/static/public/544/"
        "estimation+of+obesity+levels+based+on+eating+habits+and+physical+condition.zip",
    ),
    member="ObesityDataSet_raw_and_data_sinthetic.csv",
)
_NO_YES = ["no", "yes"]
_OFTEN = ["no", "Sometimes", "Frequently", "Always"]
OBESITY_COLUMNS: Columns = {
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
}
LEVELS = (
    "Insufficient_Weight",
    "Normal_Weight",
    "Overweight_Level_I",
    "Overweight_Level_II",
    "Obesity_Type_I",
    "Obesity_Type_II",
    "Obesity_Type_III",
)


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
    DataSet            2111
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
    table = pd.read_csv(io.BytesIO(source.read([OBESITY_FILE])[0]))
    names = table["NObeyesdad"].to_numpy(dtype=object)
    target = pd.Categorical(names, categories=LEVELS).codes.astype(np.int64)
    return _bunch(
        DataSet(table, target, names, (), "NObeyesdad"),
        OBESITY_COLUMNS,
        shape,
        target_names=np.array(LEVELS),
        DESCR=inspect.getdoc(fetch_obesity),
    )


def _bunch(records: DataSet, columns: Columns, shape: Shape, **extra: Any) -> Any:
    """Return the Bunch of a table whose categories are still to be encoded."""
    data, bounds = encoded(records.data, columns, shape.as_frame)
    categories = {name: list(known) for name, known in columns.items() if isinstance(known, list)}
    table = replace(records, data=data, feature_names=list(data.columns), feature_bounds=bounds)
    return shape.bunch(table, categories=categories, **extra)
