"""Data frames that know what their columns were called in earlier versions."""

from __future__ import annotations

from typing import Any

import pandas as pd

#: Names of columns in the tables of `infer`, `bootstrap_network` and `network_test`: as they were, and as they are.
_NOW = {
    "a": "variable1", "b": "variable2", "class_1": "class1", "class_2": "class2", "estimate": "partial_correlation",
    "p": "p_value", "q": "q_value",
}  # fmt: skip


class Table(pd.DataFrame):  # type: ignore[misc]
    """A data frame that names the new word to whoever reads a column by its old one."""

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled as a plain data frame, which can be read without this package."""
        return pd.concat, ([pd.DataFrame(self)],)

    def __getitem__(self, key: Any) -> Any:
        """As in pandas; a KeyError says how a column is called now."""
        try:
            return super().__getitem__(key)
        except KeyError as error:
            self._say_new_name([key] if isinstance(key, str) else key if isinstance(key, list) else [], error)
            raise

    def __getattr__(self, name: str) -> Any:
        """As in pandas; an AttributeError says how a column is called now."""
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            self._say_new_name([name], error)
            raise

    def _say_new_name(self, names: list[Any], error: Exception) -> None:
        for name in names:
            if name in _NOW and name not in self.columns and _NOW[name] in self.columns:
                raise type(error)(f"Column {name!r} is called {_NOW[name]!r} now.") from error
