"""Bundles: one file that reproduces one finding, packed, verified, shown and replayed (docs/bundle.md)."""
