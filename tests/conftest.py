"""Signals as in a terminal: a suite begun in the background is born with some of them ignored.

Examples of hypothesis are the same ones in every run, and take as long as they take: a busy machine is no failure.
"""

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")
