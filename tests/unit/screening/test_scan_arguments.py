"""What a scan is asked for: the largest gauge over all tiles, and the wider penalty of sparse storage."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from bank import from_samples
from jointglasso import config
from jointglasso.engine.screening import Screen
from jointglasso.penalties import GroupPenalty, as_pair_weights, make_penalty
from jointglasso.problem import make_problem
from jointglasso.screening.curve import lambda_max
from jointglasso.screening.pairs import known_pairs, scan_pairs, scan_slack, wider_penalty


@pytest.mark.parametrize("penalty", ["group", "fused", "maximum"])
@pytest.mark.parametrize("tile", [3, 100])
def test_lambda_max_is_the_largest_gauge_of_all_pairs(penalty, tile, monkeypatch):
    monkeypatch.setattr(config, "TILE", tile)
    i, j = np.triu_indices(10, 1)
    for seed in range(4):
        S, w = from_samples(3, 10, 30, seed, common=0.3), np.array([0.5, 1.0, 2.0])
        rows = (w[:, None, None] * S)[:, i, j].T
        for direction in ((1.0, 0.0), (1.0, 0.3), (0.2, 1.0)):
            unit = make_penalty(penalty, *direction, None, list("abc"))
            gauges = unit.gauge(*unit.as_entries(rows))
            options = {"weights": w, "penalty": penalty}
            assert lambda_max(S, [direction], **options)[0] == pytest.approx(gauges.max(), rel=1e-12)
            # A light pair decides, wherever it is; a heavy one leaves the decision to the others.
            for pair, weight in ((3, 1e-3), (int(gauges.argmax()), 10.0), (int(gauges.argmax()), np.inf)):
                factor = np.ones(len(i))
                factor[pair] = weight
                light = {(int(i[pair]), int(j[pair])): weight}
                expected = (gauges / factor).max()
                found = lambda_max(S, [direction], pair_weights=light, **options)[0]
                assert found == pytest.approx(expected, rel=1e-12)


def test_a_wider_penalty_has_the_slack_of_sparse_storage(monkeypatch):
    """It lists the pairs from a fraction of the box in the dual ball on, unless they are too many or already known."""
    monkeypatch.setattr(config, "SPARSE_BLOCK", 20)
    rng, w = np.random.default_rng(0), np.array([1.0, 2.0])
    X = [rng.standard_normal((400, 40)) for _ in w]
    source, penalty = jgl.SampleCovariance(X, scale="correlation"), GroupPenalty(0.3, 0.0)
    wider = wider_penalty(source, penalty, w, None)
    slack, box = scan_slack(wider, [wider.threshold(k) for k in range(2)])
    assert wider.threshold(0) == pytest.approx((1.0 - config.SCAN_SLACK) * scan_slack(penalty, [0.3, 0.3])[1])
    assert wider.lambda1 < penalty.lambda1 and scan_slack(penalty, [wider.lambda1] * 2)[0] == pytest.approx(
        config.SCAN_SLACK * box * penalty.lambda1 / wider.lambda1
    )
    assert slack < config.SCAN_SLACK * box
    roomy = GroupPenalty(0.3, 0.3)  # has more slack than that
    assert wider_penalty(source, roomy, w, None) is roomy
    assert wider_penalty(source, GroupPenalty(0.0, 0.0), w, None).scale == 0.0
    light = as_pair_weights({(a, b): 0.5 for a in range(40) for b in range(a)}, [str(n) for n in range(40)], ["a", "b"])
    monkeypatch.setattr(config, "SPARSE_PAIRS", 5.0)
    assert wider_penalty(source, penalty, w, light) is penalty
    monkeypatch.setattr(config, "SPARSE_PAIRS", 20.0)
    with known_pairs(source, penalty, w):
        assert wider_penalty(source, penalty, w, None) is penalty
    monkeypatch.setattr(config, "SPARSE_BLOCK", 41)
    assert wider_penalty(source, penalty, w, None) is penalty
    monkeypatch.setattr(config, "SPARSE_BLOCK", 20)
    dense = GroupPenalty(1e-3, 0.0)  # nearly every pair exceeds it
    monkeypatch.setattr(config, "SPARSE_PAIRS", 19.0)
    assert wider_penalty(source, dense, w, None) is dense


@pytest.mark.parametrize("rule", ["dynamic", "hybrid", "class"])
def test_a_screen_keeps_the_pairs_of_its_own_penalty(rule):
    """Of a scan at smaller penalties, which stays known as a whole."""
    S = from_samples(2, 12, 40, 1, common=0.3)
    problem = make_problem(S, 0.3, 0.1)
    wide = scan_pairs(problem.source, GroupPenalty(0.1, 0.1), problem.weights)
    own = scan_pairs(problem.source, problem.penalty, problem.weights)
    screen = Screen(problem, rule, wide)
    assert len(own.rows) < len(wide.rows)
    assert screen.scanned is wide
    np.testing.assert_array_equal(screen.pairs.rows, own.rows)
    np.testing.assert_array_equal(screen.pairs.columns, own.columns)
    assert Screen(problem, rule, own).pairs is own
    assert screen.partition == Screen(problem, rule, own).partition
