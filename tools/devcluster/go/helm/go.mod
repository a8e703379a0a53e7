module bucketingest.dev/tools/devcluster/helm

go 1.25.0

tool helm.sh/helm/v3/cmd/helm
