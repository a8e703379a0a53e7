"""`helm test` runs this with the operator's identity: it prints each result, and ends at the first failure."""

import json
import os
import ssl
import sys
import time
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
API = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
NAMESPACE = os.environ["NAMESPACE"]


def ask(path, body=None):
    context = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
    with open(f"{ACCOUNT}/token", encoding="utf-8") as token:
        headers = {"Authorization": f"Bearer {token.read()}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(API + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return json.load(answer)


def may(verb, resource, group=""):
    wanted = {"namespace": NAMESPACE, "verb": verb, "resource": resource, "group": group}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = ask(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {**review, "spec": {"resourceAttributes": wanted}}
    )
    if not answer["status"].get("allowed"):
        sys.exit(f"the operator may not {verb} {resource} in {NAMESPACE}")


found = ask(f"/apis/bucketingest.dev/v1alpha1/namespaces/{NAMESPACE}/bucketingests")
print(f"bucketingests are served; {NAMESPACE} has {len(found['items'])}")
for verb, resource, group in (
    ("patch", "bucketingests", "bucketingest.dev"),
    ("create", "pods", ""),
    ("delete", "pods", ""),
    ("create", "configmaps", ""),
    ("create", "jobs", "batch"),
    ("create", "roles", "rbac.authorization.k8s.io"),
):
    may(verb, resource, group)
print("the operator has its rights")
for _ in range(15):  # right after an upgrade the Service may still use the previous pod
    try:
        with urllib.request.urlopen(f"{os.environ['OPERATOR']}/readyz", timeout=2) as answer:
            print(f"the operator answers: {answer.status}")
            break
    except OSError as error:
        print(f"the operator does not answer yet: {error}")
        time.sleep(0.5)
else:
    sys.exit("the operator does not answer")
