"""What is measured: accuracies from a run's history, and the rules that select one number from a curve.

Nothing is imported here: `pflrepro.metrics.accuracy` and `pflrepro.metrics.selection` load when they are asked for.
"""
