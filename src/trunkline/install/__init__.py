"""Where servers come from: manifests, the well-known ones, and registries."""
