"""More of tests/federation/test_clusters.py: what only private names show."""

from joblib import cpu_count

from skdpfl.federation import _local


def test_threads_are_those_of_this_computer(monkeypatch):
    monkeypatch.setattr(_local, "effective_n_jobs", lambda n_jobs: 10_000)  # a cluster's
    assert _local._threads(-1) == cpu_count()
    monkeypatch.undo()
    assert _local._threads(None) == _local._threads(1) == 1
