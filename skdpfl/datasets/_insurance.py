"""Medical cost: what a year of health care cost 1338 insured persons."""

import io
from typing import Any

import pandas as pd

from skdpfl._arguments import check_choice
from skdpfl.datasets._bunch import Shape, Table, shared_docs
from skdpfl.datasets._files import DataFile, Source
from skdpfl.datasets._split import split_into_silos
from skdpfl.datasets._tables import ENCODINGS, Column, categories_of, encoded

_SOURCE = "https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets"
FILE = DataFile(
    name="insurance/insurance.csv",
    sha256="505c1cbc2e63d0363bac59501563df2530aadf4cdb9cfee226f4ef32f5468281",
    urls=(
        f"{_SOURCE}/ff933238d9c30da179b7e3ad4b6ca938d67efc53/insurance.csv",
        f"{_SOURCE}/master/insurance.csv",
    ),
)
COLUMNS = (
    Column("age", (18, 64)),
    Column("sex", categories=("female", "male")),
    Column("bmi", (10, 60)),
    Column("children", (0, 10)),
    Column("smoker", categories=("no", "yes")),
    Column("region", categories=("northeast", "northwest", "southeast", "southwest")),
)
DESCR = """Medical cost (insurance)

1338 insured persons in the United States: age, sex, body mass index, number of dependent children,
smoker or not, region; the target is the charges for a year in dollars. A data set made for
teaching, from demographic statistics (Lantz, "Machine Learning with R", 2013). OpenML 46931.

Silos: the records sorted by charges and cut in n_silos equal parts, the heterogeneous split of the
ISRL-DP experiments (Lowy and Razaviyayn, ICLR 2023). Silos made from the target publish it: the
silo id, which is public, tells in which part of the range a person's charges lie.

feature_bounds: age 18 to 64 (who is older has public insurance, as the source says), body mass
index 10 to 60, children 0 to 10: general knowledge, learnt from no record. The charges have no
publicly known upper bound; what you give as target_bounds is your assumption.
"""


@shared_docs
def fetch_insurance(
    *,
    n_silos: int = 5,
    encoding: str = "auto",
    silo_column: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
    cache: bool = True,
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
        Number of silos: records sorted by charges, cut in equal parts. The silo ids then publish
        the range of the target.
    [encoding]
    [shape]
    [source]

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        `data`, `target`, `silos`, `feature_names`, `feature_bounds` (public knowledge; two arrays,
        or a mapping column -> (low, high) for a frame), `categories`, `frame`, `DESCR`.

    See Also
    --------
    fetch_obesity : Seven levels of obesity.
    fetch_heart_disease : Four real hospitals.
    split_into_silos : Other silos for the same records.

    Examples
    --------
    >>> from skdpfl.datasets import fetch_insurance
    >>> d = fetch_insurance(n_silos=3)  # doctest: +SKIP
    >>> d.data.shape  # doctest: +SKIP
    (1338, 8)
    >>> sorted({int(s) for s in d.silos})  # doctest: +SKIP
    [0, 1, 2]
    """
    shape = Shape(as_frame, return_X_y, silo_column)
    check_choice("encoding", encoding, ENCODINGS)
    (content,) = Source(data_home, download_if_missing, cache).read([FILE])
    table = pd.read_csv(io.BytesIO(content))
    data, bounds = encoded(table, COLUMNS, encoding, as_frame)
    charges = table["charges"].to_numpy()
    silos = split_into_silos(charges, n_silos, how="sorted")
    return shape.bunch(
        Table(data, charges, silos, list(data.columns), "charges", bounds),
        categories=categories_of(COLUMNS),
        DESCR=DESCR,
    )
