"""Estimators with the interface of scikit-learn."""

from whichvars.estimator.classifier import VariableSelectorClassifier as VariableSelectorClassifier
from whichvars.estimator.regressor import VariableSelector as VariableSelector
