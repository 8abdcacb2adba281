"""Whether what a server says reaches a caller unchanged, feature by feature, for every pair of eras and transport."""
