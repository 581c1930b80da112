"""Heart disease: patients of four hospitals, a federation as it came."""

import io
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, Table, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._tables import ENCODINGS, Column, categories_of, encoded

_ARCHIVE = "https://archive.ics.uci.edu/static/public/45/heart+disease.zip"
_SHA256 = {
    "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
    "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
    "va": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
}
FILES = {
    hospital: DataFile(
        f"fed_heart_disease/processed.{hospital}.data",
        sha256,
        (_ARCHIVE,),
        member=f"processed.{hospital}.data",
    )
    for hospital, sha256 in _SHA256.items()
}
_BINARY = (0, 1)
COLUMNS: tuple[Column, ...] = (
    Column("age", (0, 100)),
    Column("sex", categories=_BINARY),
    Column("cp", categories=(1, 2, 3, 4)),
    Column("trestbps", (50, 250)),
    Column("chol", (0, 600)),
    Column("fbs", categories=_BINARY),
    Column("restecg", categories=(0, 1, 2)),
    Column("thalach", (50, 220)),
    Column("exang", categories=_BINARY),
    Column("oldpeak", (-5, 10)),
    Column("slope", categories=(1, 2, 3)),
    Column("ca", (0, 3)),
    Column("thal", categories=(3, 6, 7)),
)
#: hardly recorded outside Cleveland
SPARSE = ("slope", "ca", "thal")
DESCR = """Heart disease

Patients examined for coronary artery disease in four hospitals: Cleveland, the Hungarian Institute
of Cardiology, Zurich and Basel (switzerland), and the V.A. Medical Center Long Beach (va). The
target says whether a vessel is narrowed (1) or not (0). Principal investigators: Andras Janosi;
William Steinbrunn; Matthias Pfisterer; Robert Detrano. UCI 45, CC BY 4.0.

Silos: the four hospitals, as in Fed-Heart-Disease of FLamby (Ogier du Terrail et al., NeurIPS
2022). Their ids publish where a patient was examined, nothing else.

Missing values: missing="drop" leaves out slope, ca and thal, which hardly anyone but Cleveland
recorded, and then every record with a gap: 303, 261, 46 and 130 records remain. Choosing records by
their own values is a step no budget paid for; the sizes that remain count as public. missing="keep"
gives all 920 records and 13 columns with NaN in the gaps. A cholesterol of 0 (all of switzerland)
is a gap, too, which the source does not mark.

feature_bounds: what is physiologically possible, learnt from no record.
"""


@shared_docs
def fetch_heart_disease(
    *,
    missing: str = "drop",
    encoding: str = "auto",
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
    cache: bool = True,
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
    [encoding]
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

    Examples
    --------
    >>> from skdpfl.datasets import fetch_heart_disease
    >>> d = fetch_heart_disease(as_frame=True, silo_column="hospital")  # doctest: +SKIP
    >>> d.data["hospital"].value_counts(sort=False).to_dict()  # doctest: +SKIP
    {'cleveland': 303, 'hungarian': 261, 'switzerland': 46, 'va': 130}
    """
    shape = Shape(as_frame, return_X_y, silo_column)
    check_choice("encoding", encoding, ENCODINGS)
    check_choice("missing", missing, ("drop", "keep"))
    contents = Source(data_home, download_if_missing, cache).read(list(FILES.values()))
    columns = COLUMNS
    table = _stack(contents)
    if missing == "drop":
        columns = tuple(c for c in COLUMNS if c.name not in SPARSE)
        table = table.drop(columns=list(SPARSE)).dropna().reset_index(drop=True)
    data, bounds = encoded(table, columns, encoding, as_frame)
    disease = (table["num"].to_numpy() > 0).astype(np.int64)
    hospitals = table["hospital"].to_numpy(dtype=object)
    return shape.bunch(
        Table(data, disease, hospitals, list(data.columns), "disease", bounds),
        target_names=np.array(["absent", "present"]),
        categories=categories_of(columns),
        DESCR=DESCR,
    )


def _stack(contents: list[bytes]) -> pd.DataFrame:
    """The hospitals' tables under one another, "?" as NaN."""
    names = [c.name for c in COLUMNS] + ["num"]
    tables = [
        pd.read_csv(io.BytesIO(content), header=None, names=names, na_values="?", dtype=float)
        for content in contents
    ]
    sizes = [len(t) for t in tables]
    stacked = pd.concat(tables, ignore_index=True)
    return stacked.assign(hospital=np.repeat(list(FILES), sizes))
