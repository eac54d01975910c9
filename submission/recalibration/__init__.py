"""The reference calibrators of step 3: fitted on the calibration rows, frozen, written down, applied.

Kinds and shapes: binary ``p`` (N, 1) holding p_1 and ``y`` (N,); multiclass (N, K) and (N,); multilabel (N, K) and
(N, K), one map a finding, label -1 = not labelled. All arithmetic is float64.

Source: protocol, section 3.3 (temperature scaling and one non-parametric method beside the uncalibrated model).
"""

from submission.recalibration.fitting import apply, fit
from submission.recalibration.records import write_calibrators
from submission.recalibration.words import DEFAULTS, METHOD_WORDS

__all__ = ["DEFAULTS", "METHOD_WORDS", "apply", "fit", "write_calibrators"]
