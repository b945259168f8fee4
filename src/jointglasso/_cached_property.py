"""`functools.cached_property` without its lock, as from Python 3.12 on.

In Python 3.11 one lock serves all instances: threads wait for each other, and a process that is forked while a thread
evaluates a property waits for ever when it reads the same one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:
    import functools

    class cached_property(functools.cached_property):
        """Evaluates a method at its first use and keeps the value in the instance."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]
