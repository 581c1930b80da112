"""The main job (grows with the estimators)."""

import skdpfl

print("skdpfl", skdpfl.__version__)
