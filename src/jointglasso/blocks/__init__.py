"""Flat storage of class blocks (`BlockSystem`) and linear algebra on it."""

from jointglasso.blocks.system import BlockSystem, build_system

__all__ = ["BlockSystem", "build_system"]
