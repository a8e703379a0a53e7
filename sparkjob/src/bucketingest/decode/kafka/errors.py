"""Why messages that a task read itself are read again by Spark."""

from __future__ import annotations


class TopicInDoubt(Exception):
    """Messages are lost, or cannot be read here: what is to happen then is Spark's to say."""
