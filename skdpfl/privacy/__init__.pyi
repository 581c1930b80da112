from skdpfl.independence import check_independent as check_independent
from skdpfl.inspection.audits import audit_epsilon as audit_epsilon
from skdpfl.privacy.calibration import (
    epsilon_of as epsilon_of,
    n_steps_for as n_steps_for,
    noise_multiplier_for as noise_multiplier_for,
)
from skdpfl.privacy.plan import PrivacyPlan as PrivacyPlan
from skdpfl.privacy.events import (
    Guarantee as Guarantee,
    SecureAggregation as SecureAggregation,
)
from skdpfl.privacy.spending.spent import epsilon_per_record as epsilon_per_record
from skdpfl.privacy.spending.ledger import PrivacyLedger as PrivacyLedger
from skdpfl.privacy.spending.spent import PrivacySpent as PrivacySpent
