"""Costs as objects and books: ``PrivacySpent``, sums, groups of records, and the ledger."""
