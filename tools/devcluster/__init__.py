"""A real Kubernetes for tests and demos: the user's own (KUBECONFIG), kind, or one embedded node on this machine.

The embedded node needs neither Docker nor an image registry in reach: control plane, kubelet, containerd and a registry
run in namespaces of their own, so that ending one process ends it all. `python -m devcluster up` brings it up.
"""
