"""The River estimators."""
