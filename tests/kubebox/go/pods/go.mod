module opensearch-chaos/pods

go 1.24.0
