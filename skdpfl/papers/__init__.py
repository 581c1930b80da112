"""What the papers behind this library state, one file for each: for comparison only.

Accounting, theorems, rates, schedules and lower bounds by the papers' own formulas, so that their
tables can be checked and compared with sound accounting. **No estimator uses them, and**
``privacy_spent_`` **does not report them**: some formulas credit amplification that does not exist
for single records, some count noise of other silos on which a single record cannot rely, and nearly
all are loose by an order of magnitude. Each docstring of a price gives its reason in a paragraph
"Why this is not what the library reports".

Sound numbers come from :func:`skdpfl.privacy.epsilon_of`.
"""

from skdpfl._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, __file__)
