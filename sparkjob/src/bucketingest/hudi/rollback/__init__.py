"""Rollback of an instant that never completed, in Hudi's steps: its plan, its steps, the markers that it uses."""
