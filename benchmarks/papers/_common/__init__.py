"""What the papers' figures share: cells, equal tuning, tables, pictures and pages."""
