"""The control path: learns which servers exist and how they fare, and publishes snapshots."""
