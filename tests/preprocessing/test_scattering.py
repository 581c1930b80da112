"""The scattering transform: its numbers, record by record, and its place in scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from skdpfl import ISRLDPClassifier, privacy_spent
from skdpfl.exceptions import PrivacyLeakWarning
from skdpfl.preprocessing import ScatteringTransformer

RNG = np.random.default_rng(0)
IMAGES = RNG.random((7, 784), dtype=np.float32)


@pytest.mark.slow
def test_a_record_is_transformed_by_itself_to_the_last_bit():
    whole = ScatteringTransformer().fit_transform(IMAGES)
    for i, record in enumerate(IMAGES):
        np.testing.assert_array_equal(
            whole[i], ScatteringTransformer().fit_transform(record[None])[0]
        )
    wild = IMAGES.copy()
    wild[2] = 3e38
    others = np.arange(7) != 2
    again = ScatteringTransformer(n_jobs=2).fit_transform(wild)
    np.testing.assert_array_equal(again[others], whole[others])


def test_it_costs_nothing():
    y = np.arange(7) % 2
    clf = ISRLDPClassifier(epsilon=2.0, delta=1e-3, classes=[0, 1], scaling=None, random_state=0)
    model = make_pipeline(ScatteringTransformer(), clf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(IMAGES, y)
        warnings.simplefilter("error", PrivacyLeakWarning)
        assert privacy_spent(model) == clf.privacy_spent_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"J": 0}, "J"),
        ({"L": 1.5}, "L"),
        ({"J": 5}, "averages over 32 pixels"),
        ({"image_shape": (28, 29)}, "812 pixels"),
        ({"image_shape": 28}, "image_shape must"),
        ({"image_shape": (1, 1, 28, 28)}, "image_shape must"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        ScatteringTransformer(**parameters).fit(IMAGES)


def test_records_must_be_images():
    with pytest.raises(ValueError, match="not square images"):
        ScatteringTransformer().fit(IMAGES[:, :-1])


NO_IMAGES = ("not square images", "more than images of")


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.func.__name__)
        for _, check in estimator_checks_generator(ScatteringTransformer(J=1, L=2))
    ],
)
def test_scikit_learn(check):
    try:
        check(ScatteringTransformer(J=1, L=2))
    except (ValueError, AssertionError) as error:
        if not any(words in f"{error} {error.__cause__}" for words in NO_IMAGES):
            raise
        pytest.skip("the check's records are no images")
