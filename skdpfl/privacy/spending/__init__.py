"""Privacy costs: ``PrivacySpent``, sums, groups of records, and the ledger."""
