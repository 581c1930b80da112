"""The page about a fit: whole, true, of no network, and the same in a browser."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdpfl
from skdpfl import DPFedAvgClassifier, DPFedEXPRegressor, ISRLDPClassifier, ISRLDPRegressor
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.inspection import affordable_features, describe
from skdpfl.model_selection import DPRandomizedSearchCV, SharedBudget
from skdpfl.models import MLP
from skdpfl.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpfl.privacy import PrivacyLedger, PrivacySpent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3)).clip(-4, 4)
Y = X @ [1.0, -1.0, 0.5] + RNG.normal(size=600) > 0
SILOS = np.repeat(["north", "<b>south</b>"], 300)
HOW = {"feature_bounds": (-4, 4)}


def classifier(epsilon=2.0, **how):
    return ISRLDPClassifier(epsilon, n_rounds=5, **HOW, **how)


FITTED = {
    "estimator": lambda: classifier().fit(X, Y, silos=SILOS),
    "budgets": lambda: classifier({"north": 1.0, "<b>south</b>": 2.0}).fit(X, Y, silos=SILOS),
    "server": lambda: classifier(trust="server").fit(X, Y, silos=SILOS),
    "simulated": lambda: classifier(random_state=0).fit(X, Y, silos=SILOS),
    "whole silos": lambda: DPFedEXPRegressor(
        8.0, n_rounds=3, scaling=None, target_bounds=(-5, 5)
    ).fit(X, X[:, 0], silos=np.arange(600) % 60),
    "imputer": lambda: DPSimpleImputer(**HOW).fit(X, silos=SILOS),
    "encoder": lambda: DPOneHotEncoder(5.0).fit(SILOS[:, None]),
    "pipeline": lambda: make_pipeline(DPStandardScaler(), classifier()).fit(X, Y),
    "search": lambda: DPRandomizedSearchCV(
        classifier(), {"alpha": [0.0, 0.1]}, epsilon=3.0, n_iter=2
    ).fit(X, Y, silos=SILOS),
    "shared": lambda: SharedBudget(
        make_pipeline(DPStandardScaler(), classifier()), epsilon=3.0, delta=1e-5
    ).fit(X, Y),
}


def test_an_attack_that_always_wins_is_right_in_100_of_100():
    with pytest.warns(UserWarning, match="promises next to nothing"):
        page = skdpfl.report(classifier(60.0).fit(X, Y))._repr_html_()
    assert "at most 100 of 100 cases" in page and "e+0" not in page


class Reader(HTMLParser):
    """Checks that tags are closed, and collects text, tags and what they refer to."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words, self.refers = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.refers += [v for n, v in attrs if n in ("src", "href", "data", "action", "onload")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FITTED)
def test_a_page_is_whole_and_says_what_the_fit_cost(name):
    fitted = FITTED[name]()
    spent = skdpfl.privacy_spent(fitted)
    found = skdpfl.report(fitted)
    assert found.spent == spent
    reader = read(found.to_html())
    assert not reader.refers and not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert not re.search(r"https?:|//\w|@import|url\(", found.to_html())
    text = " ".join(reader.words)
    assert "delta 1e-06" in text and type(fitted).__name__ in text
    assert f"epsilon = {at_most(spent.epsilon)}" in text
    against = "outside the silo" if spent.unit == "silo" else "outside the record's own silo"
    assert (against if spent.trust == "silo" else "the server itself is trusted") in text
    assert ("replacing one" if spent.neighbours == "replace" else "to zero") in text
    machine = json.loads(next(w for w in reader.words if w.startswith("{\n")))
    assert PrivacySpent.from_dict(machine).epsilon == spent.epsilon
    assert ("simulated from a fixed seed" in text) == (name == "simulated")
    held = name in ("pipeline", "search", "shared")
    whole = "No other step of it" if held else "Steps before this fit, if there were"
    assert "Not paid for" not in text and whole in text
    body = found._repr_html_()
    assert body in found.to_html() and "<html" not in body


def test_a_shared_budget_tells_silos_sizes_and_each_step():
    shared = SharedBudget(
        make_pipeline(DPStandardScaler(**HOW), classifier()), epsilon=3.0, delta=1e-5
    ).fit(X, Y, silos=SILOS)
    found = skdpfl.report(shared)
    text = " ".join(read(found.to_html()).words)
    steps = [step.privacy_spent_ for _, step in shared.estimator_.steps]
    for own in steps:
        assert f"epsilon {at_most(own.epsilon)} at delta {own.delta:g}" in text
    for words in ("600 records of 2 silos", "<b>south</b>, north", "300, 300"):
        assert words in text, words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "words"),
    [(1.0, "as Gaussian mechanisms"), (0.1, "by their privacy loss distributions")],
)
def test_the_accountant_that_is_named_is_the_one_that_ran(rate, words):
    model = classifier(sampling_rate=rate, random_state=0).fit(X, Y, silos=SILOS)
    found = skdpfl.report(model)
    text = " ".join(read(found.to_html()).words)
    assert model.privacy_spent_.accountant == {1.0: "gdp", 0.1: "pld"}[rate]
    assert words in found.methods and f"composed {words}" in text.replace(found.methods, "")
    assert text.count("by their privacy") == 2 * (rate < 1)


def test_names_in_data_are_text_on_the_page():
    text = skdpfl.report(FITTED["budgets"]()).to_html()
    assert "<b>" not in text and "&lt;b&gt;south&lt;/b&gt;" in text


def test_what_nothing_paid_for_is_said_first():
    model = make_pipeline(StandardScaler(), classifier()).fit(X, Y)
    with pytest.warns(PrivacyLeakWarning, match="standardscaler"):
        found = skdpfl.report(model)
    assert "This is not differentially private" in found.methods and found.spent.epsilon == np.inf
    page = found.to_html()
    assert page.index("Not paid for: standardscaler") < page.index("What is protected")
    declared = skdpfl.report(model, public=["standardscaler"])
    assert "steps declared to cost nothing" in declared.to_html() and declared.spent.epsilon <= 2
    read(page)


def test_all_fits_on_the_records_are_told():
    with PrivacyLedger(4.0, delta=1e-4) as ledger:
        describe(X, feature_bounds=(-4, 4), silos=SILOS)
        model = classifier(delta=1e-4).fit(X, Y, silos=SILOS)
    found = skdpfl.report(model, ledger=ledger)
    assert "All 2 fits on these records (describe, ISRLDPClassifier) cost" in found.methods
    spent = at_most(ledger.table()["spent"].iloc[-1])
    assert f"epsilon = {spent} and delta = 0.0001, held below epsilon = 4" in found.methods
    assert "1. describe" in " ".join(read(found.to_html()).words)
    with pytest.raises(ValueError, match="No fit has been recorded"):
        skdpfl.report(model, ledger=PrivacyLedger(1.0))


def test_a_board_finds_what_it_signs():
    """Each block, in words; the register has the same as plain data."""
    model = classifier(epsilon=1.0, delta=1e-5).fit(X, Y, silos=SILOS)
    spent = model.privacy_spent_

    class Score(float):
        noise, privacy_spent = 0.02, spent

    found = skdpfl.report(
        model,
        purpose="triage of patients <65",
        period="2019 to 2024",
        contact="dpo@example.org",
        retention="five years",
        persons=3,
        utility={"accuracy": Score(0.81), "accuracy, women": 0.79},
    )
    text = " ".join(read(found.to_html()).words)
    for words in (
        "triage of patients <65",
        "dpo@example.org",
        f"epsilon {at_most(spent.group(3).epsilon)}, as declared",
        "0.81, with noise of deviation 0.02; cost epsilon 1.00",
        "0.79 (as declared",
        "zero-concentrated",
        "Nothing is assumed of the server",
        "a cryptographic stream",
        "none is attached",
        "Side channels",
    ):
        assert words in text, words
    plain = json.loads(json.dumps(found.to_registry()))
    assert plain["declared"]["records_per_person"] == 3
    assert PrivacySpent.from_dict(plain["privacy_spent"]) == spent
    with pytest.raises(ValueError, match="persons"):
        skdpfl.report(model, persons=0)


def test_the_bound_on_an_attacker_is_the_gaussian_trade_off_curve():
    """Of plain Gaussians it is Phi(Phi^-1(a) + mu), which the grid exceeds by little."""
    model = ISRLDPClassifier(1.0, n_rounds=3, scaling=None, calibrate=False).fit(X, Y, silos=SILOS)
    mu = 2 * np.sqrt(3) / model.privacy_spent_.noise_multiplier
    rates = skdpfl.report(model).to_registry()["true_positive_rates"]
    for rate, most in rates.items():
        exact = norm.cdf(norm.ppf(float(rate)) + mu)
        assert exact * (1 - 1e-6) <= most <= 1.03 * exact


def at_most(epsilon):
    return f"{np.ceil(epsilon * 100 - 1e-9) / 100:.2f}"


def test_a_page_is_saved(tmp_path):
    found = skdpfl.report(FITTED["imputer"]())
    path = found.save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == found.to_html()
    assert repr(found).startswith("PrivacyReport(DPSimpleImputer, PrivacySpent(")


def test_what_is_not_fitted_has_no_page():
    with pytest.raises(Exception, match="not fitted"):
        skdpfl.report(classifier())


# ---- affordable_features: a number of columns from public numbers --------------------------------

SIZES = [300] * 6  # 1,800 records


def test_without_privacy_nothing_limits_it_and_at_least_one_column_is_named():
    assert affordable_features(ISRLDPClassifier(epsilon=np.inf), silo_sizes=SIZES) == 2**14
    assert affordable_features(ISRLDPRegressor(epsilon=0.01), silo_sizes=[20, 20]) == 1


@pytest.mark.parametrize("model", [DPFedAvgClassifier(unit="silo"), ISRLDPClassifier(model=MLP())])
def test_whole_silos_and_networks_are_refused(model):
    with pytest.raises(ValueError, match="linear models with unit"):
        affordable_features(model, silo_sizes=SIZES)
