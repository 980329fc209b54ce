"""A minute of training, with a kill every six seconds."""

import random

import churn


def test_a_training_outlives_a_kill_every_six_seconds(pool):
    """Two clusters and two spares; what one cluster does at each fault, test_fault_points has."""
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    report = churn.train(pool, churn.Plan(seconds=60.0, seed=seed, kill_every=6.0))
    print(report.describe())
    churn.check(report)
    assert len(report.kills) == 10
    assert report.kills[0].mended is not None, "within nine more kills"
    assert [kill.victim for kill in report.kills].count("server") == 2
