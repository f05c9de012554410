"""The ledger: failures that were packed, one entry for each, asked about again on newer engines (docs/ledger.md)."""
