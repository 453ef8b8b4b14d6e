"""The operations of mirror ascent, compiled and parallel: one file a geometry."""
