"""A minute of training in all, with a kill every six seconds."""

import random

import churn
import pytest


@pytest.mark.parametrize("clusters", [1, 2])
def test_a_training_outlives_a_kill_every_six_seconds(pool, clusters):
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    plan = churn.Plan(seconds=30.0, seed=seed, clusters=clusters, kill_every=6.0)
    report = churn.train(pool, plan)
    print(report.describe())
    churn.check(report)
    assert len(report.kills) == 5
    assert report.kills[0].mended is not None, "within four more kills"
    assert "server" in [kill.victim for kill in report.kills]
