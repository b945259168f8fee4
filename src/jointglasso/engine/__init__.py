"""From a checked problem to a certified solution."""

from jointglasso.engine.execute import solve

__all__ = ["solve"]
