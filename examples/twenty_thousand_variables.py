"""Twenty thousand variables on a laptop: look before you leap, then solve with a safety net.

The three p x p covariance matrices would take 9.6 GB; here none of them ever exists.
"""

import tempfile

import numpy as np

import jointglasso as jgl

draw = np.random.default_rng(0)
samples = {}
for name in ("control", "early", "late"):
    X = draw.standard_normal((200, 20_000))
    X[:, :5_000] += 1.2 * draw.standard_normal((200, 500)).repeat(10, axis=1)  # 500 modules of 10
    samples[name] = X
source = jgl.SampleCovariance(samples, scale="correlation")

curve = jgl.component_curve(source, ratio=0.3)
print(curve)
lambda1, lambda2 = curve.smallest_lambda(largest_block=300)
print(f"The smallest penalties with blocks of at most 300 variables: {lambda1:.3f}, {lambda2:.3f}")
print(jgl.plan(source, lambda1, lambda2))

with tempfile.TemporaryDirectory() as folder:  # in earnest, a folder that stays: the same call goes on after a crash
    solution = jgl.solve(source, lambda1, lambda2, checkpoint=folder)
print(solution)
print({stage: round(seconds, 1) for stage, seconds in solution.timings.items()})
