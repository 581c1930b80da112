from skdpfl.inspection._before_fit import (
    Heterogeneity as Heterogeneity,
    affordable_features as affordable_features,
    heterogeneity as heterogeneity,
)
from skdpfl.inspection._score_displays import (
    DPCalibrationDisplay as DPCalibrationDisplay,
)
from skdpfl.inspection._utility import ConvergenceDisplay as ConvergenceDisplay
from skdpfl.inspection._cost import privacy_spent as privacy_spent
from skdpfl.inspection._describe import (
    correlation as correlation,
    describe as describe,
    histogram as histogram,
    quantile as quantile,
    value_counts as value_counts,
)
from skdpfl.inspection._local_comparison import (
    LocalComparisonDisplay as LocalComparisonDisplay,
    local_comparison as local_comparison,
)
from skdpfl.inspection._display import (
    CoefficientDisplay as CoefficientDisplay,
    CountsDisplay as CountsDisplay,
    QuantilesDisplay as QuantilesDisplay,
    ShapeDisplay as ShapeDisplay,
)
from skdpfl.inspection._score_displays import (
    PrivateScore as PrivateScore,
    private_score as private_score,
)
from skdpfl.inspection._report import report as report
from skdpfl.inspection._score_displays import (
    DPConfusionMatrixDisplay as DPConfusionMatrixDisplay,
    DPRocCurveDisplay as DPRocCurveDisplay,
)
from skdpfl.inspection._utility import PrivacySpentDisplay as PrivacySpentDisplay
from skdpfl.inspection._survival import (
    SurvivalDisplay as SurvivalDisplay,
    kaplan_meier as kaplan_meier,
)
from skdpfl.inspection._utility import PrivacyUtilityDisplay as PrivacyUtilityDisplay
