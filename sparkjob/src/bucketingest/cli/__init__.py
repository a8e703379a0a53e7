"""The commands: run, validate, inspect, demo. What a person or a pod types; everything it does is in the layers below."""
