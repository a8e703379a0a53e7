"""Rollback of an instant that never completed, in Hudi's steps: its plan, its acts, the markers it goes by."""
