"""Obesity levels: 2111 persons, their habits and seven levels of weight."""

import io
from typing import Any

import numpy as np
import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, Table, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._tables import ENCODINGS, Column, categories_of, encoded

FILE = DataFile(
    name="obesity/ObesityDataSet_raw_and_data_sinthetic.csv",
    sha256="28b6991062855d3d15642e38b1aa9d1b32fb7abbb5abf5b096f1868cd706154b",
    urls=(
        "https://archive.ics.uci.edu/static/public/544/"
        "estimation+of+obesity+levels+based+on+eating+habits+and+physical+condition.zip",
    ),
    member="ObesityDataSet_raw_and_data_sinthetic.csv",
)
_YES = ("no", "yes")
_OFTEN = ("no", "Sometimes", "Frequently", "Always")
COLUMNS = (
    Column("Gender", categories=("Female", "Male")),
    Column("Age", (14, 61)),
    Column("Height", (1.4, 2.1)),
    Column("Weight", (30, 200)),
    Column("family_history_with_overweight", categories=_YES),
    Column("FAVC", categories=_YES),
    Column("FCVC", (1, 3)),
    Column("NCP", (1, 4)),
    Column("CAEC", categories=_OFTEN),
    Column("SMOKE", categories=_YES),
    Column("CH2O", (1, 3)),
    Column("SCC", categories=_YES),
    Column("FAF", (0, 3)),
    Column("TUE", (0, 2)),
    Column("CALC", categories=_OFTEN),
    Column(
        "MTRANS", categories=("Automobile", "Bike", "Motorbike", "Public_Transportation", "Walking")
    ),
)
LEVELS = (
    "Insufficient_Weight",
    "Normal_Weight",
    "Overweight_Level_I",
    "Overweight_Level_II",
    "Obesity_Type_I",
    "Obesity_Type_II",
    "Obesity_Type_III",
)
DESCR = """Obesity levels

2111 persons from Mexico, Peru and Colombia: sex, age, height, weight and a questionnaire on eating
and activity; the target is one of seven levels from insufficient weight to obesity type III, in
this order. 77 % of the records are synthetic (SMOTE), as the authors say: a record is then not one
person. Palechor and de la Hoz Manotas, Data in Brief 25 (2019); UCI 544, OpenML 46597.

Silos: one for each class, the most heterogeneous split there is (Lowy and Razaviyayn, ICLR 2023).
The silo id, which is public, is then the label: such a federation hides nothing about the target
itself, only the features.

feature_bounds: age 14 to 61 and the codes of the questionnaire's answers as the authors' paper
states them; height 1.4 to 2.1 m and weight 30 to 200 kg are general knowledge. None is learnt from
the records.
"""


@shared_docs
def fetch_obesity(
    *,
    encoding: str = "auto",
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
    cache: bool = True,
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
    [encoding]
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

    Examples
    --------
    >>> from skdpfl.datasets import fetch_obesity
    >>> d = fetch_obesity()  # doctest: +SKIP
    >>> d.data.shape, len(set(d.silos))  # doctest: +SKIP
    ((2111, 23), 7)
    """
    shape = Shape(as_frame, return_X_y, silo_column)
    check_choice("encoding", encoding, ENCODINGS)
    (content,) = Source(data_home, download_if_missing, cache).read([FILE])
    table = pd.read_csv(io.BytesIO(content))
    data, bounds = encoded(table, COLUMNS, encoding, as_frame)
    names = table["NObeyesdad"].to_numpy(dtype=object)
    target = pd.Categorical(names, categories=LEVELS).codes.astype(np.int64)
    return shape.bunch(
        Table(data, target, names, list(data.columns), "NObeyesdad", bounds),
        target_names=np.array(LEVELS),
        categories=categories_of(COLUMNS),
        DESCR=DESCR,
    )
