"""The objects that the operator makes for an attempt, and the settings that whoever installs it decides."""
