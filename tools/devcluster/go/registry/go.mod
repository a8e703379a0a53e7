module bucketingest.dev/tools/devcluster/registry

go 1.25.0

tool github.com/distribution/distribution/v3/cmd/registry
