"""Measurements that pages and tests use; a package, so that no installed one hides it."""
