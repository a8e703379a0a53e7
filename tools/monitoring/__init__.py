"""Alerts and dashboards of bucketingest as one typed model, which generates the files for Prometheus and Grafana.

`python -m monitoring` writes them to `charts/bucketingest/files/`.
"""
