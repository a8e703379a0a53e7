"""The objects that the operator makes for an attempt, and the settings that an administrator chooses."""
