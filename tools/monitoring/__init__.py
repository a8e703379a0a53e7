"""Alerts and dashboards of bucketingest as one typed model, from which the files for Prometheus and Grafana are made.

`python -m monitoring` writes them to `charts/bucketingest/files/`, where they are checked in.
"""
