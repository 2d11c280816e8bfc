"""The headline: the ratio of two arms' variances over seeds, by a Student-t model that uses shared seeds."""
