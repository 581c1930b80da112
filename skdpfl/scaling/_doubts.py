"""What counts tell of features whose scales cannot be found, in words."""

from __future__ import annotations

_UNSEEN = (
    "As far as the noise tells, all features are 0 in nearly all records (or below 1e-6, which "
    "counts as 0), so their scales were not found. Give feature_bounds, or values in other units."
)
_FAR = (
    "{} are beyond 5e11 in many records, where scales are not looked for: the result may be of no "
    "use. Give them in other units, less a public number (days since a date, not nanoseconds "
    "since 1970), or give feature_bounds."
)


def doubts_about(far: tuple[int, ...], unseen: bool) -> list[str]:
    """Return warnings of features beyond the grid of counts, and of those that it cannot see."""
    said = [_UNSEEN] if unseen else []
    return [*said, _FAR.format(values_of(far))] if far else said


def values_of(features: tuple[int, ...]) -> str:
    """Return words for which features' values are meant."""
    if len(features) == 1:
        return f"The values of feature {features[0]}"
    more = ", ..." if len(features) > 5 else ""
    return f"The values of {len(features)} features ({', '.join(map(str, features[:5]))}{more})"
