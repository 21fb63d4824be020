"""Found by Spark itself, which looks for modules of this kind on its Python path."""

from dragoman.pipeline.source import DragomanSource as DefaultSource

__all__ = ["DefaultSource"]
