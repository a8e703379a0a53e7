"""The embedded node: what it needs of the machine, its network, cgroups and volumes, and how it starts."""
