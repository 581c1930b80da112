"""``skdpfl silo check``: what a gate would go by, or one line on what is wrong, without a value."""

import os
import shutil
import sqlite3

import numpy as np
import pytest

from skdpfl.__main__ import main
from skdpfl.service._settings import read_settings
from skdpfl.service._tables import read_records
from tests.remote.silos_here import problem
from tests.service.hospital import Hospital, frame


@pytest.fixture
def hospital(tmp_path):
    return Hospital(tmp_path / "hospital")


def check(hospital, *words):
    return main(["silo", "check", str(hospital.file), *words])


def change(hospital, old, new):
    text = hospital.file.read_text()
    assert old in text
    hospital.file.write_text(text.replace(old, new, 1))


def test_it_says_what_the_gate_would_go_by(hospital, capsys):
    more = "[records.bounds]\na = [-9, 9]\n\n[records.neutral]\nz = 1.5\n\n[terms]"
    change(hospital, "[terms]", f"size = 46\n{more}")
    assert check(hospital) == 0
    said = capsys.readouterr().out
    assert "46 rows of 4 features; target: classes [0, 1]" in said
    assert "kept by all rows: a" in said
    assert "at most epsilon=3 at delta=0.001 a fit" in said
    assert "0 fits, nothing spent of epsilon=5 at delta=0.001; one of epsilon=5 still fits" in said
    assert main(["silo", "ledger", str(hospital.file)]) == 0


def test_there_is_no_ledger_before_the_gate_starts(hospital, capsys):
    asked = ["silo", "ledger", str(hospital.file)]
    for _ in range(2):
        assert main(asked) == 0 and "There is no ledger yet" in capsys.readouterr().out
    assert not (hospital.folder / "north.ledger.fits").exists()
    assert check(hospital) == 0
    (hospital.folder / "north.ledger").unlink()
    for _ in range(2):  # the count tells, which may be on another disk
        with pytest.raises(SystemExit, match="is gone"):
            main(asked)
        shutil.rmtree(hospital.folder / "north.ledger.fits", ignore_errors=True)


SECRET = "HIV positive"
FILES = {
    "no TOML": ("[records]", "[records", "Expected"),
    "another key": (
        "[terms]",
        "[terms]\nepsilonn = 3",
        "has the unknown key 'epsilonn'; valid keys are",
    ),
    "a key is missing": ('target = "ill"', "", "records lacks target"),
    "the wrong type": ("epsilon = 3.0", 'epsilon = "3"', "terms.epsilon has the wrong type"),
    "another word": (
        "[terms]",
        '[terms]\nunit = "row"',
        "terms.unit must be one of 'record', 'person', 'silo'",
    ),
    "no price": ("epsilon = 3.0", "epsilon = 0.0", "terms: epsilon must be a number"),
    "no pace": ("epsilon = 3.0", "epsilon = 3.0\npace = nan", "and terms.pace a number of"),
    "endless": ("epsilon = 3.0", "epsilon = 3.0\npace = inf", "and terms.pace a number of"),
    "a feature twice": ('"c", "d"]', '"c", "c"]', "must name each feature once"),
    "no records": ("records.csv", "others.csv", "there is no such file"),
    "no database": (
        'file = "records.csv"',
        'database = "host=/no/where"\nquery = "select 1 order by 1"',
        "records.database: it cannot be read",
    ),
    "a database without order": ('file = "records.csv"', 'database = "a"', 'with "order by"'),
    "beyond bounds": (
        "[terms]",
        "[records.bounds]\na = [0, 1]\n[terms]",
        "rows have a 'a' outside",
    ),
    "nobody of this name": ("users = []", 'users = ["nobody here"]', "no user 'nobody here'"),
    "a key until no day": (
        "users = []",
        f'silos = {{north = "{"0" * 64} until 2027-02-31"}}',
        "north must be a public key of 64 hex",
    ),
    "a requester's key": (
        "[roster]\n",
        '[roster]\nrequesters = {ann = "12"}\n',
        "roster.requesters.ann must be a public key of 64 hexadecimal digits",
    ),
    "a roster of others": (
        "users = []",
        f'silos = {{x = "{"0" * 64}"}}',
        "lacks this silo, 'north'",
    ),
    "no key": ("users = []", f'silos = {{north = "{"0" * 64}"}}', "this silo has no key"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_one_line(hospital, capsys, name):
    old, new, words = FILES[name]
    hospital.write("empty.key", "")
    change(hospital, old, new)
    with pytest.raises(SystemExit, match=words) as told:
        check(hospital)
    text = str(told.value.code)
    assert text.startswith("skdpfl silo: ") and "\n" not in text


def test_a_key_is_made_once(hospital, capsys):
    """The line that is printed is one of every operator's roster."""
    pytest.importorskip("cryptography")
    with pytest.raises(SystemExit, match="lacks key"):
        main(["silo", "key", str(hospital.file)])
    change(hospital, "users = []", 'users = []\nkey = "north.key"\n[roster.silos]')
    with pytest.raises(SystemExit, match="lacks this silo"):
        main(["silo", "key", str(hospital.file)])
    change(hospital, "[roster.silos]\n", "")
    lines = []
    for _ in range(2):
        assert main(["silo", "key", str(hospital.file)]) == 0
        lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1] and (hospital.folder / "north.key").stat().st_mode & 0o777 == 0o600
    change(hospital, '"north.key"\n', f'"north.key"\n[roster.silos]\n{lines[0]}')
    assert check(hospital) == 0
    assert "roster    north\n" in capsys.readouterr().out
    change(hospital, lines[0][9:19], "0" * 10)
    with pytest.raises(SystemExit, match="another key for this silo"):
        check(hospital)
    hospital.write("north.key", "no key")
    with pytest.raises(SystemExit, match="this is not a key"):
        check(hospital)
    (hospital.folder / "north.key").chmod(0o644)
    with pytest.raises(SystemExit, match="others can read it"):
        check(hospital)


def spoilt(column, value):
    data = frame().astype({"ill": object}) if column == "ill" else frame()
    data = data.astype({column: object})
    data.loc[3, column] = value
    return data


RECORDS = {
    "a stray label": (spoilt("ill", SECRET), "the column 'ill' has text"),
    "a word": (spoilt("a", SECRET), "the column 'a' has text"),
    "a gap": (spoilt("b", None), "the column 'b' has 1 missing values"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_are_wrong_are_named_without_a_value(hospital, name):
    data, words = RECORDS[name]
    hospital.write("records.csv", data.to_csv(index=False))
    with pytest.raises(SystemExit, match=words) as told:
        check(hospital)
    assert SECRET not in str(told.value.code)


@pytest.mark.parametrize("name", ["records.csv", "north.ledger"])
def test_what_others_can_read_is_not_used(hospital, name):
    check(hospital)
    (hospital.folder / name).chmod(0o644)
    with pytest.raises(SystemExit, match=f"{name}: others can read it"):
        check(hospital)


@pytest.mark.skipif(os.getuid() != 0, reason="the gate's user has to be one that is known by name")
def test_the_gate_has_a_user_of_its_own(hospital):
    """Where the SuperNode's user is the gate's, an app could read the records."""
    change(hospital, "allow_simulation = true", "")
    change(hospital, "users = []", 'users = ["root"]')
    with pytest.raises(SystemExit, match="give the gate a user of its own"):
        check(hospital)


def test_records_by_a_query_are_those_of_the_table(hospital):
    """One snapshot, in a given order; every bit of a number."""
    path = hospital.folder / "records.sqlite"
    data = frame()
    with sqlite3.connect(path) as base:
        data.sample(frac=1.0, random_state=0).to_sql("visits", base, index_label="id")
    base.close()
    path.chmod(0o600)
    change(hospital, '"records.csv"', '"records.sqlite"\nquery = "select * from visits"')
    with pytest.raises(SystemExit, match='select with "order by"'):
        check(hospital)
    change(hospital, "from visits", "from visits order by id")
    records = read_records(read_settings(hospital.file))
    X, y, silos = problem()
    assert np.array_equal(records.X, X[silos == 1]) and np.array_equal(records.y, y[silos == 1])
    change(hospital, "from visits", "from wards")
    with pytest.raises(SystemExit, match=r"cannot be read \(DatabaseError\)"):
        check(hospital)


def test_targets_can_be_words_or_numbers(hospital):
    words = frame().assign(ill=np.where(frame().ill == 1, "yes", "no"))
    hospital.write("records.csv", words.to_csv(index=False))
    change(hospital, "classes = [0, 1]", 'classes = ["no", "yes"]')
    assert read_records(read_settings(hospital.file)).classes == ("no", "yes")
    change(hospital, 'classes = ["no", "yes"]', "")
    with pytest.raises(SystemExit, match="the column 'ill' has text"):
        check(hospital)
    hospital.write("records.csv", frame().assign(ill=0.5, w=2.0, t=3).to_csv(index=False))
    change(hospital, 'target = "ill"', 'target = "ill"\nweight = "w"\nexposure = "t"')
    records = read_records(read_settings(hospital.file))
    assert records.classes is None and (records.sample_weight == 2).all()
    assert (records.exposure == 3).all()
    change(hospital, 'exposure = "t"', 'exposure = "w"')  # one column for both
    assert (read_records(read_settings(hospital.file)).exposure == 2).all()


def test_persons_are_a_column(hospital, capsys):
    change(hospital, "[terms]", '[terms]\nunit = "person"')
    with pytest.raises(SystemExit, match=r"needs records\.person"):
        check(hospital)
    hospital.write("records.csv", frame().assign(id=np.arange(len(frame())) // 3).to_csv())
    change(hospital, 'target = "ill"', 'target = "ill"\nperson = "id"')
    assert check(hospital) == 0
    assert f", {-(-len(frame()) // 3)} persons; target" in capsys.readouterr().out


def test_targets_can_be_events_and_times(hospital, capsys):
    change(hospital, 'target = "ill"', 'target = "time"\nevent = "ill"')
    with pytest.raises(SystemExit, match="which have no records"):
        check(hospital)
    change(hospital, "classes = [0, 1]", "")
    change(hospital, "[terms]", "[records.bounds]\ntime = [2, 3]\n[terms]")
    for times, event, words in (
        (2.5, 7, "the column 'ill' must hold 0 and 1"),
        (-1.0, "True", "must be at least 0; some are below"),
        (9.0, 0, "46 rows have a 'time' outside"),
    ):
        hospital.write("records.csv", frame().assign(time=times, ill=event).to_csv(index=False))
        with pytest.raises(SystemExit, match=words):
            check(hospital)
    hospital.write("records.csv", frame().assign(time=2.5).to_csv(index=False))
    assert check(hospital) == 0 and "target: events and times" in capsys.readouterr().out
    records = read_records(read_settings(hospital.file))
    assert (records.y == np.where(frame().ill == 1, 2.5, -2.5)).all()
