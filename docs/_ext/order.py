"""The order of the examples: from the first question to the last."""

from pathlib import Path

STORIES = (
    "plot_from_look_to_paper.py",
    "plot_insurance.py",
    "plot_choosing_epsilon.py",
    "plot_heart_disease.py",
    "plot_heterogeneity.py",
    "plot_obesity.py",
    "plot_messy_frame.py",
    "plot_private_search.py",
    "plot_whole_silos.py",
    "plot_own_algorithm.py",
)


class StoryOrder:
    """Sort key for sphinx-gallery; an example that is not listed comes last."""

    def __init__(self, src_dir=None):
        pass

    def __call__(self, filename):
        name = Path(filename).name
        return STORIES.index(name) if name in STORIES else len(STORIES), name

    def __repr__(self):
        return "<StoryOrder>"
