"""Archive: completed instants leave the active timeline for the archived history."""
