"""The commands run, validate, inspect and demo: what a person or a pod types. The work is done in the layers below."""
